"""Seam 1 on llama.cpp: the queue, the engine behind it, and what they add up to. Knows no dialect and no text."""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import msgspec

from dragoman.backend.base import BackendStats
from dragoman.backend.llamacpp.adapters import Adapter, Mounted, require_adapters
from dragoman.backend.llamacpp.answer import Answer
from dragoman.backend.llamacpp.client import Client, ConnectionLost
from dragoman.backend.llamacpp.embedder import Embedder
from dragoman.backend.llamacpp.engine import RunningEngine
from dragoman.backend.llamacpp.journal import Journal, record_of
from dragoman.backend.llamacpp.lanes import Lanes
from dragoman.backend.llamacpp.launch import Launcher, launcher_of
from dragoman.backend.llamacpp.learn import (
    ask,
    learn_adapters,
    learn_constraining,
    learn_media,
    learn_pieces,
    learn_props,
)
from dragoman.backend.llamacpp.logtail import LogTail
from dragoman.backend.llamacpp.media import MediaWire, digest_of, media_prompt, require_images
from dragoman.backend.llamacpp.options import LlamaCppOptions
from dragoman.backend.llamacpp.pieces import Pieces
from dragoman.backend.llamacpp.pool import claim_of, pool_of
from dragoman.backend.llamacpp.prefixes import sharing_of
from dragoman.backend.llamacpp.sampling import HONOURED
from dragoman.backend.llamacpp.slotacts import SlotActs
from dragoman.backend.llamacpp.slotview import SlotNotes
from dragoman.backend.llamacpp.stream import LlamaCppStream, Outcome
from dragoman.backend.llamacpp.supervisor import RestartPolicy, Supervisor
from dragoman.backend.llamacpp.tokenizer import EngineTokenizer
from dragoman.backend.llamacpp.wire import Work, work_of
from dragoman.core.adapters import AdapterScale
from dragoman.core.errors import (
    ContextLengthExceeded,
    DragomanError,
    EngineFailure,
    NotSupported,
    Unavailable,
    UnsupportedField,
)
from dragoman.core.exchange import EngineRequest
from dragoman.core.model import Capabilities
from dragoman.core.operations import Health
from dragoman.core.slots import MountedAdapter, Slot, SlotActed, SlotAction
from dragoman.core.vectors import EmbedWork, RerankWork, Scores, Vector
from dragoman.core.vocabulary import Vocabulary

__all__ = ["LlamaCppBackend", "LlamaCppOptions"]

_DRAIN_SECONDS = 600.0
_GRAMMAR_GIVEN_UP = " llg error"


