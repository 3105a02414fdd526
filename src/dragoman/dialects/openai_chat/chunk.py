"""The shape of a Chat Completions chunk, for the OpenAPI document. The writer makes chunks from encoded pieces."""

from __future__ import annotations

from msgspec import Struct

from dragoman.dialects.openai_chat.logprobs import LogprobBlock
from dragoman.dialects.openai_timings import TimingsObject
from dragoman.dialects.openai_usage import UsageObject


class FunctionDelta(Struct, frozen=True, kw_only=True):
    """A piece of a call: its name comes once, its arguments in pieces of JSON text."""

    name: str | None = None
    arguments: str | None = None


class CallDelta(Struct, frozen=True, kw_only=True):
    """A piece of the call numbered `index`; id and type come once."""

    index: int
    id: str | None = None
    type: str | None = None
    function: FunctionDelta | None = None


class Delta(Struct, frozen=True, kw_only=True):
    """What a chunk adds to the message."""

    role: str | None = None
    content: str | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[CallDelta] | None = None
    function_call: FunctionDelta | None = None


class ChunkChoice(Struct, frozen=True, kw_only=True):
    """One entry of `choices`."""

    index: int
    delta: Delta
    logprobs: LogprobBlock | None
    finish_reason: str | None


class PromptProgressObject(Struct, frozen=True, kw_only=True):
    """llama-server's progress: tokens, and milliseconds since the beginning."""

    total: int
    cache: int
    processed: int
    time_ms: int


class ChatCompletionChunk(Struct, frozen=True, kw_only=True):
    """One event of a stream. `choices` is empty on the usage chunk that ends it."""

    id: str
    object: str
    created: int
    model: str
    system_fingerprint: str | None
    choices: list[ChunkChoice]
    usage: UsageObject | None = None
    timings: TimingsObject | None = None
    prompt_progress: PromptProgressObject | None = None
