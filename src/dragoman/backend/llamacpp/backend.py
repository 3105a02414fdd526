"""Seam 1 on llama.cpp: the queue, the engine behind it, and what they add up to. Knows no dialect and no text."""

from __future__ import annotations

import asyncio
import weakref

import msgspec
from msgspec import Struct

from dragoman.backend.base import BackendStats
from dragoman.backend.llamacpp.answer import Answer
from dragoman.backend.llamacpp.client import Client, ConnectionLost
from dragoman.backend.llamacpp.errors import error_of
from dragoman.backend.llamacpp.lanes import Lanes
from dragoman.backend.llamacpp.launch import Launcher, RunningEngine, launcher_of
from dragoman.backend.llamacpp.logtail import LogTail
from dragoman.backend.llamacpp.options import LlamaCppOptions
from dragoman.backend.llamacpp.pieces import Pieces
from dragoman.backend.llamacpp.sampling import HONOURED
from dragoman.backend.llamacpp.stream import LlamaCppStream, Outcome
from dragoman.backend.llamacpp.supervisor import RestartPolicy, Supervisor
from dragoman.backend.llamacpp.wire import Work, distribution_body, read_frame, read_props, work_of
from dragoman.core.errors import ContextLengthExceeded, DragomanError, EngineFailure, Unavailable, UnsupportedField
from dragoman.core.exchange import EngineRequest
from dragoman.core.model import Capabilities
from dragoman.core.operations import Health
from dragoman.core.vocabulary import Vocabulary

__all__ = ["LlamaCppBackend", "LlamaCppOptions"]

_QUESTION_SECONDS = 120.0
_LARGEST_VOCABULARY = 1 << 18


class _Meta(Struct, frozen=True):
    n_vocab: int = _LARGEST_VOCABULARY


class _Model(Struct, frozen=True):
    meta: _Meta | None = None


class _Models(Struct, frozen=True):
    data: list[_Model] = []


