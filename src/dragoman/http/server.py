"""Runs the application on uvicorn, in this process: listening, signals, draining. Knows no route."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import threading
from collections.abc import Callable, Coroutine, Generator, Sequence
from types import FrameType
from typing import Any, TypeVar, cast

import uvicorn
from msgspec import Struct

from dragoman import __version__
from dragoman.http.app import HttpApp
from dragoman.http.listener import Listener, listen
from dragoman.http.ports import Ports
from dragoman.http.protocol import GuardedConfig, GuardedProtocol

Announce = Callable[[Listener], None]
T = TypeVar("T")

KEEP_ALIVE = 75  # seconds; longer than the pools of common clients keep idle connections
SETTLE = 2.0  # seconds cancelled requests have to end
SIGNALS = (signal.SIGINT, signal.SIGTERM)

_log = logging.getLogger(__name__)


class Extra(Struct, frozen=True):
    """Another application on a port of its own; `flag` is what chooses that."""

    app: HttpApp
    flag: str


class HttpServer:
    """One server for one application, and for those of `extra` on ports of their own, which share its drain and its
    options but for address and port.

    `stop()` once: drain, that is refuse new requests with 503, let running ones finish for `options.drain` seconds,
    then cancel them. `stop()` again: cancel at once. SIGINT and SIGTERM call it.
    """

    def __init__(self, app: HttpApp, extra: Sequence[Extra] = ()) -> None:
        self._app = app
        self._extra = tuple(extra)
        self._others: tuple[Listener, ...] = ()
        self._listener: Listener | None = None
        self._uvicorn: _Uvicorn | None = None
        self._drainer: asyncio.Task[None] | None = None
        self._starting: asyncio.Task[Any] | None = None
        self._gave_up = False

    def open(self) -> Listener:
        """Listen, before anything slow is done. Raises Unavailable when the address cannot be had."""
        if self._listener is None:
            self._listener = listen(self._app.options.host, self._app.options.port)
            try:
                for one in self._extra:
                    opened = listen(one.app.options.host, one.app.options.port, one.flag)
                    self._others = (*self._others, opened)
            except BaseException:
                self._close()
                raise
        return self._listener

    @property
    def others(self) -> tuple[Listener, ...]:
        """Where those of `extra` listen, once this is open."""
        return self._others

    def _close(self) -> None:
        for listener in (self._listener, *self._others):
            if listener is not None:
                listener.close()

    async def serve(self, announce: Announce | None = None, *, signals: bool = True) -> None:
        """Serve until stopped. `announce` is called once requests are answered.

        `signals` False leaves the process's signal handlers alone. Raises Unavailable when the address cannot be
        had, and whatever the application's lifespan raises.
        """
        listener = self.open()
        server = _Uvicorn(self._config(), lambda: announce(listener) if announce else None)
        self._starting = asyncio.current_task()
        try:
            with self._signals() if signals else contextlib.nullcontext():
                async with self._app.lifespan():
                    self._starting, self._uvicorn = None, server
                    sockets = [sock for one in (listener, *self._others) for sock in one.sockets]
                    await server.serve(sockets=sockets)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not self._gave_up or task is None:
                raise
            task.uncancel()
        finally:
            if self._drainer is not None:
                self._drainer.cancel()
            server.close()
            self._close()

    def stop(self) -> None:
        """Drain; called again, stop at once. To be called on the server's event loop.

        While the application is still starting, give the start up.
        """
        if self._uvicorn is None:
            if self._starting is not None:
                self._gave_up = True
                self._starting.cancel()
        elif self._drainer is None:
            self._app.drain.begin()
            self._drainer = asyncio.get_running_loop().create_task(self._drain(self._uvicorn))
        else:
            self._app.drain.cancel()
            self._uvicorn.leave_at_once()

    def _on_signal(self) -> None:
        if self._drainer is not None:
            _log.warning("stopping at once")
        elif self._app.drain.running:
            _log.warning("finishing %d requests; interrupt again to stop at once", self._app.drain.running)
        self.stop()

    async def _drain(self, server: _Uvicorn) -> None:
        drain, seconds = self._app.drain, self._app.options.drain
        try:
            await asyncio.wait_for(drain.idle(), seconds)
        except TimeoutError:
            _log.warning("%d requests did not finish within %g seconds and are cancelled", drain.running, seconds)
            drain.cancel()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(drain.idle(), SETTLE)
        server.leave()

    def _config(self) -> GuardedConfig:
        options = self._app.options
        config = GuardedConfig(
            cast("Any", self._application()),
            http=GuardedProtocol,
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="warning",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            headers=[("server", f"dragoman/{__version__}")],
            timeout_keep_alive=KEEP_ALIVE,
            timeout_graceful_shutdown=int(SETTLE),
        )
        config.max_header = options.max_header
        config.header_timeout = options.body_timeout
        config.refuse = self._app.refuse
        return config

    def _application(self) -> HttpApp | Ports:
        if not self._extra:
            return self._app
        apps = {one.port: extra.app for one, extra in zip(self._others, self._extra, strict=True)}
        return Ports(self._app, apps)

    @contextlib.contextmanager
    def _signals(self) -> Generator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        loop = asyncio.get_running_loop()

        def on_signal(number: int, frame: FrameType | None) -> None:
            loop.call_soon_threadsafe(self._on_signal)

        before = {number: signal.getsignal(number) for number in SIGNALS}
        for number in SIGNALS:
            # signal.signal and not loop.add_signal_handler: works on Windows too, and what was there can be put back.
            signal.signal(number, on_signal)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


class _Uvicorn(uvicorn.Server):
    """uvicorn without signal handlers of its own, that tells when it is up and wakes once a second, not ten times."""

    def __init__(self, config: uvicorn.Config, announce: Callable[[], None]) -> None:
        super().__init__(config)
        self._announce = announce
        self._left = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._announce()

    async def main_loop(self) -> None:
        # uvicorn refreshes its Date header on every tenth tick.
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._left.wait(), 1.0)

    def leave(self) -> None:
        """Let connections end, then return from serve."""
        self.should_exit = True
        self._left.set()

    def leave_at_once(self) -> None:
        """Close every connection and return from serve."""
        self.force_exit = True
        self.leave()
        self._abort()

    def close(self) -> None:
        """Give back what is still held when serve ended; nothing after an orderly shutdown."""
        for server in getattr(self, "servers", ()):
            server.close()
        self._abort()

    def _abort(self) -> None:
        for connection in list(self.server_state.connections):
            transport = getattr(connection, "transport", None)
            if transport is not None:
                transport.abort()


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run `main` on uvloop where it is installed, on asyncio's own loop elsewhere."""
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(main)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
