"""LoRA adapters mounted and taken away while the server runs. Opens no file."""

from __future__ import annotations

from dragoman.core.errors import MissingField
from dragoman.core.slots import AdapterMount, Adapters, AdapterUnmount
from dragoman.dialects.base import SmallCall, WireRequest
from dragoman.dialects.decoding import convert, decode_object, unknown_fields
from dragoman.dialects.vllm.schema import LoadAdapterBody, UnloadAdapterBody

_TEXT = "text/plain; charset=utf-8"


def read_load(wire: WireRequest) -> SmallCall:
    """POST /v1/load_lora_adapter. Requests may use the adapter's name as a model's from then on."""
    fields = decode_object(wire.body)
    body = convert(fields, LoadAdapterBody)
    name = _needed(body.lora_name, "lora_name")
    request = AdapterMount(name, _needed(body.lora_path, "lora_path"), replace=body.load_inplace is True)

    def write(_: Adapters) -> bytes:
        return f"Success: LoRA adapter '{name}' added successfully.".encode()

    ignored = unknown_fields(fields, LoadAdapterBody)
    return SmallCall(request=request, write=write, ignored=ignored, content_type=_TEXT)


def read_unload(wire: WireRequest) -> SmallCall:
    """POST /v1/unload_lora_adapter."""
    fields = decode_object(wire.body)
    body = convert(fields, UnloadAdapterBody)
    name = _needed(body.lora_name, "lora_name")

    def write(_: Adapters) -> bytes:
        return f"Success: LoRA adapter '{name}' removed successfully.".encode()

    ignored = unknown_fields(fields, UnloadAdapterBody)
    return SmallCall(request=AdapterUnmount(name), write=write, ignored=ignored, content_type=_TEXT)


def _needed(value: str | None, name: str) -> str:
    if not value:
        raise MissingField("Both 'lora_name' and 'lora_path' must be provided.", field=name)
    return value
