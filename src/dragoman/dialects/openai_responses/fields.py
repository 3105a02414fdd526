"""Fields of Responses about thinking, format, log probabilities and bookkeeping. Knows no template."""

from __future__ import annotations

from typing import Any

from dragoman.core.errors import InvalidField, MissingField, UnsupportedField
from dragoman.core.request import OutputFormat, Thinking
from dragoman.dialects.constraint import one_format, schema_text
from dragoman.dialects.openai_fields import ranged_int
from dragoman.dialects.openai_format import read_format
from dragoman.dialects.openai_labels import check_labels
from dragoman.dialects.openai_responses.schema import CreateResponse, InputFields, ReasoningFields, TextFormat

ENCRYPTED = "reasoning.encrypted_content"
LOGPROBS = "message.output_text.logprobs"
MAX_TOP_LOGPROBS = 20

_INCLUDES = (
    ENCRYPTED,
    LOGPROBS,
    "message.input_image.image_url",
    "file_search_call.results",
    "web_search_call.results",
    "web_search_call.action.sources",
    "computer_call_output.output.image_url",
    "code_interpreter_call.outputs",
)
_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
_SUMMARIES = ("auto", "concise", "detailed", "none")
_VERBOSITIES = ("low", "medium", "high")
_CONTEXTS = {"auto": None, "current_turn": False, "all_turns": True}
_MAX_CLIENT_PAIRS, _MAX_CLIENT_KEY, _MAX_CLIENT_VALUE = 32, 256, 8192


def check_fields(body: InputFields) -> None:
    """Refuse what cannot be honoured, naming the field. Raises InvalidField, UnsupportedField."""
    for name in ("conversation", "prompt"):
        if getattr(body, name, None) is not None:
            raise UnsupportedField(
                f"The field '{name}' is not supported by this server.",
                field=name,
                remedy="Use previous_response_id." if name == "conversation" else "Send the prompt itself in input.",
            )
    if body.n not in (None, 1):
        raise UnsupportedField("A response has one answer; 'n' must be 1.", field="n", remedy="Leave it out.")
    verbosity = body.text.verbosity if body.text else None
    if verbosity not in (None, *_VERBOSITIES):
        raise InvalidField(
            f"Invalid 'text.verbosity': '{verbosity}' is not one of low, medium, high.",
            field="text.verbosity",
        )
    check_labels(body)


def check_create(body: CreateResponse) -> None:
    """As `check_fields`, for the fields of a request to answer."""
    check_fields(body)
    _check_pairs(body.client_metadata, "client_metadata", _MAX_CLIENT_PAIRS, _MAX_CLIENT_KEY, _MAX_CLIENT_VALUE)
    ranged_int(body.max_tool_calls, "max_tool_calls", 0)
    if body.background and body.store is False:
        raise InvalidField("A background response must be stored: 'store' must not be false.", field="store")


def read_include(include: list[str] | None, field: str = "include") -> frozenset[str]:
    """What shall be in the reply beside the usual. Raises InvalidField for a word nobody knows."""
    for index, word in enumerate(include or ()):
        if word not in _INCLUDES:
            raise InvalidField(
                f"Invalid '{field}[{index}]': '{word}' is not one of {', '.join(_INCLUDES)}.", field=f"{field}[{index}]"
            )
    return frozenset(include or ())


def read_logprobs(body: CreateResponse, include: frozenset[str]) -> int | None:
    """Alternatives per token, None for no log probabilities; asking for alternatives asks for both."""
    top = ranged_int(body.top_logprobs, "top_logprobs", 0, MAX_TOP_LOGPROBS)
    return top or 0 if top or LOGPROBS in include else None


def read_text_format(body: InputFields) -> OutputFormat | None:
    """The constraint on the text, from `text.format` or the fields other servers have for it."""
    wanted = body.text.format if body.text else None
    formats = (_text_format(wanted) if wanted else None, read_format(body))
    return one_format(format for format in formats if format is not None)


def _text_format(wanted: TextFormat) -> OutputFormat | None:
    at = "text.format"
    if wanted.type == "text":
        return None
    if wanted.type == "json_object":
        return OutputFormat("json", field=at)
    if wanted.type != "json_schema":
        raise InvalidField(
            f"Invalid '{at}.type': '{wanted.type}' is not one of text, json_object, json_schema.", field=f"{at}.type"
        )
    if wanted.schema is None:
        raise MissingField(f"The field '{at}.schema' is required.", field=f"{at}.schema")
    return OutputFormat("json_schema", schema_text(wanted.schema), f"{at}.schema", wanted.strict is True)


def read_thinking(body: InputFields) -> Thinking:
    """An effort of none is off, any other on; switches meant for the template win. Raises InvalidField."""
    reasoning = body.reasoning or ReasoningFields()
    effort = _word(reasoning.effort, "reasoning.effort", _EFFORTS)
    context = _word(reasoning.context, "reasoning.context", tuple(_CONTEXTS))
    budget = ranged_int(body.thinking_budget, "thinking_budget", -1)
    switch = _switch(body)
    if switch is None and effort is not None:
        switch = effort != "none"
    mode = "auto" if switch is None else "on" if switch else "off"
    return Thinking(mode, effort, None if budget == -1 else budget, _CONTEXTS[context] if context else None)


def wants_summary(body: InputFields) -> bool:
    """Whether thoughts are shown as summaries, which here are the thoughts themselves. Raises InvalidField."""
    reasoning = body.reasoning or ReasoningFields()
    summary = _word(reasoning.summary, "reasoning.summary", _SUMMARIES)
    older = _word(reasoning.generate_summary, "reasoning.generate_summary", _SUMMARIES)
    return (summary or older or "none") != "none"


def read_truncation(body: InputFields) -> bool:
    """Whether old turns may be dropped. Raises InvalidField."""
    return _word(body.truncation, "truncation", ("auto", "disabled")) == "auto"


def _switch(body: InputFields) -> bool | None:
    kwargs = body.chat_template_kwargs or {}
    wishes = (kwargs.get("enable_thinking"), kwargs.get("thinking"), body.enable_thinking)
    return next((wish for wish in wishes if isinstance(wish, bool)), None)


def _word(value: str | None, field: str, allowed: tuple[str, ...]) -> str | None:
    if value is not None and value not in allowed:
        raise InvalidField(f"Invalid '{field}': '{value}' is not one of {', '.join(allowed)}.", field=field)
    return value


def _check_pairs(pairs: dict[str, Any] | None, field: str, most: int, key_length: int, value_length: int) -> None:
    if pairs is None:
        return
    if len(pairs) > most:
        raise InvalidField(f"Invalid '{field}': at most {most} pairs are allowed.", field=field)
    for key, value in pairs.items():
        at = f"{field}.{key[:key_length]}"
        if len(key) > key_length:
            raise InvalidField(f"Invalid '{at}': keys have at most {key_length} characters.", field=at)
        if not isinstance(value, str) or len(value) > value_length:
            raise InvalidField(f"Invalid '{at}': values are texts of at most {value_length} characters.", field=at)
