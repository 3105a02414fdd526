"""The plain messages that cross seam 1, between a request's own coroutine and the engine, wherever that runs.

Nothing here is shared state: every struct could be sent to another process as it is.
"""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from dragoman.core.adapters import AdapterScale
from dragoman.core.logprobs import TokenLogprobs
from dragoman.core.prefix_miss import PrefixMiss
from dragoman.core.request import CacheHints
from dragoman.core.sampling import SamplingSpec


class PromptImage(Struct, frozen=True):
    """An encoded image (PNG, JPEG, …) that stands before token `at` of the prompt; `at` may be the prompt's length."""

    data: bytes
    at: int


class Shift(Struct, frozen=True):
    """How the window makes room when it is full: the first `keep` tokens stay (-1: all of the prompt), `discard` behind
    them are dropped (0: half of what there is)."""

    keep: int = 0
    discard: int = 0


class EngineRequest(Struct, frozen=True, kw_only=True):
    """Work for an engine.

    `prompt` token ids, at least one; `max_tokens` how many may be sampled at most, at least one; `stop_tokens` ids
    that end the answer (reported in the last chunk); `sampling` fully resolved (None = the stage is off);
    `logprobs` number of alternatives or None, over the raw logits or, with `post_sampling`, over what the sampling
    stages left; `grammar` a constraint on the whole answer in llguidance's text form
    (`%llguidance {}`, then Lark), only where the engine can mask; `stable_boundary` prompt length the next turn of
    this conversation will still share, if known; `prompt_logprobs` number of alternatives wanted for each prompt
    token, or None; `namespace` keeps cached prefixes of different adapters apart; `adapters` the LoRA adapters of this
    request with their scales, None for those the server was started with; `images` in
    the order in which they stand in the prompt; `slot` the slot or row it must run in, modulo how many there are;
    `shift` lets the answer outlast the window; `deadline` seconds from its arrival after which it is ended with an
    error, None for no limit.
    """

    id: str
    prompt: tuple[int, ...]
    max_tokens: int
    stop_tokens: frozenset[int] = frozenset()
    sampling: SamplingSpec = SamplingSpec()
    grammar: str | None = None
    logprobs: int | None = None
    post_sampling: bool = False
    progress: bool = False
    cache: CacheHints = CacheHints()
    stable_boundary: int | None = None
    prompt_logprobs: int | None = None
    namespace: str = ""
    adapters: tuple[AdapterScale, ...] | None = None
    images: tuple[PromptImage, ...] = ()
    slot: int | None = None
    shift: Shift | None = None
    deadline: float | None = None


class EngineFinish(Enum):
    """`EOS` a stop token was sampled; `COMPLETE` the grammar allows nothing more, and the last token is part of the
    text; `LENGTH` max_tokens reached; `CONTEXT` the window is full; `CANCELLED` asked."""

    EOS = "eos"
    COMPLETE = "complete"
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
    was run: `batched`, or `serial` for a model that runs one row at a time. `held` is what the slot holds afterwards,
    in tokens, where the window was shifted. `drafted` tokens were proposed by speculation, `accepted` of them became
    part of the answer."""

    prompt_tokens: int
    cached_tokens: int = 0
    completion_tokens: int = 0
    queued_ms: float = 0.0
    prompt_ms: float = 0.0
    predicted_ms: float = 0.0
    slot: int = 0
    lane: str = ""
    drafted: int = 0
    accepted: int = 0
    held: int | None = None


class TokenChunk(Struct, frozen=True, kw_only=True):
    """One delivery for one request: usually one token. `prompt_logprobs` come in chunks before the first token, for the
    second prompt token on.

    `logprobs` has one entry per token when asked for, else it is empty. `progress` chunks carry no tokens. The last
    chunk has `finish` and `report`; it may also carry tokens. `started` is set once, on the first chunk, and tells
    how many prompt tokens came from the cache; beside it stand the `row` it runs in, the
    `lane`, and the `miss` that kept it from being more, where the engine knows them.
    """

    tokens: tuple[int, ...] = ()
    logprobs: tuple[TokenLogprobs, ...] = ()
    prompt_logprobs: tuple[TokenLogprobs, ...] = ()
    started: int | None = None
    row: int | None = None
    lane: str = ""
    miss: PrefixMiss | None = None
    progress: Progress | None = None
    finish: EngineFinish | None = None
    report: EngineReport | None = None
