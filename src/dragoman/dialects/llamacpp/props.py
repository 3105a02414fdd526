"""GET /props and /health: what this server is and whether it can answer, in llama-server's keys."""

from __future__ import annotations

import msgspec

from dragoman.core.errors import Unavailable
from dragoman.core.model import ModelCard
from dragoman.core.operations import Health, HealthRequest, ModelRequest, ModelState
from dragoman.dialects.base import SmallCall, StaticCall, WireRequest
from dragoman.dialects.llamacpp.sampling import read_chain
from dragoman.dialects.llamacpp.schema import read_scalars, server_of
from dragoman.dialects.llamacpp.settings import default_settings
from dragoman.dialects.llamacpp.tokens import JSON

_encode = msgspec.json.encode


def read_health(wire: WireRequest) -> SmallCall:
    """GET /health and /v1/health."""
    return SmallCall(request=HealthRequest(), write=_write_health)


def read_props_change(_: WireRequest) -> StaticCall:
    """POST /props: nothing can be changed that way, in llama-server neither."""
    return StaticCall(body=b'{"success":true}', content_type=JSON)


def read_props(wire: WireRequest) -> SmallCall:
    """GET /props; `?model=` picks one of several models."""
    return SmallCall(request=ModelRequest(wire.query.get("model") or None), write=_write_props)


def _write_health(health: Health) -> bytes:
    if health.status != "ok":
        raise Unavailable(health.detail or health.status, retry_after=2)
    return b'{"status":"ok"}'


def _write_props(state: ModelState) -> bytes:
    card = state.card
    return _encode(
        {
            "default_generation_settings": {
                "params": default_settings(read_scalars({}, server_of(card)), read_chain({})),
                "n_ctx": card.context_length,
            },
            "total_slots": card.lanes,
            "model_alias": card.id,
            "model_ftype": card.quantization,
            "model_path": card.path,
            "modalities": {"vision": False, "video": False, "audio": False},
            "media_marker": "<__media__>",
            "endpoint_slots": True,
            "endpoint_props": True,
            "endpoint_metrics": True,
            "ui": False,
            "ui_settings": {},
            "chat_template": card.chat_template,
            "chat_template_caps": _template_caps(card),
            "bos_token": card.bos_token,
            "eos_token": card.eos_token,
            "build_info": card.engine_build or card.engine,
            "is_sleeping": False,
            "cors_proxy_enabled": False,
        }
    )


def _template_caps(card: ModelCard) -> dict[str, bool]:
    """What the chat template itself renders; what this server adds to it does not count."""
    caps = card.template_caps
    return {
        "supports_object_arguments": {"tool_calls", "object_arguments"} <= caps,
        "supports_parallel_tool_calls": "parallel_tool_calls" in caps,
        "supports_preserve_reasoning": "reasoning" in caps,
        "supports_reasoning_effort": "reasoning_effort" in caps,
        "supports_string_content": "string_content" in caps,
        "supports_system_role": "system_role" in caps,
        "supports_tool_calls": "tool_calls" in caps,
        "supports_tools": "tools" in caps,
        "supports_typed_content": "typed_content" in caps,
    }
