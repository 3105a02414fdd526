"""`dragoman serve`: opens the port, then the room, and keeps both until it is told to stop."""

from __future__ import annotations

import asyncio
import dataclasses
import sys
from collections.abc import Callable

from dragoman.app.loading import LoadingGateway
from dragoman.app.room import DIALECTS, Room, open_room
from dragoman.config import ListenSettings, Settings
from dragoman.http.app import create_app
from dragoman.http.drain import Drain
from dragoman.http.listener import Listener
from dragoman.http.options import HttpOptions
from dragoman.http.server import HttpServer, run
from dragoman.telemetry.log import set_up_logging

Ready = Callable[[Listener, Room], None]


def serve(settings: Settings) -> int:
    """Serve until SIGINT or SIGTERM. Raises DragomanError when the port or the model cannot be had."""
    set_up_logging(settings.log.level)
    return run(serve_until_stopped(settings, announce))


async def serve_until_stopped(settings: Settings, ready: Ready, *, signals: bool = True) -> int:
    """Serve; `ready` is called once the model answers. Cancelling stops the server at once."""
    gateway, drain = LoadingGateway(), Drain()
    server = HttpServer(create_app(gateway, DIALECTS, http_options(settings.listen), drain=drain))
    listener = server.open()
    closing = asyncio.Event()

    async def keep_room() -> None:
        async with open_room(settings, say) as room:
            room.draining = lambda: drain.draining
            gateway.hand_over(room.gateway)
            ready(listener, room)
            await closing.wait()

    serving = asyncio.create_task(server.serve(signals=signals))
    keeping = asyncio.create_task(keep_room())
    try:
        await asyncio.wait({serving, keeping}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        closing.set()
        if not serving.done():
            server.stop()
            server.stop()
        elif not gateway.ready:
            keeping.cancel()
        await asyncio.gather(serving, keeping, return_exceptions=True)
    for task in (keeping, serving):
        if not task.cancelled() and (error := task.exception()):
            raise error
    return 0


def http_options(listen: ListenSettings) -> HttpOptions:
    """The HTTP station's options; field for field the same."""
    return HttpOptions(**dataclasses.asdict(listen))


def announce(listener: Listener, room: Room) -> None:
    """Tell the user where the server is, and a line to try."""
    card, url = room.model.card, listener.url
    say(f"Dragoman is ready at {url}")
    say(f"  model {card.id} on {card.engine_build}, {card.lanes} lanes of {card.context_length} tokens")
    body = '{"messages": [{"role": "user", "content": "Name the capital of France."}], "max_tokens": 50}'
    say("Try:")
    say(f"  curl {url}/v1/chat/completions -H 'Content-Type: application/json' -d '{body}'")
    say("Ctrl-C stops it.")


def say(text: str) -> None:
    """Tell the user something; standard output stays free."""
    print(text, file=sys.stderr, flush=True)
