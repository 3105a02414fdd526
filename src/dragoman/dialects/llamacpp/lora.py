"""/lora-adapters: which are mounted, and the scales of requests that choose none. Opens no file."""

from __future__ import annotations

from typing import cast

import msgspec

from dragoman.core.slots import Adapters, AdaptersRequest
from dragoman.dialects.base import SmallCall, WireRequest
from dragoman.dialects.llamacpp.body import decode
from dragoman.dialects.llamacpp.casts import as_float32
from dragoman.dialects.llamacpp.errors import NativeError
from dragoman.dialects.llamacpp.structured import lora_scales


def read_adapters(wire: WireRequest) -> SmallCall:
    """GET /lora-adapters."""
    return SmallCall(request=AdaptersRequest(model=wire.query.get("model") or None), write=_write_adapters)


def read_scales(wire: WireRequest) -> SmallCall:
    """POST /lora-adapters: adapters that are not listed get the scale 0."""
    body = decode(wire.body)
    if not isinstance(body, list):
        raise NativeError("Request body must be an array")
    return SmallCall(request=AdaptersRequest(lora_scales(cast("list[object]", body))), write=_write_done)


def _write_adapters(result: Adapters) -> bytes:
    return msgspec.json.encode(
        [
            {
                "id": place,
                "path": adapter.path,
                "scale": as_float32(adapter.scale.scale),
                "task_name": "",
                "prompt_prefix": "",
            }
            for place, adapter in enumerate(result.adapters)
        ]
    )


def _write_done(_: Adapters) -> bytes:
    return b'{"success":true}'
