"""The token stream a request gets: its wait in the queue, its answer, its end. Knows no wire."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Literal, Protocol

from dragoman.backend.llamacpp.answer import Answer
from dragoman.backend.llamacpp.client import ConnectionLost
from dragoman.backend.llamacpp.lanes import Ticket
from dragoman.backend.llamacpp.seat import Seat
from dragoman.core.errors import DragomanError, EngineFailure
from dragoman.core.exchange import TokenChunk

Outcome = Literal["finished", "cancelled", "failed"]

_EXPLANATION_SECONDS = 1.0
"""How long a broken connection waits for the supervisor to say why."""


class Host(Protocol):
    """What a stream needs of its backend."""

    def begin(self, stream: LlamaCppStream) -> Answer:
        """Start the answer in the engine of this moment."""
        ...

    def settle(self, outcome: Outcome, answer: Answer | None) -> None:
        """Count the end of a request; `answer` is None when it never left the queue."""
        ...


class LlamaCppStream:
    """A backend.base.TokenStream. Iterate it in one task; `aclose` may come from any task of the loop. Pending and
    later `__anext__` calls then end the iteration."""

    def __init__(self, ticket: Ticket, host: Host, seat: Seat | None = None) -> None:
        self.ticket = ticket
        self.seat = seat
        self._host = host
        self._answer: Answer | None = None
        self._failure: DragomanError | None = None
        self._failed = asyncio.Event()
        self._deadline: asyncio.TimerHandle | None = None
        self._over = False

    def __aiter__(self) -> LlamaCppStream:
        return self

    async def __anext__(self) -> TokenChunk:
        if self._over:
            raise StopAsyncIteration
        seat = self.seat
        if seat is not None:
            seat.reading = True
            seat.reads += 1
        try:
            if self._answer is None or self._failure is not None:
                self._answer = await self._begin()
            chunk = await self._answer.next()
        except ConnectionLost as lost:
            if self._over:
                raise StopAsyncIteration from None
            error = await self._explain(lost)
            self._end("failed")
            raise error from lost
        except DragomanError:
            self._end("failed")
            raise
        finally:
            if seat is not None:
                seat.reading = False
        self.ticket.claim.made += len(chunk.tokens)
        if chunk.finish is not None:
            self._end("finished")
        return chunk

    def expire_after(self, seconds: float) -> None:
        """Fail it unless it has ended by then."""
        self._deadline = asyncio.get_running_loop().call_later(seconds, self._expire, seconds)

    async def aclose(self) -> None:
        """Cancel the request, wherever it is."""
        self._end("cancelled")

    def fail(self, error: DragomanError) -> None:
        """End it with `error`, which the reader gets instead of the next chunk."""
        self._failure = error
        self._failed.set()
        self.ticket.fail(error)
        if self._answer is not None:
            self._answer.close()

    async def _begin(self) -> Answer:
        if self._failure is not None:
            raise self._failure
        await self.ticket.granted()
        if self._over:
            raise StopAsyncIteration
        return self._host.begin(self)

    def _expire(self, seconds: float) -> None:
        doing = "it waited in the queue" if self._answer is None else "it was being answered"
        self.fail(EngineFailure(f"The deadline of {seconds:g} seconds passed while {doing}."))

    async def _explain(self, lost: ConnectionLost) -> DragomanError:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._failed.wait(), _EXPLANATION_SECONDS)
        return self._failure or EngineFailure(f"The connection to llama.cpp was lost. {lost}")

    def _end(self, outcome: Outcome) -> None:
        if self._over:
            return
        self._over = True
        if self._deadline is not None:
            self._deadline.cancel()
        if self._answer is not None:
            self._answer.close()
        if self.seat is None:
            self._release(outcome)
            return
        content = self._answer.content if self._answer is not None else None
        self.seat.leave(() if outcome == "failed" and content is not None else content)
        self.seat.when_idle(lambda: self._release(outcome))

    def _release(self, outcome: Outcome) -> None:
        """Free the lane, after the slot: who gets the lane looks for a slot at once."""
        self.ticket.release()
        self._host.settle(outcome, self._answer)

    def __del__(self) -> None:
        # A reader that left early without closing: the lane must not stay taken.
        with contextlib.suppress(RuntimeError):  # the loop may be closed by now
            self._end("cancelled")
