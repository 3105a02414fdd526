"""`dragoman serve`: opens the port, then the room, and keeps both until it is told to stop."""

from __future__ import annotations

import asyncio
import dataclasses
import sys
from collections.abc import Callable

import msgspec

from dragoman.app.loading import LoadingGateway
from dragoman.app.room import DIALECTS, Room, ollama_first, open_room
from dragoman.config import ListenSettings, Settings
from dragoman.gateway.reply import Gateway
from dragoman.http.app import create_app
from dragoman.http.drain import Drain
from dragoman.http.listener import Listener
from dragoman.http.options import HttpOptions
from dragoman.http.server import Extra, HttpServer, run
from dragoman.telemetry.log import set_up_logging

Ready = Callable[[Listener, Room], None]


def serve(settings: Settings) -> int:
    """Serve until SIGINT or SIGTERM. Raises DragomanError when the port or the model cannot be had."""
    set_up_logging(settings.log.level)
    return run(serve_until_stopped(settings, announce))


async def serve_until_stopped(settings: Settings, ready: Ready, *, signals: bool = True) -> int:
    """Serve; `ready` is called once the model answers. Cancelling stops the server at once."""
    gateway, drain = LoadingGateway(), Drain()
    app = create_app(gateway, DIALECTS, http_options(settings.listen), drain=drain)
    server = HttpServer(app, _extra(settings.listen, gateway, drain))
    listener = server.open()
    closing = asyncio.Event()

    async def keep_room() -> None:
        async with open_room(settings, say) as room:
            room.draining = lambda: drain.draining
            gateway.hand_over(room.gateway)
            ready(listener, room)
            for other in server.others:
                say(f"Ollama's clients find it at {other.url}")
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
    """The HTTP station's options; field for field the same, but for the second port."""
    fields = dataclasses.asdict(listen)
    del fields["ollama_port"]
    return HttpOptions(**fields)


def _extra(listen: ListenSettings, gateway: Gateway, drain: Drain) -> tuple[Extra, ...]:
    """The second port, where one is wanted: the same engine behind the same gateway."""
    if listen.ollama_port is None:
        return ()
    options = http_options(listen)
    host = "127.0.0.1" if options.unix_socket else options.host
    options = msgspec.structs.replace(options, host=host, port=listen.ollama_port)
    return (Extra(create_app(gateway, ollama_first(DIALECTS), options, drain=drain), "--ollama-port"),)


def announce(listener: Listener, room: Room) -> None:
    """Tell the user where the server is, and a line to try."""
    card, url = room.model.card, listener.url
    say(f"Dragoman is ready at {url}")
    say(f"  model {card.id} on {card.engine_build}, {card.lanes} lanes of up to {card.context_length} tokens")
    body = '{"messages": [{"role": "user", "content": "Name the capital of France."}], "max_tokens": 50}'
    say("Try:")
    say(f"  curl {url}/v1/chat/completions -H 'Content-Type: application/json' -d '{body}'")
    say("Ctrl-C stops it.")


def say(text: str) -> None:
    """Tell the user something; standard output stays free."""
    print(text, file=sys.stderr, flush=True)
