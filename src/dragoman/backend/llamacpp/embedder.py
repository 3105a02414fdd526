"""A llama.cpp engine for embeddings and relevance: started when it is first wanted, supervised, asked. Knows no
text model beside it and no dialect."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Iterator
from typing import TypeVar

import msgspec
from msgspec import Struct

from dragoman.backend.base import BackendStats
from dragoman.backend.llamacpp.client import Client, ConnectionLost
from dragoman.backend.llamacpp.engine import RunningEngine
from dragoman.backend.llamacpp.errors import error_of
from dragoman.backend.llamacpp.lanes import Lanes
from dragoman.backend.llamacpp.launch import Launcher, launcher_of
from dragoman.backend.llamacpp.logtail import LogTail
from dragoman.backend.llamacpp.options import LlamaCppOptions
from dragoman.backend.llamacpp.supervisor import RestartPolicy, Supervisor
from dragoman.backend.llamacpp.wire import read_props
from dragoman.core.errors import DragomanError, EngineFailure, NotSupported, Unavailable
from dragoman.core.model import Capabilities
from dragoman.core.operations import Health
from dragoman.core.vectors import EmbedWork, RerankWork, Scores, Vector, pack

_QUESTION_SECONDS = 120.0
_GROUP_PER_LANE = 8
"""Inputs sent in one request for each lane: enough to fill batches, few enough that others get their turn."""

_LEAST_BATCH = 32

W = TypeVar("W")


class _Pooled(Struct, frozen=True):
    index: int
    embedding: str


class _PooledList(Struct, frozen=True):
    data: list[_Pooled]


class _Rows(Struct, frozen=True):
    index: int
    embedding: list[list[float]]


class _Result(Struct, frozen=True):
    index: int
    relevance_score: float


class _Usage(Struct, frozen=True):
    prompt_tokens: int = 0


class _Ranking(Struct, frozen=True):
    results: list[_Result]
    usage: _Usage = _Usage()


class Embedder:
    """Implements `supervisor.Listener`. `options` are those of the model; what an engine for generation has in them and
    one for embeddings cannot use (drafts, images, prompt cache) is left out. An input must fit into one physical batch,
    which is therefore as large as the window. `launcher` and `policy` are replaced in tests."""

    def __init__(
        self, options: LlamaCppOptions, *, launcher: Launcher | None = None, policy: RestartPolicy | None = None
    ) -> None:
        self._options = embedding_options(options)
        self._log = LogTail(options.log_sink)
        self._supervisor = Supervisor(launcher or launcher_of(self._options, self._log), self, policy)
        self._lanes = Lanes(self._options.lanes, options.max_waiting)
        self._client: Client | None = None
        self._launch: asyncio.Task[None] | None = None
        self.finished = 0
        self.cancelled = 0
        self.failed = 0
        self.tokens = 0
        self.context_length = self._options.context
        self.build = "llama.cpp"

    @property
    def pid(self) -> int | None:
        """The engine's process, where there is one of ours."""
        return self._supervisor.pid

    @property
    def lanes(self) -> int:
        """Works answered side by side."""
        return self._options.lanes

    def added_to(self, capabilities: Capabilities) -> Capabilities:
        """`capabilities` and what this engine can do beside: embed, or rank."""
        ranks = self._options.pooling == "rank"
        return msgspec.structs.replace(
            capabilities,
            embeddings=not ranks,
            rerank=ranks,
            embedding_tokens=self.context_length,
            pooling=self._options.pooling,
        )

    def counted_with(self, stats: BackendStats) -> BackendStats:
        """`stats` and what this engine did and does beside; its lanes are no lanes of another."""
        return msgspec.structs.replace(
            stats,
            running=stats.running + self._lanes.running,
            waiting=stats.waiting + self._lanes.waiting,
            finished=stats.finished + self.finished,
            cancelled=stats.cancelled + self.cancelled,
            failed=stats.failed + self.failed,
            prompt_tokens=stats.prompt_tokens + self.tokens,
            restarts=stats.restarts + self._supervisor.restarts,
        )

    def log_tail(self) -> tuple[str, ...]:
        """The last lines the engine wrote, oldest first."""
        return self._log.lines()

    def health(self) -> Health:
        """Whether it can answer now."""
        return self._supervisor.health()

    async def start(self) -> None:
        """Start the engine unless it runs; whoever else waits for it goes on waiting when this is cancelled. Raises
        EngineFailure."""
        if self._launch is None or (self._launch.done() and self._supervisor.state == "failed"):
            self._launch = asyncio.create_task(self._supervisor.start(), name="llamacpp-embedder")
            self._launch.add_done_callback(_retrieve)
        await asyncio.shield(self._launch)

    async def stop(self) -> None:
        """Refuse what waits, then end the engine. Safe to call twice."""
        self._supervisor.close()
        self._lanes.pause()
        self._lanes.refuse_all(Unavailable("The server is shutting down."))
        if self._launch is not None:
            self._launch.cancel()
            await asyncio.wait((self._launch,))
        await self._supervisor.stop()

    async def embed(self, work: EmbedWork) -> tuple[tuple[Vector, ...], ...]:
        """See `backend.base.Backend.embed`."""
        if self._options.pooling == "rank":
            raise NotSupported("This model ranks documents; it makes no embeddings.")
        with _Booked(self, sum(map(len, work.inputs))):
            await self._ready()
            ticket = self._lanes.enter()
            try:
                await ticket.granted()
                found: list[tuple[Vector, ...]] = []
                for group in self._groups(work.inputs):
                    found += await self._vectors(group)
                return tuple(found)
            finally:
                ticket.release()

    async def rerank(self, work: RerankWork) -> Scores:
        """See `backend.base.Backend.rerank`. llama.cpp puts query and document together, by the model's own template
        where it has one."""
        if self._options.pooling != "rank":
            raise NotSupported("This model makes embeddings; it has no head for relevance.")
        with _Booked(self, 0) as booked:
            await self._ready()
            ticket = self._lanes.enter()
            try:
                await ticket.granted()
                scores: list[float] = []
                for group in self._groups(work.documents):
                    scores += await self._scores(work.query, group, booked)
                return Scores(scores=tuple(scores), prompt_tokens=booked.tokens)
            finally:
                ticket.release()

    # supervisor.Listener

    async def engine_up(self, engine: RunningEngine) -> None:
        """Learn how long inputs may be."""
        client = Client(engine.endpoint)
        try:
            status, body = await client.request("GET", "/props", patience=_QUESTION_SECONDS)
        except ConnectionLost as error:
            raise EngineFailure(f"llama.cpp went away while it was being asked what it serves. {error}") from error
        if status != 200:
            raise error_of(status, body)
        props = read_props(body)
        window = props.default_generation_settings.n_ctx
        self.context_length = window if self._options.remote else min(window, self._options.context or window)
        self.build = engine.build or f"llama.cpp {props.build_info}".strip()
        self._client = client
        self._lanes.resume()

    def engine_down(self, error: DragomanError) -> None:
        """What runs in it ends with its connection; what waits may go on waiting."""
        self._client = None
        self._lanes.pause()

    def engine_failed(self, error: DragomanError) -> None:
        """Nothing will come of waiting."""
        self._lanes.refuse_all(error)

    # inside

    async def _ready(self) -> None:
        if self._supervisor.state in ("new", "loading"):
            await self.start()
        self._supervisor.require()

    def _groups(self, items: tuple[W, ...]) -> Iterator[tuple[W, ...]]:
        size = _GROUP_PER_LANE * self._options.lanes
        return (items[start : start + size] for start in range(0, len(items), size))

    async def _vectors(self, inputs: tuple[tuple[int, ...], ...]) -> list[tuple[Vector, ...]]:
        if self._options.pooling == "none":
            rows = _read(await self._ask("/embedding", {"input": inputs, "embd_normalize": -1}), list[_Rows])
            found = {entry.index: tuple(map(pack, entry.embedding)) for entry in rows}
        else:
            # Base64 is a quarter of the bytes and takes no parsing of numbers.
            body = {"input": inputs, "embd_normalize": -1, "encoding_format": "base64"}
            pooled = _read(await self._ask("/v1/embeddings", body), _PooledList)
            found = {entry.index: (_unpacked(entry.embedding),) for entry in pooled.data}
        if len(found) != len(inputs):
            raise EngineFailure("llama.cpp answered with another number of embeddings than it was asked for.")
        return [found[index] for index in range(len(inputs))]

    async def _scores(self, query: str, documents: tuple[str, ...], booked: _Booked) -> list[float]:
        ranking = _read(await self._ask("/rerank", {"query": query, "documents": documents}), _Ranking)
        found = {result.index: result.relevance_score for result in ranking.results}
        if len(found) != len(documents):
            raise EngineFailure("llama.cpp answered with another number of scores than it was asked for.")
        booked.tokens += ranking.usage.prompt_tokens
        return [found[index] for index in range(len(documents))]

    async def _ask(self, path: str, body: object) -> bytes:
        client = self._client
        if client is None:
            raise Unavailable("The llama.cpp engine for embeddings is not running.", retry_after=1)
        try:
            status, answer = await client.request("POST", path, msgspec.json.encode(body))
        except ConnectionLost as error:
            raise EngineFailure(f"The llama.cpp engine for embeddings was lost. {error}") from error
        if status != 200:
            raise error_of(status, answer)
        return answer


