"""The plain messages that cross seam 1, between a request's own coroutine and the engine, wherever that runs.

Nothing here is shared state: every struct could be sent to another process as it is.
"""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from dragoman.core.logprobs import TokenLogprobs
from dragoman.core.request import CacheHints, OutputFormat
from dragoman.core.sampling import SamplingSpec


class EngineRequest(Struct, frozen=True, kw_only=True):
    """Work for an engine.

    `prompt` token ids, at least one; `max_tokens` how many may be sampled at most, at least one; `stop_tokens` ids
    that end the answer (reported in the last chunk); `sampling` fully resolved (None = the stage is off);
    `logprobs` number of alternatives or None; `format` a constraint, only where the engine can mask;
    `stable_boundary` prompt length the next turn of this conversation will still share, if known; `prompt_logprobs`
    number of alternatives wanted for each prompt token, or None; `namespace` keeps cached prefixes of different
    adapters apart; `deadline` seconds from its arrival after which it is ended with an error, None for no limit.
    """

    id: str
    prompt: tuple[int, ...]
    max_tokens: int
    stop_tokens: frozenset[int] = frozenset()
    sampling: SamplingSpec = SamplingSpec()
    format: OutputFormat | None = None
    logprobs: int | None = None
    progress: bool = False
    cache: CacheHints = CacheHints()
    stable_boundary: int | None = None
    prompt_logprobs: int | None = None
    namespace: str = ""
    deadline: float | None = None


class EngineFinish(Enum):
    """`EOS` a stop token was sampled; `LENGTH` max_tokens reached; `CONTEXT` the window is full; `CANCELLED` asked."""

    EOS = "eos"
    LENGTH = "length"
    CONTEXT = "context"
    CANCELLED = "cancelled"


class Progress(Struct, frozen=True):
    """Prefill progress in tokens: `processed` includes `cached`. `ms` since the prefill began."""

    total: int
    cached: int
    processed: int
    ms: float


class EngineReport(Struct, frozen=True, kw_only=True):
    """What the engine measured for one request, sent with its last chunk. Times in milliseconds. `lane` tells how it
    was run: `batched`, or `serial` for a model that runs one row at a time."""

    prompt_tokens: int
    cached_tokens: int = 0
    completion_tokens: int = 0
    queued_ms: float = 0.0
    prompt_ms: float = 0.0
    predicted_ms: float = 0.0
    slot: int = 0
    lane: str = ""


class TokenChunk(Struct, frozen=True, kw_only=True):
    """One delivery for one request: usually one token. `prompt_logprobs` come in chunks before the first token, for the
    second prompt token on.

    `logprobs` has one entry per token when asked for, else it is empty. `progress` chunks carry no tokens. The last
    chunk has `finish` and `report`; it may also carry tokens. `started` is set once, on the first chunk, and tells
    how many prompt tokens came from the cache.
    """

    tokens: tuple[int, ...] = ()
    logprobs: tuple[TokenLogprobs, ...] = ()
    prompt_logprobs: tuple[TokenLogprobs, ...] = ()
    started: int | None = None
    progress: Progress | None = None
    finish: EngineFinish | None = None
    report: EngineReport | None = None
