"""One answer of llama.cpp, token by token and complete. Knows the native wire; knows neither queue nor restarts.

Usually one streamed request ("leg") is the whole story. Three faults of the wire make it longer:

- Ids of tokens that end inside a character are withheld. They are found again from the bytes (see `pieces`).
- After bytes that never become a character llama.cpp withholds everything until the answer ends, and at the very end
  of an answer even the text of an unfinished character. Nothing withheld was ever delivered, so the answer is taken up
  again after the last delivered token: a few tokens in one whole answer, which names every id, then a new leg. Greedy
  answers stay what they were; drawn ones are drawn anew from the same distribution, with a seed derived from theirs.
- Withheld tokens have no log probabilities. Where these are wanted, the leg is dropped and each token asked for alone;
  what sampling left of the distribution is told of no such token.

Log probabilities of a prompt, where these are wanted, are asked for before the answer begins (see `scorer`).

A constrained answer cannot be taken up again, since the constraint would begin anew: it keeps its one leg while
withheld tokens are asked for, and a limit that cuts it inside a character costs it the tokens of that character.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from dragoman.backend.llamacpp.client import Client, ConnectionLost, Exchange
from dragoman.backend.llamacpp.errors import error_in_stream, error_of
from dragoman.backend.llamacpp.pieces import Boundary, Pieces
from dragoman.backend.llamacpp.scorer import Scorer
from dragoman.backend.llamacpp.wire import (
    MINUS_INFINITY,
    Frame,
    Work,
    finish_of,
    logprobs_of,
    progress_of,
    read_frame,
    read_slots,
)
from dragoman.core.errors import EngineFailure, Overloaded
from dragoman.core.exchange import EngineFinish, EngineReport, TokenChunk
from dragoman.core.logprobs import TokenLogprob, TokenLogprobs

_PATH = "/completion"
_PATIENCE = 1.0
"""Silent seconds of a decoding leg after which the slots are looked at."""
_BLIND_PATIENCE = 10
"""How often silence is put up with where the server does not show its slots."""
_MOST_IN_FLIGHT = 6
"""Sampled but unseen tokens that need not mean trouble: three inside a character, a few on their way here."""
_REDRAWN = 8
"""Tokens asked for in one whole answer."""


class _Unasked(Struct, frozen=True):
    """Tokens whose log probabilities are still to be asked for, and those that came after them with theirs."""

    found: tuple[int, ...]
    tokens: tuple[int, ...]
    logprobs: tuple[TokenLogprobs, ...]


class Place(Protocol):
    """The slot it runs in, as far as it must be minded."""

    async def ready(self) -> None:
        """Wait until a leg may begin, or until `abandon`."""
        ...

    def abandon(self) -> None:
        """Told that no leg will begin any more."""
        ...

    def begun(self, cached: int) -> None:
        """Told how much of the prompt the slot had."""
        ...

    def prompt_done(self, prompt_ms: float) -> bool:
        """Told that the prompt is computed; True asks for the slot to be left for a moment."""
        ...


class Answer:
    """Call `next` until a chunk has `finish`. Any call may be cancelled and repeated; nothing is lost."""

    def __init__(
        self,
        work: Work,
        client: Client,
        pieces: Pieces,
        queued_ms: float,
        place: Place | None = None,
        *,
        forces: bool = False,
    ) -> None:
        self._work = work
        self._place = place
        self._request = work.request
        self._client = client
        self._pieces = pieces
        self._queued_ms = queued_ms
        self._stop_tokens = frozenset[int]() if work.request.sampling.ignore_eos else work.request.stop_tokens
        self._exchange: Exchange | None = None
        self._question: Exchange | None = None
        self._closed = False
        self._ids: list[int] = []
        self._leg = -1
        self._leg_begin = 0
        self._seen = 0
        self._decoding = False
        self._silences = 0
        self._held: TokenChunk | None = None
        self._redraw = 0
        self._unasked: _Unasked | None = None
        self._scorer = Scorer(work, self._whole, pieces.size, forces=forces)
        self._boundary = Boundary(pieces)
        self._cached: int | None = None
        self._sent = False
        self._processed = 0
        self._paused_ms: float | None = None
        self._drafted = self._accepted = 0
        self._held_tokens: int | None = None
        self._told_start = False
        self._began = time.monotonic()
        self._first_token: float | None = None

    @property
    def delivered(self) -> int:
        """Tokens delivered so far."""
        return len(self._ids)

    @property
    def prompt_tokens(self) -> int:
        """Length of the prompt."""
        return len(self._request.prompt)

    @property
    def cached(self) -> int:
        """Prompt tokens that came from the cache, as far as known."""
        return self._cached or 0

    @property
    def prompt_known(self) -> bool:
        """Whether the engine has taken the prompt up."""
        return self._cached is not None

    @property
    def content(self) -> tuple[int, ...] | None:
        """What its slot holds by now, as far as known: the last token sampled is not computed yet. None when the
        engine never got the request."""
        if not self._sent:
            return None
        if self._held_tokens is not None:
            return ()  # which tokens were dropped is llama.cpp's secret
        if not self._ids:
            return self._request.prompt[: self._processed]
        return (*self._request.prompt, *self._ids[:-1])

    async def next(self) -> TokenChunk:
        """The next chunk. Raises DragomanError, and ConnectionLost when the server is gone or `close` was called."""
        while True:
            chunk = None
            exchange = self._exchange
            if self._redraw:
                chunk = await self._redrawn()
            elif self._unasked is not None:
                chunk = await self._asked(self._unasked)
            elif self._scorer.left:
                chunk = await self._scored()
            elif exchange is None:
                await self._open_leg()
            elif (data := exchange.pop()) is not None:
                chunk = self._on_data(data)
            elif exchange.complete:
                raise ConnectionLost("The answer ended before it was complete.")
            else:
                try:
                    await exchange.more(_PATIENCE if self._decoding else None)
                except TimeoutError:
                    await self._on_silence(exchange)
            if chunk is not None:
                return chunk

    def close(self) -> None:
        """Drop the connection: llama.cpp frees the slot at once. Safe to call twice."""
        self._closed = True
        if self._place is not None:
            self._place.abandon()
        self._drop()
        if self._question is not None:
            self._question.close()

    # one leg

    async def _clear(self) -> None:
        """Wait until the slot may be used."""
        if self._place is not None:
            await self._place.ready()
        if self._closed:
            raise ConnectionLost("The request was dropped.")
        self._sent = True

    async def _open_leg(self) -> None:
        await self._clear()
        leg = self._leg + 1
        exchange = await self._send(self._work.streamed(self._ids, leg))
        self._leg, self._leg_begin, self._seen = leg, len(self._ids), 0
        self._decoding, self._silences = False, 0
        self._exchange = exchange

    async def _send(self, body: bytes) -> Exchange:
        """A request the server has accepted."""
        exchange = await self._client.open("POST", _PATH, body)
        try:
            if self._closed:
                raise ConnectionLost("The request was dropped.")
            self._question = exchange
            status = await exchange.status()
            if status != 200:
                raise error_of(status, await exchange.body())
        except BaseException:
            exchange.close()
            raise
        finally:
            self._question = None
        return exchange

    def _on_data(self, data: bytes) -> TokenChunk | None:
        if data in (b"null", b"[DONE]"):
            return None
        self._silences = 0
        frame = read_frame(data)
        if frame.error is not None:
            return self._on_error(frame)
        if frame.prompt_progress is not None:
            return self._on_progress(frame)
        self._decoding = True
        if self._held is not None:
            return self._after_stop_token(frame)
        return self._on_final(frame) if frame.stop else self._on_tokens(frame)

    def _on_error(self, frame: Frame) -> TokenChunk:
        error = error_in_stream(frame.error)
        # Slots that share one window can fill it together, whatever room each of them was promised.
        if isinstance(error, Overloaded) and self._ids:
            return self._chunk((), (), EngineFinish.CONTEXT)
        raise error

    async def _on_silence(self, exchange: Exchange) -> None:
        """A decoding leg said nothing for a while: it is slow, or llama.cpp keeps the text back."""
        if await self._withheld(exchange):
            self._take_up_again(_REDRAWN)

    async def _withheld(self, exchange: Exchange) -> bool:
        """Whether the slot has sampled more than was shown."""
        self._silences += 1
        status, body = await self._client.request("GET", "/slots", patience=60)
        if exchange.ready:
            return False
        if status != 200:
            return self._silences >= _BLIND_PATIENCE
        prompt = len(self._request.prompt) + self._leg_begin
        return any(slot.runs(prompt) and slot.decoded - self._seen > _MOST_IN_FLIGHT for slot in read_slots(body))

    def _on_progress(self, frame: Frame) -> TokenChunk | None:
        progress = frame.prompt_progress
        assert progress is not None  # noqa: S101 - checked by the caller
        self._decoding = progress.processed >= progress.total
        if self._leg or self._paused_ms is not None:
            return None
        self._processed = progress.processed
        if self._cached is None:
            self._cached = progress.cache
            if self._place is not None:
                self._place.begun(progress.cache)
        if self._decoding and self._place is not None and self._place.prompt_done(progress.time_ms):
            self._pause(progress.time_ms)
        if self._told_start and not self._request.progress:
            return None
        return TokenChunk(started=self._start(), progress=progress_of(progress) if self._request.progress else None)

    def _pause(self, prompt_ms: float) -> None:
        """Leave the slot before the first token; the same leg is sent again, and finds its prompt there."""
        self._drop()
        self._leg -= 1
        self._paused_ms = prompt_ms

    def _on_tokens(self, frame: Frame) -> TokenChunk | None:
        tokens = frame.tokens
        missing = frame.tokens_predicted - self._seen - len(tokens)
        found: tuple[int, ...] | None = ()
        if missing > 0:
            found = self._pieces.withheld(frame.content.encode(), missing, tokens)
        if found is None:
            self._take_up_again(missing + len(tokens))
            return None
        self._seen = frame.tokens_predicted
        wanted = self._request.logprobs
        if wanted is None:
            return self._deliver((*found, *tokens) if found else tokens, ())
        entries = tuple([logprobs_of(entry, wanted) for entry in frame.completion_probabilities])
        if len(entries) != len(tokens):
            raise EngineFailure("llama.cpp left out log probabilities that were asked for.")
        if not found:
            return self._deliver(tokens, entries)
        self._unasked = _Unasked(found, tokens, entries)
        return None

    async def _asked(self, unasked: _Unasked) -> TokenChunk | None:
        """Deliver what came, once the log probabilities of its withheld tokens are known."""
        if not self._work.one_leg:
            self._drop()  # The slot is needed for asking.
        logprobs = (*await self._ask(unasked.found), *unasked.logprobs)
        self._unasked = None
        return self._deliver((*unasked.found, *unasked.tokens), logprobs)

    def _deliver(self, tokens: tuple[int, ...], logprobs: tuple[TokenLogprobs, ...]) -> TokenChunk | None:
        end = _stop_at(tokens, self._stop_tokens)
        if end is None:
            return self._chunk(tokens, logprobs)
        # llama.cpp ends by itself on most of these, and then says more in its next frame.
        self._held = TokenChunk(tokens=tokens[:end], logprobs=logprobs[:end])
        return None

    def _after_stop_token(self, frame: Frame) -> TokenChunk:
        held = self._held
        assert held is not None  # noqa: S101 - checked by the caller
        return self._chunk(held.tokens, held.logprobs, EngineFinish.EOS, frame if frame.stop else None)

    def _on_final(self, frame: Frame) -> TokenChunk | None:
        missing = frame.tokens_predicted - self._seen
        if self._request.shift is not None and frame.truncated:
            # What was dropped cannot be sent again, so the answer is over even where its last tokens were kept back.
            self._held_tokens = frame.tokens_cached
            return self._chunk((), (), finish_of(frame, shifts=True), frame)
        if missing > 0 and not self._work.one_leg:
            self._take_up_again(min(missing, _REDRAWN))
            return None
        finish = finish_of(frame)
        if finish is EngineFinish.LENGTH and len(self._ids) + missing < self._request.max_tokens:
            self._drop()  # The least length is reached: from here on the answer may end.
            return None
        return self._chunk((), (), finish, frame)

    # taking an answer up again

    def _take_up_again(self, count: int) -> None:
        """Drop the leg and ask for `count` tokens as a whole. What was delivered ends between characters."""
        if self._work.one_leg:
            raise EngineFailure("llama.cpp keeps back the text of this constrained answer.")
        self._drop()
        self._redraw = count
        self._boundary = Boundary(self._pieces)

    async def _redrawn(self) -> TokenChunk:
        leg = self._leg + 1
        frame = await self._whole(self._work.whole(self._ids, leg, self._redraw))
        tokens = frame.tokens
        end = _stop_at(tokens, self._stop_tokens)
        tokens = tokens[:end]
        if not tokens:
            raise EngineFailure("llama.cpp did not name the tokens it sampled.")
        logprobs = await self._ask(tokens) if self._request.logprobs is not None else ()
        self._leg = leg
        # A leg must not begin inside a character: its text would be broken from the start, and all of it withheld.
        self._redraw = 0 if self._boundary.add(tokens) else _REDRAWN // 2
        return self._chunk(tokens, logprobs, self._whole_finish(frame, len(tokens), end is not None))

    def _whole_finish(self, frame: Frame, count: int, stopped: bool) -> EngineFinish | None:
        if stopped or frame.stop_type == "eos":
            return EngineFinish.EOS
        if frame.truncated:
            return EngineFinish.CONTEXT
        return EngineFinish.LENGTH if len(self._ids) + count >= self._request.max_tokens else None

    async def _whole(self, body: bytes) -> Frame:
        exchange = await self._send(body)
        self._question = exchange
        try:
            return read_frame(await exchange.body())
        finally:
            exchange.close()
            self._question = None

    async def _ask(self, tokens: Sequence[int]) -> tuple[TokenLogprobs, ...]:
        """Log probabilities of `tokens`, one question each."""
        if self._request.post_sampling:
            return tuple([TokenLogprobs(TokenLogprob(token, MINUS_INFINITY)) for token in tokens])
        ask = self._scorer.sampled
        return tuple([await ask([*self._ids, *tokens[:at]], token) for at, token in enumerate(tokens)])

    async def _scored(self) -> TokenChunk:
        """Log probabilities of the next prompt tokens."""
        await self._clear()
        try:
            scores = await self._scorer.prompt()
        finally:
            self._processed = self._scorer.scored
        return TokenChunk(prompt_logprobs=scores, started=self._start())

    # chunks

    def _chunk(
        self,
        tokens: tuple[int, ...],
        logprobs: tuple[TokenLogprobs, ...],
        finish: EngineFinish | None = None,
        final: Frame | None = None,
    ) -> TokenChunk:
        if tokens and self._first_token is None:
            self._first_token = time.monotonic()
        self._ids += tokens
        if finish is None:
            return TokenChunk(tokens=tokens, logprobs=logprobs, started=self._start())
        report = self._report(final)
        self._drop()
        return TokenChunk(tokens=tokens, logprobs=logprobs, started=self._start(), finish=finish, report=report)

    def _start(self) -> int | None:
        if self._told_start:
            return None
        self._told_start = True
        return self.cached

    def _report(self, final: Frame | None) -> EngineReport:
        """What llama.cpp measured, if one leg was all; our own clock otherwise."""
        now = time.monotonic()
        first = self._first_token or now
        prompt_ms, predicted_ms = (first - self._began) * 1000, (now - first) * 1000
        if final is not None and final.timings is not None and self._leg == 0:
            prompt_ms, predicted_ms = final.timings.prompt_ms, final.timings.predicted_ms
            if self._paused_ms is None:
                self._cached = final.timings.cache_n
            else:
                prompt_ms += self._paused_ms
            self._drafted, self._accepted = final.timings.draft_n, final.timings.draft_n_accepted
        return EngineReport(
            prompt_tokens=len(self._request.prompt),
            cached_tokens=self.cached,
            completion_tokens=len(self._ids),
            queued_ms=self._queued_ms,
            prompt_ms=prompt_ms,
            predicted_ms=predicted_ms,
            slot=max(0, final.id_slot) if final is not None else 0,
            drafted=self._drafted,
            accepted=self._accepted,
            held=self._held_tokens,
        )

    def _drop(self) -> None:
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.close()


def _stop_at(tokens: Sequence[int], stop_tokens: frozenset[int]) -> int | None:
    """How many tokens there are up to and including the first stop token; None without one."""
    return next((at + 1 for at, token in enumerate(tokens) if token in stop_tokens), None)
