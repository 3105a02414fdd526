"""One request's own arithmetic: how far it is, why it ends, what it reports. Knows no engine and no other request."""

from __future__ import annotations

import secrets

from msgspec.structs import replace

from dragoman.core.exchange import EngineFinish, EngineReport, EngineRequest, Progress, TokenChunk
from dragoman.core.logprobs import TokenLogprobs
from dragoman.engines.base import RowSpec

NO_ROW = -1
_MS = 1000.0


class Sequence:
    """A request on its way through the scheduler. Times are seconds of one monotonic clock."""

    def __init__(self, request: EngineRequest, arrived: float, context_length: int) -> None:
        self.request = request
        self.row = NO_ROW
        self.prefilled = 0
        self.cached = 0
        self.sampled = 0
        self._context_length = context_length
        self._arrived = arrived
        self._started: float | None = None
        self._first_sampled: float | None = None
        self._last_sampled: float | None = None

    @property
    def id(self) -> str:
        """The request's id."""
        return self.request.id

    @property
    def row_spec(self) -> RowSpec:
        """What the engine is told. A request without a seed gets a random one of 64 bits, its own."""
        sampling = self.request.sampling
        if sampling.seed is None:
            sampling = replace(sampling, seed=secrets.randbits(64))
        return RowSpec(
            prompt=self.request.prompt,
            sampling=sampling,
            stop_tokens=self.request.stop_tokens,
            logprobs=self.request.logprobs,
        )

    @property
    def prompt_tokens(self) -> int:
        """Length of the prompt."""
        return len(self.request.prompt)

    @property
    def unprefilled(self) -> int:
        """Prompt tokens still to be prefilled; the last one is not, the first decode step feeds it."""
        return self.prompt_tokens - 1 - self.prefilled

    @property
    def is_prefilled(self) -> bool:
        """Whether it can decode."""
        return self.unprefilled == 0

    @property
    def length(self) -> int:
        """Prompt and answer together, in tokens."""
        return self.prompt_tokens + self.sampled

    def begin(self, row: int, now: float) -> TokenChunk:
        """Take a row; the chunk that says so."""
        self.row = row
        self._started = now
        return TokenChunk(started=self.cached, progress=self._progress(self.cached, now))

    def prefill(self, count: int, now: float) -> TokenChunk | None:
        """Count prefilled tokens; the progress to report, if wanted and if this was not the last chunk."""
        self.prefilled += count
        if self.is_prefilled or not self.request.progress:
            return None
        return TokenChunk(progress=self._progress(self.prefilled, now))

    def first_step(self, now: float) -> TokenChunk | None:
        """The last progress, if wanted: the step that fed the last prompt token is done."""
        return TokenChunk(progress=self._progress(self.prompt_tokens, now)) if self.request.progress else None

    def sample(self, token: int, logprobs: TokenLogprobs | None, now: float) -> TokenChunk:
        """Count a sampled token; its chunk, with finish and report when it is the last one."""
        self.sampled += 1
        self._last_sampled = now
        if self._first_sampled is None:
            self._first_sampled = now
        finish = self._finish_after(token)
        return TokenChunk(
            tokens=(token,),
            logprobs=() if logprobs is None else (logprobs,),
            finish=finish,
            report=None if finish is None else self.report(now),
        )

    def cancel(self, now: float) -> TokenChunk:
        """The last chunk of a cancelled request."""
        return TokenChunk(finish=EngineFinish.CANCELLED, report=self.report(now))

    def report(self, now: float) -> EngineReport:
        """What was measured up to now; see core.usage.Timings for what the times mean."""
        started = now if self._started is None else self._started
        first = now if self._first_sampled is None else self._first_sampled
        last = first if self._last_sampled is None else self._last_sampled
        return EngineReport(
            prompt_tokens=self.prompt_tokens,
            cached_tokens=self.cached,
            completion_tokens=self.sampled,
            queued_ms=(started - self._arrived) * _MS,
            prompt_ms=(first - started) * _MS,
            predicted_ms=(last - first) * _MS,
            slot=max(self.row, 0),
        )

    def _finish_after(self, token: int) -> EngineFinish | None:
        if token in self.request.stop_tokens:
            return EngineFinish.EOS
        if self.sampled >= self.request.max_tokens:
            return EngineFinish.LENGTH
        return EngineFinish.CONTEXT if self.length >= self._context_length else None

    def _progress(self, processed: int, now: float) -> Progress | None:
        if not self.request.progress:
            return None
        began = now if self._started is None else self._started
        return Progress(total=self.prompt_tokens, cached=self.cached, processed=processed, ms=(now - began) * _MS)
