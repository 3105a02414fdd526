"""The shapes of the response object, its items and pages, for the OpenAPI document. The writer makes them from pieces;
a test holds the two together."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

from dragoman.core.responses import ResponseStatus

Status = Literal["in_progress", "completed", "incomplete"]


class Alternative(Struct, frozen=True, kw_only=True):
    """A token with its log probability; `id` and `piece` are its number and its spelling in the vocabulary."""

    token: str
    bytes: list[int]
    logprob: float
    id: int
    piece: str


class TokenLogprob(Alternative, frozen=True, kw_only=True):
    """A token of the answer, with those that could have stood in its place."""

    top_logprobs: list[Alternative]


class Tagged(Struct, frozen=True, kw_only=True, tag_field="type"):
    """Anything that says what it is by `type`."""


class OutputText(Tagged, frozen=True, kw_only=True, tag="output_text"):
    """Text of a message."""

    text: str
    annotations: list[dict[str, Any]]
    logprobs: list[TokenLogprob]


class Refusal(Tagged, frozen=True, kw_only=True, tag="refusal"):
    """A refusal of the model."""

    refusal: str


class SummaryText(Tagged, frozen=True, kw_only=True, tag="summary_text"):
    """A thought, shown as its summary."""

    text: str


class ReasoningText(Tagged, frozen=True, kw_only=True, tag="reasoning_text"):
    """A thought."""

    text: str


Part = OutputText | Refusal | SummaryText | ReasoningText


class MessageOutput(Tagged, frozen=True, kw_only=True, tag="message"):
    """A message; `phase` is told to Codex only."""

    id: str
    status: Status
    role: Literal["assistant"]
    content: list[OutputText | Refusal]
    phase: str | None = None


class ReasoningOutput(Tagged, frozen=True, kw_only=True, tag="reasoning"):
    """A thought, as summary or as content; `encrypted_content` is its signature."""

    id: str
    status: Status
    summary: list[SummaryText]
    content: list[ReasoningText] | None = None
    encrypted_content: str | None = None


class FunctionCallOutput(Tagged, frozen=True, kw_only=True, tag="function_call"):
    """A call of a function; `arguments` is JSON text."""

    id: str
    status: Status
    call_id: str
    name: str
    arguments: str
    namespace: str | None = None


class CustomCallOutput(Tagged, frozen=True, kw_only=True, tag="custom_tool_call"):
    """A call of a custom tool."""

    id: str
    status: Status
    call_id: str
    name: str
    input: str
    namespace: str | None = None


Item = MessageOutput | ReasoningOutput | FunctionCallOutput | CustomCallOutput


class InputTokensDetails(Struct, frozen=True, kw_only=True):
    """Part of `input_tokens`."""

    cached_tokens: int
    cache_write_tokens: int


class OutputTokensDetails(Struct, frozen=True, kw_only=True):
    """Part of `output_tokens`."""

    reasoning_tokens: int


class ResponseUsage(Struct, frozen=True, kw_only=True):
    """Tokens of one response."""

    input_tokens: int
    input_tokens_details: InputTokensDetails
    output_tokens: int
    output_tokens_details: OutputTokensDetails
    total_tokens: int


class ResponseError(Struct, frozen=True, kw_only=True):
    """Why a response failed: `code` is one of the SDK's words, `type` and `param` say it exactly."""

    code: str
    message: str
    type: str | None = None
    param: str | None = None


class IncompleteDetails(Struct, frozen=True, kw_only=True):
    """Why a response is incomplete."""

    reason: Literal["max_output_tokens"]


class ReasoningSaid(Struct, frozen=True, kw_only=True):
    """`reasoning`, said back."""

    effort: str | None
    summary: str | None


class TextSaid(Struct, frozen=True, kw_only=True):
    """`text`, said back."""

    format: dict[str, Any]
    verbosity: str


class ResponseObject(Struct, frozen=True, kw_only=True):
    """A response: what was asked for and what came of it. Times in Unix seconds."""

    id: str
    object: Literal["response"]
    created_at: int
    background: bool
    instructions: str | list[Any] | None
    max_output_tokens: int | None
    max_tool_calls: int | None
    metadata: dict[str, str]
    model: str
    parallel_tool_calls: bool
    previous_response_id: str | None
    prompt_cache_key: str | None
    reasoning: ReasoningSaid
    safety_identifier: str | None
    service_tier: str
    store: bool
    temperature: float | None
    text: TextSaid
    tool_choice: str | dict[str, Any]
    tools: list[dict[str, Any]]
    top_logprobs: int
    top_p: float | None
    truncation: str
    user: str | None
    status: ResponseStatus
    completed_at: int | None
    error: ResponseError | None
    incomplete_details: IncompleteDetails | None
    output: list[Item]
    usage: ResponseUsage | None


class InputTokens(Struct, frozen=True, kw_only=True):
    """How many tokens the prompt of a response has."""

    object: Literal["response.input_tokens"]
    input_tokens: int


class ResponseDeletion(Struct, frozen=True, kw_only=True):
    """A response that is forgotten."""

    id: str
    object: Literal["response.deleted"]
    deleted: bool


class ItemPage(Struct, frozen=True, kw_only=True):
    """A page of input items, each as it was given, with its `id`."""

    object: Literal["list"]
    data: list[dict[str, Any]]
    first_id: str | None
    last_id: str | None
    has_more: bool


class RetrieveQuery(Struct, frozen=True, kw_only=True):
    """Query of GET /v1/responses/{response_id}."""

    stream: bool | None = None
    starting_after: int | None = None
    include: str | None = None


class ItemsQuery(Struct, frozen=True, kw_only=True):
    """Query of GET /v1/responses/{response_id}/input_items."""

    after: str | None = None
    limit: int | None = None
    order: Literal["asc", "desc"] | None = None
    include: str | None = None