class LlamaCppBackend:
    """A backend.base.Backend. `vocabulary` is the model's own; without one, or with a tokenizer that is the engine's
    too, it is asked of the engine at start, which costs about a second per hundred thousand tokens. `launcher` and
    `policy` are replaced in tests."""

    def __init__(
        self,
        options: LlamaCppOptions,
        vocabulary: Vocabulary | None = None,
        *,
        launcher: Launcher | None = None,
        policy: RestartPolicy | None = None,
    ) -> None:
        self._prefixes, options = sharing_of(options, self._look_again)
        self._options = options
        self._vocabulary = vocabulary
        self._journal = Journal(options.journal)
        self._log = LogTail(self._heard)
        self._launcher = launcher
        self._supervisor = Supervisor(launcher or launcher_of(options, self._log), self, policy)
        self._lanes = Lanes(options.lanes, options.max_waiting, pool=pool_of(options))
        self._client: Client | None = None
        self._pieces: Pieces | None = None
        self._grammar = False
        self._streams: weakref.WeakSet[LlamaCppStream] = weakref.WeakSet()
        self._works: weakref.WeakKeyDictionary[LlamaCppStream, Work] = weakref.WeakKeyDictionary()
        self._counts = BackendStats()
        self._capabilities = Capabilities(sampling=HONOURED, lanes=options.lanes)
        self._context_length = 0
        self._build = "llama.cpp"
        self._mounted = Mounted()
        self._media: MediaWire | None = None
        self._mounting = asyncio.Lock()
        self._notes = SlotNotes()
        self._settled = asyncio.Event()
        self._embedder = Embedder(options) if options.pooling else None

    @property
    def capabilities(self) -> Capabilities:
        """What llama.cpp can do for this model."""
        return self._capabilities if self._embedder is None else self._embedder.added_to(self._capabilities)

    @property
    def context_length(self) -> int:
        """Tokens of one slot."""
        return self._context_length

    @property
    def build(self) -> str:
        """Engine and version."""
        return self._build

    @property
    def pid(self) -> int | None:
        """The engine's process, where there is one of ours."""
        return self._supervisor.pid

    def log_tail(self) -> tuple[str, ...]:
        """The last 200 lines the engine wrote, oldest first."""
        return self._log.lines()

    async def start(self) -> None:
        """Start the engine and learn what it is. Raises EngineFailure with the engine's own reason."""
        if self._prefixes is not None:
            await self._prefixes.open()
        try:
            await self._supervisor.start()
        except EngineFailure:
            raise
        except DragomanError as error:
            raise EngineFailure(error.message, remedy=error.remedy) from error

    async def stop(self) -> None:
        """End all requests with Unavailable, then the engine. Safe to call twice."""
        error = Unavailable("The server is shutting down.")
        self._supervisor.close()
        self._lanes.pause()
        self._lanes.refuse_all(error)
        self._fail_streams(error)
        if self._prefixes is not None:
            await self._prefixes.flush()
        if self._embedder is not None:
            await self._embedder.stop()
        await self._supervisor.stop()
        if self._prefixes is not None:
            await self._prefixes.close()

    async def submit(self, request: EngineRequest) -> LlamaCppStream:
        """Queue a request. Raises Unavailable, Overloaded, and InvalidRequest for what llama.cpp cannot do."""
        self._supervisor.require()
        if request.prompt_logprobs is not None:
            # All of the prompt is asked about, so nothing of it may come from the cache.
            reuse = msgspec.structs.replace(request.cache, reuse=False)
            request = msgspec.structs.replace(request, cache=reuse)
        work = self._check(request)
        stream = self._queued(request)
        self._streams.add(stream)
        self._works[stream] = work
        if request.deadline is not None:
            stream.expire_after(request.deadline)
        return stream

    async def embed(self, work: EmbedWork) -> tuple[tuple[Vector, ...], ...]:
        """See `backend.base.Backend`. A second engine does it, started now if it does not run: in this one an input
        would have to fit into a prefill batch, and would take the place of a cached prefix."""
        return await self._embedding.embed(work)

    async def rerank(self, work: RerankWork) -> Scores:
        """See `backend.base.Backend`."""
        return await self._embedding.rerank(work)

    @property
    def adapters(self) -> tuple[Adapter, ...]:
        """Those that are mounted now."""
        return self._mounted.adapters

    async def mount(self, adapters: Sequence[Adapter], patience: float = _DRAIN_SECONDS) -> None:
        """Serve with these adapters in place of those of now. New requests wait while running ones finish and the
        engine is started again. Raises Unavailable when some still run after `patience` seconds, NotSupported at a
        URL, EngineFailure for files that are not there or that llama.cpp refuses; the adapters of now stay then."""
        if self._options.remote:
            raise NotSupported("A llama-server that runs already cannot be given adapters.")
        require_adapters(adapters)
        async with self._mounting:
            self._supervisor.require()
            before = self._options
            self._lanes.pause()
            try:
                await self._drain(patience)
                self._options = msgspec.structs.replace(before, adapters=tuple(adapters))
                await self._supervisor.replace(self._launcher or launcher_of(self._options, self._log))
            except BaseException:
                self._options = before
                if self._client is not None:
                    self._lanes.resume()
                raise

    @property
    def mounted(self) -> tuple[MountedAdapter, ...]:
        """The adapters with the scales of requests that choose none."""
        return tuple(MountedAdapter(one.path, AdapterScale(one.name, one.scale)) for one in self.adapters)

    def rescale(self, scales: Sequence[float]) -> None:
        """Other scales for requests that choose no adapters, from the next one on."""
        told = tuple(
            msgspec.structs.replace(one, scale=scale) for one, scale in zip(self.adapters, scales, strict=True)
        )
        self._mounted = Mounted(told)
        self._options = msgspec.structs.replace(self._options, adapters=told)

    async def slots(self) -> tuple[Slot, ...]:
        """What the engine's slots hold and do. Raises NotSupported where the engine does not show them."""
        return self._notes.merged(await ask(self._running_client, "GET", "/slots"))

    async def act(self, action: SlotAction, file: Path | None) -> SlotActed:
        """See `service.slots.SlotKeeper`."""
        if self._prefixes is None:
            raise NotSupported("Slots of this engine cannot be saved: prefixes are not shared between them.")
        plain = EngineRequest(id="", prompt=(0,), max_tokens=1)
        acts = SlotActs(
            self._running_client,
            self._prefixes,
            self.namespace_of(plain),
            partial(self._primer, plain) if self._mounted.adapters else None,
        )
        return await acts.act(action, file)

    def health(self) -> Health:
        """Whether it can answer now."""
        return self._supervisor.health()

    def stats(self) -> BackendStats:
        """Counters and gauges at this moment."""
        stats = msgspec.structs.replace(
            self._counts,
            running=self._lanes.running,
            waiting=self._lanes.waiting,
            lanes=self._capabilities.lanes,
            restarts=self._supervisor.restarts,
            **({} if self._prefixes is None else self._prefixes.counts()),
        )
        return stats if self._embedder is None else self._embedder.counted_with(stats)

    # stream.Host

    def begin(self, stream: LlamaCppStream) -> Answer:
        """Called by a stream that got a lane."""
        if self._client is None or self._pieces is None:
            raise Unavailable("The llama.cpp engine is not running.", retry_after=1)
        work, seat = self._equipped(self._works[stream]), stream.seat
        if seat is not None and seat.slot is not None:
            work = msgspec.structs.replace(work, placement=work.placement | {"id_slot": seat.slot.number})
            self._notes.note(seat.slot.number, work.request)
        elif work.request.slot is not None:
            number = work.request.slot % self._capabilities.lanes
            work = msgspec.structs.replace(work, placement=work.placement | {"id_slot": number})
            self._notes.note(number, work.request)
        return Answer(work, self._client, self._pieces, stream.ticket.queued_ms, seat, forces=self._grammar)

    def settle(self, outcome: Outcome, answer: Answer | None) -> None:
        """Called by a stream that has ended."""
        counts = self._counts
        changed: dict[str, int] = {outcome: getattr(counts, outcome) + 1}
        if answer is not None:
            changed["completion_tokens"] = counts.completion_tokens + answer.delivered
            if answer.prompt_known:
                changed["prompt_tokens"] = counts.prompt_tokens + answer.prompt_tokens
                changed["cached_tokens"] = counts.cached_tokens + answer.cached
        self._counts = msgspec.structs.replace(counts, **changed)
        self._settled.set()

    # supervisor.Listener

    async def engine_up(self, engine: RunningEngine) -> None:
        """Learn what has been started."""
        client = Client(engine.endpoint)
        try:
            props = await learn_props(client)
            if self._pieces is None:
                self._pieces = await learn_pieces(client, self._vocabulary)
                self._grammar = await learn_constraining(client)
            self._mounted = Mounted(await learn_adapters(client) if self._options.remote else self._options.adapters)
            self._media = await learn_media(client, props)
        except ConnectionLost as error:
            raise EngineFailure(f"llama.cpp went away while it was being asked what it serves. {error}") from error
        lanes = min(self._options.lanes, max(1, props.total_slots))
        if lanes != self._capabilities.lanes:
            self._lanes.resize(lanes)
        self._capabilities = Capabilities(
            sampling=HONOURED,
            lanes=lanes,
            logprobs=self._pieces.size,
            prompt_logprobs=True,
            post_sampling_logprobs=True,
            grammar=self._grammar,
            shift=self._options.context_shift,
            media=frozenset({"image"} if self._media else ()),
        )
        self._context_length = props.default_generation_settings.n_ctx
        self._build = engine.build or f"llama.cpp {props.build_info}".strip()
        if self._prefixes is not None:
            options = msgspec.structs.replace(self._options, lanes=lanes)
            primer = self._primer if self._mounted.adapters else None
            await self._prefixes.engine_up(client, self._build, options, self._context_length, primer)
        if isinstance(self._vocabulary, EngineTokenizer):
            self._vocabulary.attach(engine.endpoint, self._pieces)
        self._client = client
        self._lanes.resume()
        self._note(engine)

    def engine_down(self, error: DragomanError) -> None:
        """What ran in it is lost; what waits may go on waiting."""
        self._client = None
        self._lanes.pause()
        if isinstance(self._vocabulary, EngineTokenizer):
            self._vocabulary.detach()
        if self._prefixes is not None:
            self._prefixes.engine_down()
        self._fail_streams(error, running_only=True)
        self._note()

    def engine_failed(self, error: DragomanError) -> None:
        """Nothing will come of waiting."""
        self._lanes.refuse_all(error)
        self._note()

    # inside

    def _note(self, engine: RunningEngine | None = None) -> None:
        """Tell the journal what runs now."""
        record = record_of(
            self._options, engine, build=self._build, lanes=self._capabilities.lanes, context=self._context_length
        )
        detail = "" if engine else self._supervisor.health().detail
        self._journal.note(msgspec.structs.replace(record, restarts=self._supervisor.restarts, detail=detail))

    @property
    def _running_client(self) -> Client:
        if self._client is None:
            raise Unavailable("The llama.cpp engine is not running.", retry_after=1)
        return self._client

    @property
    def _embedding(self) -> Embedder:
        if self._embedder is None:
            raise NotSupported("This model is not served for embeddings.", remedy="Start the server with --embeddings.")
        return self._embedder

    def _check(self, request: EngineRequest) -> Work:
        if request.grammar is not None and not self._capabilities.grammar:
            raise UnsupportedField(
                "This llama.cpp server was built without llguidance, which constrains output here.",
                field="response_format",
                remedy="Leave response_format (or format, grammar, json_schema) out, or leave --llama-server out.",
            )
        self._mounted.scales(request.adapters)
        require_images(request, self._media, self._vocabulary)
        if len(request.prompt) >= self._context_length:
            raise ContextLengthExceeded(len(request.prompt), self._context_length)
        _require_logprobs(request, self._capabilities.logprobs)
        return work_of(request, self._context_length)

    def _equipped(self, work: Work) -> Work:
        """With what depends on the engine of this moment: ids of adapters, the marker of images."""
        lora = self._mounted.native(work.request.adapters)
        media = media_prompt(work.request, self._media, self._vocabulary)
        return msgspec.structs.replace(work, placement=work.placement | lora, media=media)

    def namespace_of(self, request: EngineRequest) -> str:
        """Distinguishes states whose tokens are the same and whose adapters or images are not."""
        parts = (request.namespace, self._mounted.namespace(request.adapters), digest_of(request))
        return "|".join(part for part in parts if part)

    def _queued(self, request: EngineRequest) -> LlamaCppStream:
        prefixes = self._prefixes
        if prefixes is None:
            return LlamaCppStream(self._lanes.enter(claim=claim_of(request)), self)
        seat = prefixes.seat(request, self.namespace_of(request), plain=not digest_of(request))
        try:
            ticket = self._lanes.enter(lambda: prefixes.admit(seat), seat.claim)
        except DragomanError:
            seat.leave(None)
            raise
        return LlamaCppStream(ticket, self, seat)

    def _look_again(self) -> None:
        self._lanes.look_again()

    def _primer(self, request: EngineRequest, slot: int) -> bytes:
        return self._equipped(work_of(request, self._context_length)).primer(slot)

    async def _drain(self, patience: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience):
                while self._lanes.running:
                    self._settled.clear()
                    await self._settled.wait()
        if self._lanes.running:
            raise Unavailable(f"{self._lanes.running} requests are still running.", retry_after=10)

    def _heard(self, line: str) -> None:
        """A line of the engine's log. A grammar that llama.cpp gives up, at its start or later, shows only there: the
        answer goes on without it. Whose grammar it was is not said."""
        if _GRAMMAR_GIVEN_UP in line:
            error = EngineFailure(f"llama.cpp gave up the grammar of this answer: {line.partition(':')[2].strip()}.")
            for stream in self._running():
                if self._works[stream].one_leg:
                    stream.fail(error)
        self._journal.line(line)
        if self._options.log_sink is not None:
            self._options.log_sink(line)

    def _running(self) -> list[LlamaCppStream]:
        return [stream for stream in self._streams if stream.ticket.begun is not None]

    def _fail_streams(self, error: DragomanError, *, running_only: bool = False) -> None:
        for stream in list(self._streams):
            if stream.ticket.begun is not None or not running_only:
                stream.fail(error)


def _require_logprobs(request: EngineRequest, most: int | None) -> None:
    for field, wanted in (("logprobs", request.logprobs), ("prompt_logprobs", request.prompt_logprobs)):
        if wanted is not None and most is not None and wanted > most:
            raise UnsupportedField(f"This engine reports at most {most} alternatives per token.", field=field)
    if request.prompt_logprobs is not None and request.images:
        raise UnsupportedField("llama.cpp tells no log probabilities of a prompt with images.", field="prompt_logprobs")
