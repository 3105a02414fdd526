"""The fields of llama-server's native bodies as data: name, aliases, C type, default and limits.

One table serves the reader, the echo of settings, the OpenAPI document and the compatibility manifest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, cast

import msgspec
from msgspec import Struct

from dragoman.core.model import ModelCard
from dragoman.dialects.llamacpp.casts import (
    FLOAT_MAX,
    INT32_MAX,
    INT64_MAX,
    as_float32,
    to_float,
    to_int32,
    to_int64,
    to_uint32,
)
from dragoman.dialects.llamacpp.errors import field_error, wrong_type

Kind = Literal["int32", "int64", "uint32", "float", "bool", "string"]
Scalar = int | float | bool | str


MOST_ANSWERS = 128
"""Answers per prompt where nobody knows how many can run side by side."""


class Limits(Struct, frozen=True):
    """A range. `hard` limits refuse a value outside it, soft ones move the value to the nearest end. With `lanes` the
    upper end is the number of slots."""

    low: float | None = None
    high: float | None = None
    hard: bool = False
    lanes: bool = False


class Server(Struct, frozen=True):
    """What of this server shapes the reading of a body: its slots, and its own defaults by field."""

    lanes: int = MOST_ANSWERS
    defaults: Mapping[str, Scalar] = {}


BARE = Server()


class Field(Struct, frozen=True):
    """A scalar request field. `default` is llama-server's own; `aliases` are tried in order after `name`."""

    name: str
    kind: Kind
    default: Scalar
    limits: Limits = Limits()
    aliases: tuple[str, ...] = ()

    def read(self, body: dict[str, Any], server: Server) -> Scalar:
        """The field's value in `body`: the first spelling that is there and not null, else the server's default."""
        for spelling in (self.name, *self.aliases):
            value = body.get(spelling)
            if value is not None:
                return self._checked(spelling, self._cast(spelling, value), server)
        return server.defaults.get(self.name, self.default)

    def _cast(self, spelling: str, value: object) -> Scalar:
        if self.kind == "bool":
            if not isinstance(value, bool):
                raise field_error(spelling, wrong_type("boolean", value))
            return value
        if self.kind == "string":
            if not isinstance(value, str):
                raise field_error(spelling, wrong_type("string", value))
            return value
        if not isinstance(value, int | float):
            raise field_error(spelling, wrong_type("number", value))
        return _CASTS[self.kind](value)

    def _checked(self, spelling: str, value: Scalar, server: Server) -> Scalar:
        if isinstance(value, str | bool):
            return value
        low, high = self.limits.low, server.lanes if self.limits.lanes else self.limits.high
        inside = (low is None or value >= low) and (high is None or value <= high)
        if inside:
            return value
        if self.limits.hard:
            raise field_error(spelling, self._range(value, low, high))
        nearest = low if low is not None and value < low else high
        return value if nearest is None else _CASTS[self.kind](nearest)

    def _range(self, value: float, low: float | None, high: float | None) -> str:
        if self.kind == "float":
            least, most = (f"{as_float32(number or 0.0):.6f}" for number in (low, high))
            got = "inf" if value >= FLOAT_MAX else "-inf" if value <= -FLOAT_MAX else f"{as_float32(value):.6f}"
        else:
            least, most, got = (str(number) for number in (low, high, value))
        return f"Value must be between {least} <= value <= {most}, but got {got}"


_CASTS: dict[str, Callable[[float], int | float]] = {
    "int32": to_int32,
    "int64": to_int64,
    "uint32": to_uint32,
    "float": to_float,
}

RANDOM_SEED = 2**32 - 1
_FROM_0 = Limits(0, INT32_MAX, hard=True)
_FROM_MINUS_1 = Limits(-1, INT32_MAX, hard=True)
_SHARE = Limits(0.0, 1.0)

