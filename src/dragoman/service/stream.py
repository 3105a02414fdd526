"""Event streams of running answers: one choice directly, several merged. Closing a stream cancels its work."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Sequence
from typing import Any, Protocol, runtime_checkable

from dragoman.backend.base import TokenStream
from dragoman.core.edits import AppliedEdit
from dragoman.core.errors import DragomanError
from dragoman.core.events import Event, Failed
from dragoman.core.inforce import InForce
from dragoman.core.vocabulary import Vocabulary
from dragoman.output.pipeline import ReplyPipeline
from dragoman.service.account import RunAccount
from dragoman.service.contract import Contract, ContractWatch


@runtime_checkable
class Thinker(Protocol):
    """A token stream whose thought can be closed from outside."""

    def end_thought(self) -> bool:
        """Close it as soon as it may be; False when it is not thinking, or no more."""
        ...


class ChoiceRun:
    """One choice being generated: its token stream and the pipeline that makes events of it. `contract`, where there
    is one, has the last word."""

    def __init__(
        self,
        tokens: TokenStream,
        pipeline: ReplyPipeline,
        prompt_text: str,
        contract: Contract | None = None,
        vocabulary: Vocabulary | None = None,
    ) -> None:
        self._tokens = tokens
        self._pipeline = pipeline
        self._account = RunAccount(prompt_text, vocabulary)
        self._watch = ContractWatch(contract) if contract is not None else None

    async def batches(self) -> AsyncGenerator[list[Event]]:
        """Events in the batches in which they became known. Leaving early cancels the engine's work."""
        pipeline, begun = self._pipeline, False
        try:
            async for chunk in self._tokens:
                events = pipeline.feed(chunk)
                if not begun:
                    events = self._account.opening(events, chunk)
                    begun = True
                if pipeline.ended:
                    events = self._account.ending(events, chunk)
                    # The engine must not spend another step on an answer that is over.
                    await self._tokens.aclose()
                if self._watch is not None and self._watch.note(events):
                    # A schema may have to be compiled for this.
                    events = await asyncio.to_thread(self._watch.verdict, events)
                if events:
                    yield events
                if pipeline.ended:
                    return
        except DragomanError as error:
            yield pipeline.fail(error)
        finally:
            await self._tokens.aclose()

    def end_thought(self) -> bool:
        """Close the thought of the answer, if it is in one that may be closed from outside."""
        return isinstance(self._tokens, Thinker) and self._tokens.end_thought()

    async def close(self) -> None:
        """Cancel the engine's work, also when `batches` was never entered. Closing twice does nothing."""
        await self._tokens.aclose()


class Run(Protocol):
    """One choice: batches of events, and a way to cancel it even before the first."""

    def batches(self) -> AsyncGenerator[list[Event]]:
        """Events in the batches in which they became known."""
        ...

    def end_thought(self) -> bool:
        """See `EventStream.end_thought`."""
        ...

    async def close(self) -> None:
        """Cancel it."""
        ...


StartChoice = Callable[[int], Awaitable[Run]]


class MergedRuns:
    """Several choices run side by side, at most `width` at once; events interleave as they come."""

    def __init__(self, first: Run, start: StartChoice, count: int, width: int) -> None:
        self._first = first
        self._start = start
        self._count = count
        self._gate = asyncio.Semaphore(max(1, width))
        self._running: list[Run] = []
        # Bounded, so that a client that reads slowly slows the choices down instead of filling memory.
        self._ready: asyncio.Queue[list[Event] | None] = asyncio.Queue(maxsize=64)

    async def batches(self) -> AsyncGenerator[list[Event]]:
        """Batches of all choices. Leaving early cancels every choice."""
        tasks = [asyncio.create_task(self._run(choice)) for choice in range(self._count)]
        try:
            running = len(tasks)
            while running:
                batch = await self._ready.get()
                if batch is None:
                    running -= 1
                else:
                    yield batch
        finally:
            await _cancel(tasks)

    def end_thought(self) -> bool:
        """Of every choice that runs."""
        ended = [run.end_thought() for run in self._running]
        return any(ended)

    async def close(self) -> None:
        """Cancel the choice that was started before `batches` was entered."""
        await self._first.close()

    async def _run(self, choice: int) -> None:
        async with self._gate:
            try:
                run = self._first if choice == 0 else await self._start(choice)
                self._running.append(run)
                async for batch in run.batches():
                    await self._ready.put(batch)
            except DragomanError as error:
                await self._ready.put([Failed(choice, error)])
        await self._ready.put(None)


class EventStream:
    """The events of one reply, in batches. Iterate it once; `aclose` cancels all work at any time, even before the
    first item, which an async generator alone would not. `unenforced` says why the answer is not held to the form that
    was asked for, '' where it is; `in_force` what each request came to; `dropped_thoughts` how many replayed thoughts
    were not believed, `applied_edits` what was left out of the conversation."""

    def __init__(self, runs: Run, choices: int, unenforced: str = "", in_force: tuple[InForce, ...] = ()) -> None:
        self.choices = choices
        self.in_force = in_force
        self.unenforced = unenforced
        self.dropped_thoughts = 0
        self.applied_edits: tuple[AppliedEdit, ...] = ()
        self._runs = runs
        self._batches = runs.batches()

    def __aiter__(self) -> EventStream:
        return self

    def __anext__(self) -> Coroutine[Any, Any, list[Event]]:
        return self._batches.__anext__()

    def end_thought(self) -> bool:
        """Let running answers end their thought now; whether there was one that could."""
        return self._runs.end_thought()

    async def aclose(self) -> None:
        """Cancel what still runs and free its rows. Closing twice does nothing."""
        await self._batches.aclose()
        await self._runs.close()


async def _cancel(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
