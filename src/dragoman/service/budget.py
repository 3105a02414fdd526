"""Thinking budgets: a thought that has had its tokens is closed, and the answer goes on behind it.

No engine need know of it: the engine's work is cancelled, and a second request continues from the prompt, the thought
and the closing tag. Its prefix is the state the first one leaves behind, so little is computed twice. To everyone else
it is one stream of one answer.

- The ids of the closing tag count as completion tokens. They are not drawn, so their log probability is 0.
- A thought is never closed inside a character or what may become the closing tag, so it may be a few tokens longer than
  its budget; and not at all where no token would be left for the answer.
- With a seed, the second request draws with a seed derived from it and from the place where it begins: the same request
  gives the same answer again. Stages with a memory of their own (mirostat, adaptive) begin anew there.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

import msgspec
from msgspec import Struct

from dragoman.backend.base import TokenStream
from dragoman.core.errors import Overloaded
from dragoman.core.exchange import EngineFinish, EngineReport, EngineRequest, TokenChunk
from dragoman.core.logprobs import TokenLogprob, TokenLogprobs
from dragoman.core.prompt import Prompt
from dragoman.core.sampling import SamplingSpec
from dragoman.service.binding import Binding, bind
from dragoman.service.models import ServedModel
from dragoman.service.thought_meter import ThoughtMeter

EFFORT_SHARES = {"minimal": 0.1, "low": 0.2, "medium": 0.5, "high": 0.8, "xhigh": 0.95}
"""The part of an answer's limit a thought may take, where the template reads no effort; `max` has no bound."""
_SCALED_LIMIT = 16384
"""Tokens; a larger limit counts as this much for the shares."""
_LONGEST_PATIENCE = 60.0
"""Seconds a continuation waits for a place in a full queue."""
_FIRST_PAUSE = 0.02
_WITHOUT_END = 2**62
"""The budget of a thought that is closed from outside or not at all."""
_MS = 1000.0

Submit = Callable[[EngineRequest], Awaitable[TokenStream]]


def thinking_budget(prompt: Prompt, max_tokens: int) -> int | None:
    """Tokens the thought of this answer may have; None for no bound. Thinking that is off and happens all the same is
    closed at once; an effort in words becomes a share of `max_tokens`."""
    wanted = prompt.thinking
    if wanted.mode == "off":
        return 0
    if wanted.budget is not None:
        return wanted.budget
    share = EFFORT_SHARES.get(wanted.effort or "")
    if share is None:
        return _WITHOUT_END if wanted.closable else None
    return max(1, int(share * min(max_tokens, _SCALED_LIMIT)))


class Closing(Struct, frozen=True, kw_only=True):
    """When and how to close a thought: after `budget` tokens, with these ids; `grammar` is the constraint that holds
    from there on."""

    budget: int
    tokens: tuple[int, ...]
    grammar: str | None = None


def closing_of(model: ServedModel, prompt: Prompt, binding: Binding, max_tokens: int) -> Closing | None:
    """How this answer's thought is closed; None where it may take its time, or the model does not think. Blocking: the
    constraint is compiled once more, without the thought before it."""
    budget = thinking_budget(prompt, max_tokens)
    tokens = model.builder.thought_end
    if budget is None or not tokens:
        return None
    grammar = binding.grammar
    if grammar is not None:
        behind = msgspec.structs.replace(binding.constraint, thinking_open=False, may_think=False)
        grammar = bind(behind, model.compiler, degrade=False).grammar
    return Closing(budget=budget, tokens=tokens, grammar=grammar)


async def submit(
    model: ServedModel, request: EngineRequest, closing: Closing | None, *, thinking_open: bool
) -> TokenStream:
    """Queue `request`; the stream closes the thought of its answer as `closing` says. Raises as Backend.submit."""
    stream = await model.backend.submit(request)
    if closing is None:
        return stream
    meter = ThoughtMeter(model.builder.reply_format, model.tokenizer, thinking_open=thinking_open)
    return BudgetedStream(stream, request, meter, closing, model.backend.submit)


