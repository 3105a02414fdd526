"""Opens, fills and closes the parts of one choice and says so in events. Knows neither tokens' text nor markup."""

from __future__ import annotations

from collections.abc import Callable

from dragoman.core.events import Event, PartDelta, PartEnd, PartKind, PartStart


class PartLog:
    """Appends to `events`; whoever takes them puts a new list there.

    `tokens` are the ids that wait for the next delta, so that every id appears in exactly one.
    """

    def __init__(self, choice: int, new_call_id: Callable[[], str]) -> None:
        self.events: list[Event] = []
        self.tokens: tuple[int, ...] = ()
        self.kind: PartKind | None = None
        self._choice = choice
        self._index = -1
        self._new_call_id = new_call_id

    def open(self, kind: PartKind, name: str = "") -> None:
        """Begin a part; one that is open ends."""
        self.close()
        self._index += 1
        self.kind = kind
        call_id = self._new_call_id() if kind == "tool_call" else ""
        self.events.append(PartStart(self._choice, self._index, kind, call_id, name))

    def add(self, kind: PartKind, text: str) -> None:
        """Text for the open part, or for a new one when another kind is open."""
        if self.kind != kind:
            self.open(kind)
        self.events.append(PartDelta(self._choice, self._index, text, self.tokens))
        self.tokens = ()

    def settle(self) -> None:
        """Account for ids that brought no text."""
        if self.tokens:
            index = self._index if self.kind is not None else -1
            self.events.append(PartDelta(self._choice, index, "", self.tokens))
            self.tokens = ()

    def close(self) -> None:
        """End the open part, if any."""
        if self.kind is not None:
            self.events.append(PartEnd(self._choice, self._index))
            self.kind = None
