"""The `options` block, in which clients of Ollama and of mlx2 send sampling on the OpenAI wires. Knows no endpoint."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import msgspec

from dragoman.core.errors import InvalidField, InvalidRequest
from dragoman.dialects.decoding import convert, unknown_fields

_NAMES = {"num_predict": "max_tokens"}
_LIMITS = ("max_completion_tokens", "max_output_tokens", "max_tokens", "n_predict")
_FILL = -2  # Ollama's word for an answer up to the end of the window


class OptionFields(msgspec.Struct, kw_only=True):
    """`options`. `num_ctx` cannot change the window of a loaded model."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    num_predict: int | None = None
    num_ctx: int | None = None
    thinking_budget: int | None = None


class Flattened(msgspec.Struct, frozen=True):
    """A body whose options stand beside its other fields. `moved` are those fields with their path on the wire,
    `ignored` what of the options is of no consequence."""

    value: dict[str, Any]
    moved: dict[str, str] = {}
    ignored: tuple[str, ...] = ()


def flattened(value: dict[str, Any]) -> Flattened:
    """`value` without its options block. Raises InvalidField for an option nobody knows, or one that says something
    else than the field it stands for."""
    block = value.get("options")
    if block is None:
        return Flattened({name: item for name, item in value.items() if name != "options"})
    options = convert(block, OptionFields, "options")
    for name in unknown_fields(block, OptionFields):
        allowed = ", ".join(OptionFields.__struct_fields__)
        raise InvalidField(f"Invalid 'options': '{name[:40]}' is not one of {allowed}.", field=f"options.{name[:40]}")
    body, moved = {name: item for name, item in value.items() if name != "options"}, dict[str, str]()
    for name, item in msgspec.structs.asdict(options).items():
        if item is not None and name != "num_ctx":
            field = _NAMES.get(name, name)
            _agree(body, field, item, f"options.{name}")
            body[field], moved[field] = (-1 if name == "num_predict" and item == _FILL else item), f"options.{name}"
    return Flattened(body, moved, () if options.num_ctx is None else ("options.num_ctx",))


@contextmanager
def told_as(moved: dict[str, str]) -> Generator[None]:
    """Errors about a field that was an option name the option."""
    try:
        yield
    except InvalidRequest as error:
        if error.field in moved:
            error.field = moved[error.field]
        raise


def _agree(body: dict[str, Any], field: str, item: Any, at: str) -> None:
    for name in _LIMITS if field == "max_tokens" else (field,):
        if body.get(name) is not None and body[name] != item:
            raise InvalidField(f"'{at}' and '{name}' differ.", field=at, remedy="Send one of them.")