class BudgetedStream:
    """A TokenStream whose thought is closed in time. `first` is the running stream of `request`."""

    def __init__(
        self,
        first: TokenStream,
        request: EngineRequest,
        meter: ThoughtMeter,
        closing: Closing,
        submit: Submit,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stream: TokenStream | None = first
        self._request = request
        self._meter = meter
        self._closing = closing
        self._submit = submit
        self._clock = clock
        self._thought: list[int] = []
        self._second: EngineRequest | None = None
        self._closed = False
        self._cached = 0
        self._submitted = clock()
        self._began = self._first_token = self._last_token = self._submitted

    def __aiter__(self) -> AsyncIterator[TokenChunk]:
        return self

    async def __anext__(self) -> TokenChunk:
        if self._stream is None:
            await self._wait_for_place()
        if self._stream is None:
            raise StopAsyncIteration
        chunk = await self._stream.__anext__()
        if self._second is not None:
            return self._resumed(chunk)
        self._time(chunk)
        return chunk if self._meter.over else await self._metered(chunk)

    def end_thought(self) -> bool:
        """Spend the rest of the budget at once; False when the thought is over."""
        if self._second is not None or not self._meter.thinking:
            return False
        self._closing = msgspec.structs.replace(self._closing, budget=0)
        return True

    async def aclose(self) -> None:
        """Cancel the request unless it has ended."""
        self._closed = True
        if self._stream is not None:
            await self._stream.aclose()

    async def _metered(self, chunk: TokenChunk) -> TokenChunk:
        """The chunk, cut and with the closing tag where the budget is spent in it."""
        end = len(chunk.tokens) - 1 if chunk.finish is EngineFinish.EOS else len(chunk.tokens)
        for place, token in enumerate(chunk.tokens[:end]):
            if self._is_spent and not self._meter.closes_with(token):
                return await self._close(chunk, place)
            self._meter.feed(token)
            self._thought.append(token)
            if self._meter.over:
                break
        return chunk

    @property
    def _is_spent(self) -> bool:
        return self._meter.may_close and self._meter.count >= self._closing.budget and self._left >= 1

    @property
    def _left(self) -> int:
        """Tokens for the answer behind the closing tag."""
        return self._request.max_tokens - len(self._thought) - len(self._closing.tokens)

    async def _close(self, chunk: TokenChunk, place: int) -> TokenChunk:
        await self._go_on()
        tokens = self._closing.tokens
        forced = tuple(TokenLogprobs(TokenLogprob(token, 0.0)) for token in tokens)
        return msgspec.structs.replace(
            chunk,
            tokens=(*chunk.tokens[:place], *tokens),
            logprobs=(*chunk.logprobs[:place], *forced) if self._request.logprobs is not None else (),
            finish=None,
            report=None,
        )

    def _continuation(self) -> EngineRequest:
        request, done = self._request, (*self._thought, *self._closing.tokens)
        deadline = request.deadline
        return msgspec.structs.replace(
            request,
            id=secrets.token_hex(8),
            prompt=(*request.prompt, *done),
            max_tokens=self._left,
            sampling=continued_sampling(request.sampling, done),
            grammar=self._closing.grammar,
            progress=False,
            prompt_logprobs=None,
            deadline=None if deadline is None else max(0.001, deadline - (self._clock() - self._submitted)),
        )

    async def _go_on(self) -> None:
        """Cancel the first request and queue the second, which takes its place before anybody else can."""
        first, self._stream = self._stream, None
        self._second = self._continuation()
        if first is not None:
            await first.aclose()
        with contextlib.suppress(Overloaded):
            await self._take_place(self._second)

    async def _wait_for_place(self) -> None:
        """The queue was full all the same. The answer was admitted once, so it is waited for."""
        patience, pause = self._clock() + _LONGEST_PATIENCE, _FIRST_PAUSE
        while self._stream is None and self._second is not None and not self._closed:
            await asyncio.sleep(pause)
            pause = min(1.0, 2 * pause)
            try:
                await self._take_place(self._second)
            except Overloaded:
                if self._clock() >= patience:
                    raise

    async def _take_place(self, request: EngineRequest) -> None:
        stream = await self._submit(request)
        if self._closed:
            await stream.aclose()
        else:
            self._stream = stream

    def _time(self, chunk: TokenChunk) -> None:
        now = self._clock()
        if chunk.started is not None:
            self._cached, self._began = chunk.started, now
        if chunk.tokens:
            if not self._thought:
                self._first_token = now
            self._last_token = now

    def _resumed(self, chunk: TokenChunk) -> TokenChunk:
        """A chunk of the second request as one of the first."""
        if chunk.tokens:
            self._last_token = self._clock()
        report = chunk.report
        return msgspec.structs.replace(
            chunk,
            started=None,
            progress=None,
            prompt_logprobs=(),
            report=None if report is None else self._whole_report(report),
        )

    def _whole_report(self, report: EngineReport) -> EngineReport:
        """Both requests as one. The pause between them is part of the time the answer took."""
        done = len(self._thought) + len(self._closing.tokens)
        return msgspec.structs.replace(
            report,
            prompt_tokens=len(self._request.prompt),
            cached_tokens=self._cached,
            completion_tokens=done + report.completion_tokens,
            queued_ms=(self._began - self._submitted) * _MS,
            prompt_ms=(self._first_token - self._began) * _MS,
            predicted_ms=(self._last_token - self._first_token) * _MS,
        )


def continued_sampling(sampling: SamplingSpec, done: Sequence[int]) -> SamplingSpec:
    """The spec of a request that goes on behind `done` tokens of an answer. The seed of the continuation comes from the
    seed and the place: with the same one, its draws would repeat those of the first tokens."""
    changes: dict[str, int] = {}
    if sampling.seed is not None:
        mixed = hashlib.blake2b(f"{sampling.seed}:{len(done)}".encode(), digest_size=8).digest()
        changes["seed"] = int.from_bytes(mixed)
    if sampling.min_tokens:
        changes["min_tokens"] = max(0, sampling.min_tokens - len(done))
    return msgspec.structs.replace(sampling, **changes) if changes else sampling