class _Booked:
    """Counts one work by how it ends."""

    def __init__(self, embedder: Embedder, tokens: int) -> None:
        self._embedder = embedder
        self.tokens = tokens

    def __enter__(self) -> _Booked:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if kind is None:
            self._embedder.finished += 1
            self._embedder.tokens += self.tokens
        elif issubclass(kind, asyncio.CancelledError):
            self._embedder.cancelled += 1
        else:
            self._embedder.failed += 1


def embedding_options(options: LlamaCppOptions) -> LlamaCppOptions:
    """The options of the engine that embeds."""
    window = options.embed_context or options.context
    # Pooling takes the last token's vector alone, so an input may be split; any other needs all of it at once.
    split = not window or options.pooling == "last"
    batch = options.ubatch if split else max(_LEAST_BATCH, window)
    flags = ("--embeddings", "--pooling", options.pooling or "mean")
    return msgspec.structs.replace(
        options,
        context=window,
        batch=batch,
        ubatch=batch,
        prompt_cache_mib=0,
        draft_model="",
        drafter="none",
        draft_max=None,
        draft_min=None,
        draft_p_min=None,
        mmproj="",
        kv_bits=0,
        # With a cache for each lane, inputs of different lengths in one batch are cut into steps of equal length, and
        # a mean is then taken over the last step alone. One cache for all keeps every input whole.
        kv_unified=True,
        engine_args=() if options.remote else (*options.engine_args, *flags),
    )


def _read(body: bytes, kind: type[W]) -> W:
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.MsgspecError as error:
        raise EngineFailure(f"llama.cpp answered with something that cannot be read: {error}.") from error


def _unpacked(text: str) -> Vector:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise EngineFailure("llama.cpp answered with an embedding that is not base64.") from error


def _retrieve(task: asyncio.Task[None]) -> None:
    """Nobody may be left to wait for it; its error is no surprise then."""
    if not task.cancelled():
        task.exception()
