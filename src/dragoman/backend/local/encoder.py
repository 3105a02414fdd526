"""Seam 1 for an encoder in this process: work on the event loop, the encoder on its own thread. Knows no dialect."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Literal, TypeVar

from dragoman.backend.base import BackendStats, TokenStream
from dragoman.core.errors import DragomanError, EngineFailure, NotSupported, Overloaded, Unavailable
from dragoman.core.exchange import EngineRequest
from dragoman.core.model import Capabilities
from dragoman.core.operations import Health
from dragoman.core.vectors import EmbedWork, RerankWork, Scores, Vector
from dragoman.engines.base import Encoder, Pair

PairOf = Callable[[str, str], Pair]
"""Query and document as the model was trained on them."""

_GROUP = 32
"""Inputs computed before others get their turn and before a caller that left is noticed."""

_RETRY_SECONDS = 2

In = TypeVar("In")
Out = TypeVar("Out")


class EncoderBackend:
    """A backend.base.Backend on one `Encoder`. `pair_of` is needed by models that rank, and safe from any thread.
    `max_waiting` works may wait for the one that runs."""

    def __init__(self, encoder: Encoder, *, pair_of: PairOf | None = None, max_waiting: int = 64) -> None:
        self._encoder = encoder
        self._pair_of = pair_of
        self._max_waiting = max_waiting
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="encoder")
        self._turn = asyncio.Lock()
        self._state: Literal["new", "ready", "stopped", "failed"] = "new"
        self._open = 0
        self._finished = 0
        self._cancelled = 0
        self._failed = 0
        self._tokens = 0

    @property
    def capabilities(self) -> Capabilities:
        """What the encoder can do."""
        return self._encoder.capabilities

    @property
    def context_length(self) -> int:
        """Tokens of one input."""
        return self._encoder.context_length

    @property
    def build(self) -> str:
        """Engine and version."""
        return self._encoder.build

    async def start(self) -> None:
        """Load the model. Raises EngineFailure with its reason."""
        try:
            await self._on_thread(self._encoder.load)
        except BaseException as error:
            self._state = "failed"
            if isinstance(error, DragomanError) or not isinstance(error, Exception):
                raise
            raise EngineFailure(f"The model could not be loaded: {type(error).__name__}: {error}") from error
        self._state = "ready"

    async def stop(self) -> None:
        """Free the model; what waits ends with Unavailable. Safe to call twice."""
        if self._state == "stopped":
            return
        self._state = "stopped"
        await self._on_thread(self._encoder.unload)
        self._thread.shutdown(wait=False)

    async def submit(self, request: EngineRequest) -> TokenStream:
        """Raises NotSupported: this model writes no text."""
        raise NotSupported("This model makes embeddings or ranks documents; it generates no text.")

    async def embed(self, work: EmbedWork) -> tuple[tuple[Vector, ...], ...]:
        """See `backend.base.Backend`."""
        tokens = sum(map(len, work.inputs))
        return tuple(await self._run(self._encoder.embed, work.inputs, tokens))

    async def rerank(self, work: RerankWork) -> Scores:
        """See `backend.base.Backend`."""
        pair_of = self._pair_of
        if pair_of is None:
            raise NotSupported("This model has no head for relevance.")
        pairs = await asyncio.to_thread(lambda: [pair_of(work.query, document) for document in work.documents])
        tokens = sum(len(pair.ids) for pair in pairs)
        return Scores(scores=tuple(await self._run(self._encoder.score, pairs, tokens)), prompt_tokens=tokens)

    def health(self) -> Health:
        """Whether it can answer now."""
        match self._state:
            case "ready":
                return Health("ok")
            case "new":
                return Health("loading")
            case "stopped":
                return Health("draining")
            case "failed":
                return Health("failed", "The model could not be loaded.")

    def stats(self) -> BackendStats:
        """Counters and gauges at this moment; a finished embedding counts as a finished request."""
        running = min(1, self._open)
        return BackendStats(
            running=running,
            waiting=self._open - running,
            finished=self._finished,
            cancelled=self._cancelled,
            failed=self._failed,
            prompt_tokens=self._tokens,
        )

    async def _run(self, compute: Callable[[Sequence[In]], list[Out]], items: Sequence[In], tokens: int) -> list[Out]:
        self._require()
        if self._open > self._max_waiting:
            raise Overloaded(f"{self._open - 1} requests are waiting already.", retry_after=_RETRY_SECONDS)
        self._open += 1
        try:
            found = await self._in_groups(compute, items)
        except asyncio.CancelledError:
            self._cancelled += 1
            raise
        except BaseException:
            self._failed += 1
            raise
        finally:
            self._open -= 1
        self._finished += 1
        self._tokens += tokens
        return found

    async def _in_groups(self, compute: Callable[[Sequence[In]], list[Out]], items: Sequence[In]) -> list[Out]:
        found: list[Out] = []
        for start in range(0, len(items), _GROUP):
            async with self._turn:
                self._require()
                found += await self._compute(compute, items[start : start + _GROUP])
        return found

    async def _compute(self, compute: Callable[[Sequence[In]], list[Out]], items: Sequence[In]) -> list[Out]:
        try:
            return await self._on_thread(lambda: compute(items))
        except DragomanError:
            raise
        except Exception as error:
            raise EngineFailure(f"The engine failed on this request: {type(error).__name__}: {error}") from error

    async def _on_thread(self, work: Callable[[], Out]) -> Out:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def _require(self) -> None:
        if self._state != "ready":
            raise Unavailable("The engine is not running.", retry_after=_RETRY_SECONDS)
