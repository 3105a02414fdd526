"""One request's own arithmetic: how far it is, why it ends, what it reports. Knows no engine and no other request."""

from __future__ import annotations

import secrets

from msgspec.structs import replace

from dragoman.cache.base import Hit
from dragoman.core.exchange import EngineFinish, EngineReport, EngineRequest, Progress, TokenChunk
from dragoman.core.logprobs import TokenLogprobs
from dragoman.core.mask import MaskProvider
from dragoman.core.prefix_miss import PrefixMiss
from dragoman.engines.base import RowSpec, RowStep

NO_ROW = -1
_MS = 1000.0


class Sequence:
    """A request on its way through the scheduler. Times are seconds of one monotonic clock.

    `answer` holds the sampled tokens. `boundary` is the prompt length at which its state is worth keeping, if any.
    `projected_bytes` is what its row may grow to.

    A sequence that waits may follow another one, its `leader`, whose prefill it will share up to `awaited` tokens; the
    leader's `followers` are kept by that number. `is_held` tells that it has to wait for that though its turn has come.
    `fork` is the prefix it will begin with then; `is_alone` tells that it shares with nobody (any more).
    `miss` tells why no more of its prompt was cached.
    """

    def __init__(self, request: EngineRequest, arrived: float, context_length: int, lane: str = "") -> None:
        self.request = request
        self.row = NO_ROW
        self.prefilled = 0
        self.cached = 0
        self.answer: list[int] = []
        self.boundary: int | None = None
        self.projected_bytes = 0
        self.fork: Hit | None = None
        self.leader: Sequence | None = None
        self.awaited = 0
        self.is_held = False
        self.followers: dict[int, list[Sequence]] = {}
        self.is_alone = not self.may_reuse
        self.miss: PrefixMiss | None = None
        self._lane = lane
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
    def may_reuse(self) -> bool:
        """Whether it may begin with tokens computed for another; a scored prompt needs every token processed."""
        return self.request.cache.reuse and self.request.prompt_logprobs is None

    @property
    def expires(self) -> float | None:
        """When it is ended with an error."""
        return None if self.request.deadline is None else self._arrived + self.request.deadline

    @property
    def overdue(self) -> str:
        """What to say when its deadline has come."""
        if self.row == NO_ROW:
            doing = "it was waiting"
        else:
            doing = "its answer was generated" if self.answer else "its prompt was read"
        return f"The deadline of {self.request.deadline or 0.0:g} seconds passed while {doing}."

    def row_spec(self, mask: MaskProvider | None = None) -> RowSpec:
        """What the engine is told. A request without a seed gets a random one of 64 bits, its own."""
        sampling = self.request.sampling
        if sampling.seed is None:
            sampling = replace(sampling, seed=secrets.randbits(64))
        return RowSpec(
            prompt=self.request.prompt,
            sampling=sampling,
            stop_tokens=self.request.stop_tokens,
            logprobs=self.request.logprobs,
            prompt_logprobs=self.request.prompt_logprobs,
            mask=mask,
            max_tokens=self.request.max_tokens,
        )

    @property
    def sampled(self) -> int:
        """Tokens sampled so far."""
        return len(self.answer)

    @property
    def longest(self) -> int:
        """Tokens its row may hold at the most."""
        return min(self.prompt_tokens + self.request.max_tokens, self._context_length)

    @property
    def fed(self) -> int:
        """Leading tokens the engine has certainly processed."""
        return self.prefilled + self.sampled

    @property
    def tokens(self) -> tuple[int, ...]:
        """Prompt and answer so far."""
        return (*self.request.prompt, *self.answer)

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
    def until_stop(self) -> int:
        """Prompt tokens to prefill until its state is wanted, or until all are."""
        stops = [stop for stop in (*self.followers, self.boundary) if stop is not None and stop > self.prefilled]
        return min([self.prompt_tokens - 1, *stops]) - self.prefilled

    def begin(self, row: int, now: float) -> None:
        """Take a row; what it begins with is the row's then."""
        self.row = row
        self.fork = None
        self._started = now

    def start(self, cached: int) -> TokenChunk:
        """The row is open, with that many prompt tokens from the cache; the chunk that says so."""
        self.cached = self.prefilled = cached
        progress = self._progress(cached, self._started or 0.0)
        return TokenChunk(started=cached, row=self.row, lane=self._lane, miss=self.miss, progress=progress)

    def prefill(self, count: int, logprobs: tuple[TokenLogprobs, ...], now: float) -> TokenChunk | None:
        """Count prefilled tokens; the progress to report, if wanted and if this was not the last chunk, and the log
        probabilities of the prompt."""
        self.prefilled += count
        progress = None if self.is_prefilled else self._progress(self.prefilled, now)
        return TokenChunk(progress=progress, prompt_logprobs=logprobs) if progress or logprobs else None

    def first_step(self, now: float) -> TokenChunk | None:
        """The last progress, if wanted: the step that fed the last prompt token is done."""
        return TokenChunk(progress=self._progress(self.prompt_tokens, now)) if self.request.progress else None

    def sample(self, step: RowStep, now: float) -> TokenChunk:
        """Count a sampled token; its chunk, with finish and report when it is the last one."""
        self.answer.append(step.token)
        self._last_sampled = now
        if self._first_sampled is None:
            self._first_sampled = now
        finish = self._finish_after(step)
        return TokenChunk(
            tokens=(step.token,),
            logprobs=() if step.logprobs is None or self.request.logprobs is None else (step.logprobs,),
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
            lane=self._lane,
        )

    def _finish_after(self, step: RowStep) -> EngineFinish | None:
        if step.token in self.request.stop_tokens:
            return EngineFinish.EOS
        if step.ended:
            return EngineFinish.COMPLETE
        if self.sampled >= self.request.max_tokens:
            return EngineFinish.LENGTH
        return EngineFinish.CONTEXT if self.prompt_tokens + self.sampled >= self._context_length else None

    def _progress(self, processed: int, now: float) -> Progress | None:
        if not self.request.progress:
            return None
        began = now if self._started is None else self._started
        return Progress(total=self.prompt_tokens, cached=self.cached, processed=processed, ms=(now - began) * _MS)