FIELDS: tuple[Field, ...] = (
    Field("verbose", "bool", False),
    Field("timings_per_token", "bool", False),
    Field("stream", "bool", False),
    Field("cache_prompt", "bool", True),
    Field("return_tokens", "bool", False),
    Field("return_progress", "bool", False),
    Field("sse_ping_interval", "int32", 30, _FROM_MINUS_1),
    Field("n_predict", "int32", -1, _FROM_MINUS_1, ("max_completion_tokens", "max_tokens")),
    Field("n_indent", "int32", 0, _FROM_0),
    Field("n_keep", "int32", 0, _FROM_MINUS_1),
    Field("n_discard", "int32", 0, _FROM_0),
    Field("n_cmpl", "int32", 1, Limits(1, hard=True, lanes=True), ("n",)),
    Field("n_cache_reuse", "int32", 0, _FROM_0),
    Field("t_max_predict_ms", "int64", -1, Limits(-1, INT64_MAX, hard=True)),
    Field("top_k", "int32", 40, Limits(0, INT32_MAX)),
    Field("top_p", "float", 0.95, _SHARE),
    Field("min_p", "float", 0.05, _SHARE),
    Field("top_n_sigma", "float", -1.0),
    Field("xtc_probability", "float", 0.0, _SHARE),
    Field("xtc_threshold", "float", 0.1, _SHARE),
    Field("typical_p", "float", 1.0),
    Field("temperature", "float", 0.8, Limits(0.0)),
    Field("dynatemp_range", "float", 0.0),
    Field("dynatemp_exponent", "float", 1.0),
    Field("repeat_last_n", "int32", 64, _FROM_0),
    Field("repeat_penalty", "float", 1.0),
    Field("frequency_penalty", "float", 0.0),
    Field("presence_penalty", "float", 0.0),
    Field("dry_multiplier", "float", 0.0),
    Field("dry_base", "float", 1.75),
    Field("dry_allowed_length", "int32", 2, _FROM_0),
    Field("dry_penalty_last_n", "int32", 64, _FROM_0),
    Field("mirostat", "int32", 0, Limits(0, 2)),
    Field("mirostat_tau", "float", 5.0),
    Field("mirostat_eta", "float", 0.1),
    Field("adaptive_target", "float", -1.0, Limits(None, 1.0)),
    Field("adaptive_decay", "float", 0.9, Limits(0.0, 0.99, hard=True)),
    Field("seed", "uint32", RANDOM_SEED),
    Field("n_probs", "int32", 0, Limits(), ("logprobs",)),
    Field("min_keep", "int32", 0, _FROM_0),
    Field("post_sampling_probs", "bool", False),
    Field("backend_sampling", "bool", False),
    Field("grammar_lazy", "bool", False),
    Field("ignore_eos", "bool", False),
    Field("echo", "bool", False),
    Field("reasoning_control", "bool", False),
    Field("reasoning_budget_tokens", "int32", -1, _FROM_MINUS_1),
)


BY_NAME_OF_FIELDS: Mapping[str, Field] = {name: row for row in FIELDS for name in (row.name, *row.aliases)}
"""By every spelling."""


class Shape(Struct, frozen=True):
    """A request field that is no plain number, as a Python type for documents. `read_by` is the function that says what
    it must look like. Fields that are not `live` are read beside llama-server's own table of fields."""

    name: str
    type: Any
    read_by: str
    aliases: tuple[str, ...] = ()
    live: bool = True


SHAPES: tuple[Shape, ...] = (
    Shape("stream_options", dict[str, Any], "structured.check_shapes"),
    Shape("response_fields", list[str], "structured.read_response_fields"),
    Shape("dry_sequence_breakers", list[str], "sampling.read_chain"),
    Shape("lora", list[dict[str, Any]], "structured.read_lora"),
    Shape("json_schema", dict[str, Any], "constraint.read_constraint"),
    Shape("grammar", str, "constraint.read_constraint"),
    Shape("grammar_triggers", list[dict[str, Any]], "constraint.read_constraint"),
    Shape("preserved_tokens", list[str], "structured.read_preserved"),
    Shape("logit_bias", list[tuple[int | str, float | bool]] | dict[str, float | bool], "sampling.read_chain"),
    Shape("stop", list[str] | str, "structured.read_stop"),
    Shape("samplers", list[str] | str, "sampling.read_chain"),
    Shape("chat_format", int, "structured.check_shapes"),
    Shape("reasoning_format", str, "structured.read_reasoning_format"),
    Shape("generation_prompt", str, "structured.check_shapes"),
    Shape("parse_tool_calls", bool, "structured.check_shapes"),
    Shape("chat_parser", str, "structured.check_shapes"),
    Shape("continue_final_message", bool | str, "structured.check_shapes"),
    Shape("reasoning_budget_start_tag", str, "structured.check_shapes"),
    Shape("reasoning_budget_end_tags", list[str], "structured.refuse_unoffered", ("reasoning_budget_end_tag",)),
    Shape("reasoning_budget_message", str, "structured.check_shapes"),
    Shape("id_slot", int, "structured.read_slot", live=False),
    Shape("message_delimiters", list[Any], "read.read_completion", live=False),
    Shape("model", str, "tokens.model_name", live=False),
)

