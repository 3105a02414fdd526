"""A conversation with a served model from within this process, for the command line."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from dragoman.app.room import Room
from dragoman.core.events import Event, Failed, PartDelta, PartStart
from dragoman.core.messages import Message, TextPart
from dragoman.core.request import ChatInput, Request


class Session:
    """Remembers what was said. `reasoning` pieces come marked, so that they can be shown apart."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._messages: list[Message] = []

    def forget(self) -> None:
        """Begin anew."""
        self._messages.clear()

    async def ask(self, text: str) -> AsyncGenerator[tuple[str, bool]]:
        """Pieces of the answer as they come: (text, whether it is reasoning). Raises DragomanError."""
        self._messages.append(Message("user", (TextPart(text),)))
        _, events = await self._room.desk.generate([Request(input=ChatInput(messages=tuple(self._messages)))])
        said: list[str] = []
        kinds: dict[int, str] = {}
        try:
            async for batch in events:
                for event in batch:
                    piece = _piece(event, kinds)
                    if piece and not piece[1]:
                        said.append(piece[0])
                    if piece:
                        yield piece
        finally:
            await events.aclose()
            self._messages.append(Message("assistant", (TextPart("".join(said)),)))


def _piece(event: Event, kinds: dict[int, str]) -> tuple[str, bool] | None:
    if isinstance(event, Failed):
        raise event.error
    if isinstance(event, PartStart):
        kinds[event.index] = event.kind
    if isinstance(event, PartDelta) and event.text:
        return event.text, kinds.get(event.index) == "reasoning"
    return None
