"""The shape of a Completions chunk, for the OpenAPI document; the writer puts chunks together from encoded pieces."""

from __future__ import annotations

from msgspec import Struct

from dragoman.dialects.openai_completions.logprobs import LegacyLogprobs
from dragoman.dialects.openai_usage import UsageObject


class ChunkChoice(Struct, frozen=True, kw_only=True):
    """One entry of `choices`."""

    index: int
    text: str
    logprobs: LegacyLogprobs | None
    finish_reason: str | None


class PromptProgressObject(Struct, frozen=True, kw_only=True):
    """llama-server's progress: tokens, and milliseconds since the beginning."""

    total: int
    cache: int
    processed: int
    time_ms: int


class CompletionChunk(Struct, frozen=True, kw_only=True):
    """One event of a stream. `choices` is empty on the usage chunk that ends it."""

    id: str
    object: str
    created: int
    model: str
    system_fingerprint: str | None
    choices: list[ChunkChoice]
    usage: UsageObject | None = None
    prompt_progress: PromptProgressObject | None = None
