"""What Ollama tells of models: tags, show, ps, version. Writes cards; finds and loads nothing."""

from __future__ import annotations

from typing import Any

import msgspec

from dragoman.core.errors import MissingField
from dragoman.core.model import ModelCard
from dragoman.core.operations import ModelRequest, ModelsRequest, ModelState
from dragoman.core.sampling import SamplingSpec
from dragoman.dialects.base import SmallCall, StaticCall, WireRequest
from dragoman.dialects.decoding import convert, decode_object, unknown_fields
from dragoman.dialects.ollama.schema import ShowBody
from dragoman.dialects.ollama.stamp import stamp_of

JSON = "application/json; charset=utf-8"

COMPATIBLE_VERSION = "0.13.5"
"""The Ollama version whose wire this is. Clients compare it: Codex wants at least 0.13.4."""

NEVER = "9999-12-31T23:59:59Z"
"""When a served model is unloaded."""

_encode = msgspec.json.encode

_PARAMETER_NAMES = {
    "temperature": "temperature",
    "top_k": "top_k",
    "top_p": "top_p",
    "min_p": "min_p",
    "typical_p": "typical_p",
    "repetition_penalty": "repeat_penalty",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
    "penalty_window": "repeat_last_n",
}


def read_tags(wire: WireRequest) -> SmallCall:
    """GET /api/tags."""
    return SmallCall(request=ModelsRequest(), write=_write_tags)


def read_running(wire: WireRequest) -> SmallCall:
    """GET /api/ps: every served model is loaded."""
    return SmallCall(request=ModelsRequest(), write=_write_running)


def read_version(wire: WireRequest) -> StaticCall:
    """GET /api/version."""
    return StaticCall(body=_encode({"version": COMPATIBLE_VERSION}), content_type=JSON)


def read_show(wire: WireRequest) -> SmallCall:
    """POST /api/show."""
    fields = decode_object(wire.body)
    body = convert(fields, ShowBody)
    name = body.model or body.name
    if not name:
        raise MissingField("model is required", field="model")
    return SmallCall(request=ModelRequest(name), write=_write_show, ignored=unknown_fields(fields, ShowBody))


def names_of(card: ModelCard) -> list[str]:
    """The names a model is listed under: its id, then its aliases, each with a tag."""
    names = [name if ":" in name.rsplit("/", 1)[-1] else f"{name}:latest" for name in (card.id, *card.aliases)]
    return list(dict.fromkeys(names))


def _write_tags(states: tuple[ModelState, ...]) -> bytes:
    return _encode({"models": [_tag(state.card, name) for state in states for name in names_of(state.card)]})


def _write_running(states: tuple[ModelState, ...]) -> bytes:
    return _encode({"models": [_running(state.card) for state in states]})


def _tag(card: ModelCard, name: str) -> dict[str, Any]:
    return {"name": name, "model": name, "modified_at": stamp_of(card.created), **_file(card)}


def _running(card: ModelCard) -> dict[str, Any]:
    name = names_of(card)[0]
    return {
        "name": name,
        "model": name,
        **_file(card),
        "expires_at": NEVER,
        # How much of it lies in memory of a graphics card is not known here.
        "size_vram": 0,
        "context_length": card.context_length,
    }


def _file(card: ModelCard) -> dict[str, Any]:
    return {"size": card.size_bytes, "digest": card.digest.removeprefix("sha256:"), "details": _details(card)}


def _details(card: ModelCard) -> dict[str, Any]:
    return {
        "parent_model": "",
        "format": card.format,
        "family": card.architecture,
        "families": [card.architecture] if card.architecture else [],
        "parameter_size": parameter_size(card.parameters),
        "quantization_level": card.quantization,
    }


def parameter_size(count: int) -> str:
    """A count as Ollama prints it: 134.52M, 8.0B; '' when unknown."""
    if count >= 10**9:
        return f"{count / 1e9:.1f}B"
    if count >= 10**6:
        return f"{count / 1e6:.2f}M"
    if count >= 10**3:
        return f"{count / 1e3:.2f}K"
    return str(count) if count else ""


def _write_show(state: ModelState) -> bytes:
    card = state.card
    parameters = _parameters(card)
    lines = [f"PARAMETER {line}" for line in parameters]
    return _encode(
        {
            "modelfile": "\n".join([f"FROM {card.id}", *lines]) + "\n",
            "parameters": "\n".join(parameters),
            "template": card.chat_template,
            "details": _details(card),
            "model_info": _model_info(card),
            "capabilities": _capabilities(card),
            "modified_at": stamp_of(card.created),
        }
    )


def _parameters(card: ModelCard) -> list[str]:
    given = _named_parameters(card.sampling_defaults)
    return [f"{name:<30} {value}" for name, value in (("num_ctx", card.context_length), *given)]


def _named_parameters(spec: SamplingSpec) -> list[tuple[str, object]]:
    return [(_PARAMETER_NAMES[name], value) for name, value in spec.given().items() if name in _PARAMETER_NAMES]


def _model_info(card: ModelCard) -> dict[str, Any]:
    """The metadata of the file, completed by what the card knows."""
    arch = card.architecture or "unknown"
    known: dict[str, Any] = {
        "general.architecture": arch,
        "general.parameter_count": card.parameters,
        f"{arch}.context_length": card.trained_context or card.context_length,
        f"{arch}.embedding_length": card.embedding_length,
        f"{arch}.vocab_size": card.vocab_size,
    }
    return {**{name: value for name, value in known.items() if value}, **card.metadata}


def _capabilities(card: ModelCard) -> list[str]:
    abilities = (
        ("completion", card.generation),
        ("tools", card.tools),
        ("thinking", card.thinking),
        ("embedding", card.embeddings),
    )
    return [name for name, able in abilities if able]
