"""A whole server on a real socket, in a thread of the test process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager

from dragoman.app.room import Room
from dragoman.app.server import serve_until_stopped
from dragoman.config import Settings
from dragoman.http.listener import Listener

START_SECONDS = 120
STOP_SECONDS = 30


class RunningServer:
    """A server that answers. `url` has no trailing slash."""

    def __init__(self, url: str, room: Room, loop: asyncio.AbstractEventLoop) -> None:
        self.url = url
        self.room = room
        self._loop = loop

    def on_loop(self, call):
        """Run a plain function on the server's event loop and return its result."""

        async def run():
            return call()

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(STOP_SECONDS)

    def stats(self):
        """The backend's counters."""
        return self.on_loop(self.room.model.backend.stats)


@contextmanager
def running(settings: Settings) -> Iterator[RunningServer]:
    """Start a server with `settings` and stop it afterwards. Raises what the start raises."""
    ready: Future[RunningServer] = Future()
    stop: list[asyncio.Task[int]] = []

    def main() -> None:
        try:
            asyncio.run(serve(ready, stop))
        except asyncio.CancelledError:
            pass
        except BaseException as error:
            if not ready.done():
                ready.set_exception(error)

    async def serve(ready: Future[RunningServer], stop: list[asyncio.Task[int]]) -> None:
        loop = asyncio.get_running_loop()

        def announce(listener: Listener, room: Room) -> None:
            ready.set_result(RunningServer(listener.url, room, loop))

        stop.append(asyncio.ensure_future(serve_until_stopped(settings, announce, signals=False)))
        await stop[0]

    thread = threading.Thread(target=main, daemon=True)
    thread.start()
    server = ready.result(START_SECONDS)
    try:
        yield server
    finally:
        server._loop.call_soon_threadsafe(stop[0].cancel)
        thread.join(STOP_SECONDS)
        assert not thread.is_alive(), "the server did not stop"
