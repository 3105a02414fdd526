"""Counts the tokens of a thought while it is written. Knows no engine and makes no events."""

from __future__ import annotations

from enum import Enum

from dragoman.core.prompt import ReplyFormat
from dragoman.core.vocabulary import Vocabulary

_BLANK = b" \t\r\n"


class _State(Enum):
    LEAD = "before anything but white space"
    THOUGHT = "in the thought"
    OVER = "past it"


class ThoughtMeter:
    """Follows one answer token by token until its thought is over; then `over` is true for good.

    A thought is open from the start (`thinking_open`), or begins with the opening tag as the first thing of the answer,
    whose tokens do not count. `may_close` tells that the text so far ends neither inside a character nor inside what
    may become the closing tag.
    """

    def __init__(self, format: ReplyFormat, vocabulary: Vocabulary, *, thinking_open: bool) -> None:
        self.count = 0
        self._bytes = vocabulary.token_bytes
        self._open = format.think_open.encode()
        self._close = format.think_close.encode()
        self._tail = b""
        can_begin = bool(self._open and self._close)
        self._state = _State.THOUGHT if thinking_open else _State.LEAD if can_begin else _State.OVER

    @property
    def over(self) -> bool:
        """Whether nothing more is to be counted."""
        return self._state is _State.OVER

    @property
    def thinking(self) -> bool:
        """Whether the thought is open now."""
        return self._state is _State.THOUGHT

    @property
    def may_close(self) -> bool:
        """Whether the closing tag may be put here."""
        return self.thinking and _is_whole(self._tail) and not _overlaps(self._tail, self._close)

    def closes_with(self, token: int) -> bool:
        """Whether the next token closes the thought, or begins to."""
        tail = self._tail + self._bytes(token)
        return self._close in tail or _overlaps(tail, self._close)

    def feed(self, token: int) -> None:
        """One more token of the answer."""
        self._tail += self._bytes(token)
        if self._state is _State.LEAD:
            self._lead()
        elif self._state is _State.THOUGHT:
            self._thought()

    def _lead(self) -> None:
        rest = self._tail.lstrip(_BLANK)
        if rest.startswith(self._open):
            self._tail = rest[len(self._open) :]
            self._state = _State.THOUGHT
            self._settle(1 if self._tail else 0)
        elif not self._open.startswith(rest):
            self._state = _State.OVER

    def _thought(self) -> None:
        self._settle(1)

    def _settle(self, tokens: int) -> None:
        if self._close in self._tail:
            self._state = _State.OVER
            return
        self.count += tokens
        self._tail = self._tail[-(len(self._close) + 3) :]


def _is_whole(tail: bytes) -> bool:
    """Whether the bytes end where a UTF-8 character does; bytes that are none count as whole."""
    for back in range(1, min(4, len(tail)) + 1):
        byte = tail[-back]
        if byte & 0xC0 == 0x80:
            continue
        wanted = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
        return back >= wanted
    return True


def _overlaps(tail: bytes, tag: bytes) -> bool:
    """Whether some tail of the text is a proper beginning of the tag."""
    return any(tail.endswith(tag[:length]) for length in range(1, len(tag)))