class LlamaCppBackend:
    """A backend.base.Backend. `vocabulary` is the model's own; without one it is asked of the engine at start, which
    costs about a second per hundred thousand tokens. `launcher` and `policy` are replaced in tests."""

    def __init__(
        self,
        options: LlamaCppOptions,
        vocabulary: Vocabulary | None = None,
        *,
        launcher: Launcher | None = None,
        policy: RestartPolicy | None = None,
    ) -> None:
        self._options = options
        self._vocabulary = vocabulary
        self._log = LogTail(options.log_sink)
        self._supervisor = Supervisor(launcher or launcher_of(options, self._log), self, policy)
        self._lanes = Lanes(options.lanes, options.max_waiting)
        self._client: Client | None = None
        self._pieces: Pieces | None = None
        self._streams: weakref.WeakSet[LlamaCppStream] = weakref.WeakSet()
        self._works: weakref.WeakKeyDictionary[LlamaCppStream, Work] = weakref.WeakKeyDictionary()
        self._counts = BackendStats()
        self._capabilities = Capabilities(sampling=HONOURED, lanes=options.lanes)
        self._context_length = 0
        self._build = "llama.cpp"

    @property
    def capabilities(self) -> Capabilities:
        """What llama.cpp can do for this model."""
        return self._capabilities

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
        await self._supervisor.stop()

    async def submit(self, request: EngineRequest) -> LlamaCppStream:
        """Queue a request. Raises Unavailable, Overloaded, and InvalidRequest for what llama.cpp cannot do."""
        self._supervisor.require()
        work = self._check(request)
        stream = LlamaCppStream(self._lanes.enter(), self)
        self._streams.add(stream)
        self._works[stream] = work
        return stream

    def health(self) -> Health:
        """Whether it can answer now."""
        return self._supervisor.health()

    def stats(self) -> BackendStats:
        """Counters and gauges at this moment."""
        return msgspec.structs.replace(
            self._counts,
            running=self._lanes.running,
            waiting=self._lanes.waiting,
            lanes=self._capabilities.lanes,
            restarts=self._supervisor.restarts,
        )

    # stream.Host

    def begin(self, stream: LlamaCppStream) -> Answer:
        """Called by a stream that got a lane."""
        if self._client is None or self._pieces is None:
            raise Unavailable("The llama.cpp engine is not running.", retry_after=1)
        return Answer(self._works[stream], self._client, self._pieces, stream.ticket.queued_ms)

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

    # supervisor.Listener

    async def engine_up(self, engine: RunningEngine) -> None:
        """Learn what has been started."""
        client = Client(engine.endpoint)
        try:
            props = read_props(await _ask(client, "GET", "/props"))
            if self._pieces is None:
                self._pieces = await self._learn_pieces(client)
        except ConnectionLost as error:
            raise EngineFailure(f"llama.cpp went away while it was being asked what it serves. {error}") from error
        lanes = min(self._options.lanes, max(1, props.total_slots))
        if lanes != self._capabilities.lanes:
            self._lanes.resize(lanes)
        self._capabilities = Capabilities(sampling=HONOURED, lanes=lanes, logprobs=self._pieces.size)
        self._context_length = props.default_generation_settings.n_ctx
        self._build = engine.build or f"llama.cpp {props.build_info}".strip()
        self._client = client
        self._lanes.resume()

    def engine_down(self, error: DragomanError) -> None:
        """What ran in it is lost; what waits may go on waiting."""
        self._client = None
        self._lanes.pause()
        self._fail_streams(error, running_only=True)

    def engine_failed(self, error: DragomanError) -> None:
        """Nothing will come of waiting."""
        self._lanes.refuse_all(error)

    # inside

    def _check(self, request: EngineRequest) -> Work:
        if request.format is not None:
            raise UnsupportedField(
                "Constrained output is not available on llama.cpp yet.",
                field="response_format",
                remedy="Leave response_format (or format, grammar, json_schema) out.",
            )
        if len(request.prompt) >= self._context_length:
            raise ContextLengthExceeded(len(request.prompt), self._context_length)
        most = self._capabilities.logprobs
        if request.logprobs is not None and most is not None and request.logprobs > most:
            raise UnsupportedField(f"This engine reports at most {most} alternatives per token.", field="logprobs")
        return work_of(request, self._context_length)

    def _fail_streams(self, error: DragomanError, *, running_only: bool = False) -> None:
        for stream in list(self._streams):
            if stream.ticket.begun is not None or not running_only:
                stream.fail(error)

    async def _learn_pieces(self, client: Client) -> Pieces:
        vocabulary = self._vocabulary
        if vocabulary is not None:
            return Pieces(await asyncio.to_thread(_spelled_out, vocabulary))
        models = msgspec.json.decode(await _ask(client, "GET", "/v1/models"), type=_Models)
        size = models.data[0].meta.n_vocab if models.data and models.data[0].meta else _LARGEST_VOCABULARY
        frame = read_frame(await _ask(client, "POST", "/completion", distribution_body([0], size)))
        pieces: dict[int, bytes] = {}
        for entry in frame.completion_probabilities[:1]:
            pieces = {rival.id: bytes(rival.bytes) for rival in entry.top_logprobs}
        if not pieces:
            raise EngineFailure("llama.cpp does not tell its vocabulary.")
        return Pieces([pieces.get(token, b"") for token in range(max(pieces) + 1)])


async def _ask(client: Client, method: str, path: str, body: bytes = b"") -> bytes:
    status, answer = await client.request(method, path, body, patience=_QUESTION_SECONDS)
    if status != 200:
        raise error_of(status, answer)
    return answer


def _spelled_out(vocabulary: Vocabulary) -> list[bytes]:
    """The bytes llama.cpp sends for each token: none for control tokens."""
    return [b"" if vocabulary.is_special(token) else vocabulary.token_bytes(token) for token in range(vocabulary.size)]