KNOWN = frozenset({"prompt"} | {name for row in (*FIELDS, *SHAPES) for name in (row.name, *row.aliases)})

_TYPES: dict[str, type] = {"bool": bool, "float": float, "string": str, "int32": int, "int64": int, "uint32": int}
_PROMPT = str | list[Any] | dict[str, Any]
_NATIVE = {
    "repetition_penalty": "repeat_penalty",
    "penalty_window": "repeat_last_n",
    "dry_penalty_window": "dry_penalty_last_n",
}
"""Sampling fields that have other names here."""


def server_of(card: ModelCard | None) -> Server:
    """What a card says of the server: its lanes, and sampling defaults that differ from llama-server's."""
    if card is None:
        return BARE
    return Server(card.lanes, native_names(card.sampling_defaults.given()))


def native_names(given: Mapping[str, object]) -> dict[str, Scalar]:
    """Fields of a sampling spec under their names here; those that are no scalar fields are left out."""
    named = {_NATIVE.get(name, name): value for name, value in given.items()}
    return {field.name: cast("Scalar", named[field.name]) for field in FIELDS if field.name in named}


def read_scalars(body: dict[str, Any], server: Server = BARE) -> dict[str, Any]:
    """All scalar fields of `body` by their own names. Raises NativeError for a wrong type or a hard limit."""
    values: dict[str, Any] = {field.name: field.read(body, server) for field in FIELDS}
    if values["dry_base"] < 1.0:
        values["dry_base"] = 1.75
    return values


CompletionBody = msgspec.defstruct(
    "CompletionBody",
    [
        ("prompt", _PROMPT),
        *((field.name, _TYPES[field.kind] | None, field.default) for field in FIELDS),
        *((alias, _TYPES[field.kind] | None, None) for field in FIELDS for alias in field.aliases),
        *((name, shape.type | None, None) for shape in SHAPES for name in (shape.name, *shape.aliases)),
    ],
    kw_only=True,
    namespace={"__doc__": "Body of POST /completion and /completions."},
)


InfillBody = msgspec.defstruct(
    "InfillBody",
    [
        ("input_prefix", str),
        ("input_suffix", str),
        ("prompt", str, ""),
        ("input_extra", list[dict[str, Any]] | None, None),
        *((field.name, _TYPES[field.kind] | None, field.default) for field in FIELDS),
    ],
    kw_only=True,
    namespace={"__doc__": "Body of POST /infill: a gap in code, and the fields of a completion."},
)


class TokenizeBody(Struct, kw_only=True):
    """Body of POST /tokenize."""

    content: str | list[int | str] = ""
    add_special: bool = False
    parse_special: bool = True
    with_pieces: bool = False
    model: str | None = None


class DetokenizeBody(Struct, kw_only=True):
    """Body of POST /detokenize."""

    tokens: list[int] = []
    model: str | None = None


class TemplateBody(Struct, kw_only=True):
    """Body of POST /apply-template: a chat completion body, of which only what shapes the prompt is read."""

    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | None = None
    parallel_tool_calls: bool | None = None
    add_generation_prompt: bool = True
    continue_final_message: bool | str | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    reasoning_effort: str | None = None
    model: str | None = None


class EmbeddingBody(Struct, kw_only=True):
    """Body of POST /embedding and /embeddings; `content` is another name of `input`."""

    input: str | list[Any] | dict[str, Any] | None = None
    content: str | list[Any] | dict[str, Any] | None = None
    encoding_format: str = "float"
    embd_normalize: int = 2
    model: str | None = None


class RerankBody(Struct, kw_only=True):
    """Body of POST /rerank and /reranking; `texts` instead of `documents` asks for another shape of answer."""

    query: str
    documents: list[str] | None = None
    texts: list[str] | None = None
    top_n: int | None = None
    return_text: bool = False
    model: str | None = None
