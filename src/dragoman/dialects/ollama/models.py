"""What Ollama tells of models: tags, show, ps, version. Writes cards; finds and loads nothing."""

from __future__ import annotations

from functools import partial
from typing import Any, cast

import msgspec

from dragoman.core.model import ModelCard
from dragoman.core.names import NamedModel
from dragoman.core.operations import ModelRequest, ModelsRequest, ModelState
from dragoman.core.sampling import SamplingSpec
from dragoman.dialects.base import SmallCall, StaticCall, WireRequest
from dragoman.dialects.decoding import unknown_fields
from dragoman.dialects.ollama.body import decode_body, model_of
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
    """GET /api/ps: every served model is loaded, whatever its clients wished for it."""
    return SmallCall(request=ModelsRequest(), write=_write_running)


def read_version(wire: WireRequest) -> StaticCall:
    """GET /api/version."""
    return StaticCall(body=_encode({"version": COMPATIBLE_VERSION}), content_type=JSON)


def read_show(wire: WireRequest) -> SmallCall:
    """POST /api/show."""
    fields, body = decode_body(wire, ShowBody)
    write = partial(_write_show, verbose=body.verbose is True)
    return SmallCall(request=ModelRequest(model_of(body)), write=write, ignored=unknown_fields(fields, ShowBody))


def names_of(card: ModelCard) -> list[str]:
    """The names a model is listed under: its id, then its aliases, each with a tag."""
    names = [name if ":" in name.rsplit("/", 1)[-1] else f"{name}:latest" for name in (card.id, *card.aliases)]
    return list(dict.fromkeys(names))


def _write_tags(states: tuple[ModelState, ...]) -> bytes:
    return _encode({"models": [_tag(state, name) for state in states for name in names_of(state.card)]})


def _write_running(states: tuple[ModelState, ...]) -> bytes:
    return _encode({"models": [_running(state) for state in states if state.named is None]})


def _tag(state: ModelState, name: str) -> dict[str, Any]:
    return {"name": name, "model": name, "modified_at": stamp_of(state.card.created), **_file(state)}


def _running(state: ModelState) -> dict[str, Any]:
    card = state.card
    name = names_of(card)[0]
    return {
        "name": name,
        "model": name,
        **_file(state),
        "expires_at": NEVER if state.expires is None else stamp_of(int(state.expires)),
        # How much of it lies in memory of a graphics card is not known here.
        "size_vram": 0,
        "context_length": card.context_length,
    }


def _file(state: ModelState) -> dict[str, Any]:
    card = state.card
    return {"size": card.size_bytes, "digest": card.digest.removeprefix("sha256:"), "details": _details(state)}


def _details(state: ModelState) -> dict[str, Any]:
    card = state.card
    return {
        "parent_model": state.named.base if state.named else "",
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


def _write_show(state: ModelState, *, verbose: bool) -> bytes:
    card, named = state.card, state.named
    parameters = _parameters(state)
    told: dict[str, Any] = {
        "modelfile": modelfile(state, parameters),
        "parameters": "\n".join(parameters),
        "template": card.chat_template,
        "details": _details(state),
        "model_info": _model_info(card),
        "capabilities": _capabilities(card),
        "modified_at": stamp_of(card.created),
    }
    if verbose:
        # The tensors stay unread: they would only be listed.
        told["tensors"] = []
    return _encode(told if named is None else {**told, **_given(named)})


def _given(named: NamedModel) -> dict[str, Any]:
    """What was given with a name."""
    settings = named.settings
    messages = [{"role": message.role, "content": message.text} for message in settings.messages]
    told = (("license", "\n".join(named.license)), ("system", settings.system), ("messages", messages))
    return {name: value for name, value in told if value}


def modelfile(state: ModelState, parameters: list[str]) -> str:
    """The model as a Modelfile."""
    named = state.named
    lines = [f"FROM {named.base if named else state.card.id}"]
    if named and named.settings.template:
        lines.append(f'TEMPLATE """{named.settings.template}"""')
    if named and named.settings.system:
        lines.append(f'SYSTEM """{named.settings.system}"""')
    lines += [f"PARAMETER {line}" for line in parameters]
    if named:
        lines += [f"MESSAGE {message.role} {message.text}" for message in named.settings.messages]
        lines += [f'LICENSE """{text}"""' for text in named.license]
    return "\n".join(lines) + "\n"


def _parameters(state: ModelState) -> list[str]:
    """One line for each; a given name's own words count but for the window, which no request changes."""
    card = state.card
    own = state.named.parameters if state.named else {}
    window = {"num_ctx": card.context_length}
    known = {**window, **dict(_named_parameters(card.sampling_defaults)), **own, **window}
    return [f"{name:<30} {_shown(one)}" for name, value in known.items() for one in _each(value)]


def _each(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else [value]


def _shown(value: object) -> str:
    return _encode(value).decode() if isinstance(value, str | bool) else str(value)


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
