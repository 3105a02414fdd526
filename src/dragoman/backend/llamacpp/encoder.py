"""Seam 1 for GGUF models that only embed or rank. Knows no dialect and no text."""

from __future__ import annotations

from dragoman.backend.base import BackendStats, TokenStream
from dragoman.backend.llamacpp.embedder import Embedder
from dragoman.backend.llamacpp.launch import Launcher
from dragoman.backend.llamacpp.options import LlamaCppOptions
from dragoman.backend.llamacpp.supervisor import RestartPolicy
from dragoman.core.errors import DragomanError, EngineFailure, NotSupported
from dragoman.core.exchange import EngineRequest
from dragoman.core.model import Capabilities
from dragoman.core.operations import Health
from dragoman.core.vectors import EmbedWork, RerankWork, Scores, Vector


class LlamaCppEncoder:
    """A backend.base.Backend on one `Embedder`. `options.pooling` says whether it embeds or ranks."""

    def __init__(
        self, options: LlamaCppOptions, *, launcher: Launcher | None = None, policy: RestartPolicy | None = None
    ) -> None:
        self._embedder = Embedder(options, launcher=launcher, policy=policy)

    @property
    def capabilities(self) -> Capabilities:
        """No generation; embeddings or relevance."""
        return self._embedder.added_to(Capabilities(sampling=frozenset(), lanes=self._embedder.lanes, generation=False))

    @property
    def context_length(self) -> int:
        """Tokens of one input."""
        return self._embedder.context_length

    @property
    def build(self) -> str:
        """Engine and version."""
        return self._embedder.build

    @property
    def pid(self) -> int | None:
        """The engine's process, where there is one of ours."""
        return self._embedder.pid

    def log_tail(self) -> tuple[str, ...]:
        """The last lines the engine wrote, oldest first."""
        return self._embedder.log_tail()

    async def start(self) -> None:
        """Start the engine. Raises EngineFailure with its reason."""
        try:
            await self._embedder.start()
        except EngineFailure:
            raise
        except DragomanError as error:
            raise EngineFailure(error.message, remedy=error.remedy) from error

    async def stop(self) -> None:
        """End what waits with Unavailable, then the engine. Safe to call twice."""
        await self._embedder.stop()

    async def submit(self, request: EngineRequest) -> TokenStream:
        """Raises NotSupported: this model writes no text."""
        raise NotSupported("This model makes embeddings or ranks documents; it generates no text.")

    async def embed(self, work: EmbedWork) -> tuple[tuple[Vector, ...], ...]:
        """See `backend.base.Backend`."""
        return await self._embedder.embed(work)

    async def rerank(self, work: RerankWork) -> Scores:
        """See `backend.base.Backend`."""
        return await self._embedder.rerank(work)

    def health(self) -> Health:
        """Whether it can answer now."""
        return self._embedder.health()

    def stats(self) -> BackendStats:
        """Counters and gauges at this moment; a finished embedding counts as a finished request."""
        return self._embedder.counted_with(BackendStats(lanes=self._embedder.lanes))
