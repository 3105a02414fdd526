"""`dragoman run`: one answer, or a conversation, streamed to standard output. Knows `app` only."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys

from dragoman.app.room import open_room
from dragoman.app.server import say
from dragoman.app.session import Session
from dragoman.config import Settings
from dragoman.core.errors import DragomanError

_DIM, _PLAIN = "\x1b[2m", "\x1b[0m"
_HELP = "Type a message. /new begins anew, /bye (or Ctrl-D) ends. Ctrl-C stops an answer."


def chat_once(settings: Settings, text: str) -> int:
    """Answer `text` on standard output."""

    async def run() -> int:
        async with open_room(settings, say) as room:
            await _answer(Session(room), text)
        return 0

    return asyncio.run(run())


def chat_repl(settings: Settings) -> int:
    """Talk until the user ends it."""

    async def run() -> int:
        async with open_room(settings, say) as room:
            say(_HELP)
            await _talk(Session(room))
        return 0

    return asyncio.run(run())


async def _talk(session: Session) -> None:
    while True:
        try:
            text = (await asyncio.to_thread(input, ">>> ")).strip()
        except EOFError:
            return
        if text == "/bye":
            return
        if text == "/new":
            session.forget()
        elif text:
            await _turn(session, text)


async def _turn(session: Session, text: str) -> None:
    """One exchange; an error or Ctrl-C ends the answer, not the conversation."""
    answer = asyncio.ensure_future(_answer(session, text))
    loop = asyncio.get_running_loop()
    with contextlib.suppress(NotImplementedError):  # Windows: Ctrl-C then ends the program.
        loop.add_signal_handler(signal.SIGINT, answer.cancel)
    try:
        await answer
    except asyncio.CancelledError:
        print()
    except DragomanError as error:
        say(f"dragoman: {error.sentence}")
    finally:
        with contextlib.suppress(NotImplementedError):
            loop.remove_signal_handler(signal.SIGINT)


async def _answer(session: Session, text: str) -> None:
    thinking = False
    async for piece, reasoning in session.ask(text):
        if reasoning != thinking:
            _shade(reasoning)
            thinking = reasoning
        print(piece, end="", flush=True)
    if thinking:
        _shade(False)
    print(flush=True)


def _shade(reasoning: bool) -> None:
    if sys.stdout.isatty():
        print(_DIM if reasoning else f"{_PLAIN}\n", end="")
    elif not reasoning:
        print()
