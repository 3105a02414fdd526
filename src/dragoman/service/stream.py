"""Event streams of running answers: one choice directly, several merged. Closing a stream cancels its work."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Protocol

import msgspec

from dragoman.backend.base import TokenStream
from dragoman.core.errors import DragomanError
from dragoman.core.events import Event, Failed, Started
from dragoman.output.pipeline import ReplyPipeline


class ChoiceRun:
    """One choice being generated: its token stream and the pipeline that makes events of it."""

    def __init__(self, tokens: TokenStream, pipeline: ReplyPipeline, prompt_text: str) -> None:
        self._tokens = tokens
        self._pipeline = pipeline
        self._prompt_text = prompt_text

    async def batches(self) -> AsyncGenerator[list[Event]]:
        """Events in the batches in which they became known. Leaving early cancels the engine's work."""
        pipeline, begun = self._pipeline, False
        try:
            async for chunk in self._tokens:
                events = pipeline.feed(chunk)
                if not begun:
                    events = [self._with_prompt(event) for event in events]
                    begun = True
                if pipeline.ended:
                    # The engine must not spend another step on an answer that is over.
                    await self._tokens.aclose()
                if events:
                    yield events
                if pipeline.ended:
                    return
        except DragomanError as error:
            yield pipeline.fail(error)
        finally:
            await self._tokens.aclose()

    async def close(self) -> None:
        """Cancel the engine's work, also when `batches` was never entered. Closing twice does nothing."""
        await self._tokens.aclose()

    def _with_prompt(self, event: Event) -> Event:
        if isinstance(event, Started):
            return msgspec.structs.replace(event, prompt_text=self._prompt_text)
        return event


class Run(Protocol):
    """One choice: batches of events, and a way to cancel it even before the first."""

    def batches(self) -> AsyncGenerator[list[Event]]:
        """Events in the batches in which they became known."""
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

    async def close(self) -> None:
        """Cancel the choice that was started before `batches` was entered."""
        await self._first.close()

    async def _run(self, choice: int) -> None:
        async with self._gate:
            try:
                run = self._first if choice == 0 else await self._start(choice)
                async for batch in run.batches():
                    await self._ready.put(batch)
            except DragomanError as error:
                await self._ready.put([Failed(choice, error)])
        await self._ready.put(None)


class EventStream:
    """The events of one reply, in batches. Iterate it once; `aclose` cancels all work at any time, even before the
    first item, which an async generator alone would not."""

    def __init__(self, runs: Run, choices: int) -> None:
        self.choices = choices
        self._runs = runs
        self._batches = runs.batches()

    def __aiter__(self) -> EventStream:
        return self

    async def __anext__(self) -> list[Event]:
        return await self._batches.__anext__()

    async def aclose(self) -> None:
        """Cancel what still runs and free its rows. Closing twice does nothing."""
        await self._batches.aclose()
        await self._runs.close()


async def _cancel(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
