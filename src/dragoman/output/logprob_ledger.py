"""Keeps log probabilities until the text of their tokens has been delivered. Knows no parts and no markup."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from msgspec import Struct, field

from dragoman.core.logprobs import LogprobEntry, TokenLogprob, TokenLogprobs
from dragoman.core.vocabulary import Vocabulary


class _Group(Struct):
    """Tokens that together made `text`, the slice [start, end) of the stream; usually one, more while their bytes end
    inside a character, until they do not (`whole`). `given` are the slices of it that were delivered."""

    tokens: list[TokenLogprobs]
    text: str
    start: int
    end: int
    whole: bool
    given: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])


class LogprobLedger:
    """Gives an entry for every token whose text was delivered, wholly or in part, in order, and for no other.

    The joined `raw` bytes of the entries are the bytes of the delivered text: a token that was cut (by a stop string,
    by markup) has the bytes and text that remain. Only where the token bytes are not UTF-8 do they differ from the
    text, which has U+FFFD there. `bytes_of` tells what an id added to the answer; ids that added nothing get no entry.
    """

    def __init__(self, vocabulary: Vocabulary, bytes_of: Callable[[int], bytes]) -> None:
        self._vocabulary = vocabulary
        self._bytes_of = bytes_of
        self._waiting: deque[_Group] = deque()

    def add(self, tokens: Sequence[TokenLogprobs], text: str, start: int, *, whole: bool) -> None:
        """Tokens that brought `text` at `start` of the stream (characters); not `whole` when they end inside one."""
        if self._waiting and not self._waiting[-1].whole:
            group = self._waiting[-1]
            group.tokens += tokens
            group.text += text
            group.end += len(text)
            group.whole = whole
        else:
            self._waiting.append(_Group(list(tokens), text, start, start + len(text), whole))

    def deliver(self, start: int, end: int) -> tuple[LogprobEntry, ...]:
        """The slice [start, end) of the stream went out; slices come in order. Entries that are complete by now."""
        entries: list[LogprobEntry] = []
        while self._waiting and self._waiting[0].start < end:
            group = self._waiting[0]
            if group.end > start:
                group.given.append((max(start, group.start), min(end, group.end)))
            if group.end > end or not group.whole:
                break
            entries += self._entries(self._waiting.popleft())
        return tuple(entries)

    def close(self, *, final: bool) -> tuple[LogprobEntry, ...]:
        """A part of text ended, or with `final` the answer: the entry of a token that was cut there.

        The newest tokens may still bring text for a later part, so they wait for the end.
        """
        if self._waiting and self._waiting[0].given and (final or len(self._waiting) > 1):
            return tuple(self._entries(self._waiting.popleft()))
        return ()

    def _entries(self, group: _Group) -> list[LogprobEntry]:
        if not group.given:
            return []
        pieces = [self._bytes_of(token.chosen.id) for token in group.tokens]
        if group.given != [(group.start, group.end)]:
            pieces = _cut(group, pieces)
        return [
            self._entry(token.chosen, raw, raw, tuple(self._rival(rival) for rival in token.top))
            for token, raw in zip(group.tokens, pieces, strict=True)
            if raw
        ]

    def _rival(self, rival: TokenLogprob) -> LogprobEntry:
        return self._entry(rival, self._vocabulary.token_bytes(rival.id), self._bytes_of(rival.id), ())

    def _entry(self, token: TokenLogprob, raw: bytes, shown: bytes, top: tuple[LogprobEntry, ...]) -> LogprobEntry:
        text = shown.decode("utf-8", "replace")
        return LogprobEntry(token.id, text, raw, self._vocabulary.piece(token.id), token.logprob, top)


def _cut(group: _Group, pieces: list[bytes]) -> list[bytes]:
    """Of each token the bytes that were delivered; whole tokens where the bytes are not those of the text."""
    # The answer may have been stopped while the last token was inside a character, so there may be bytes beyond.
    if not b"".join(pieces).startswith(group.text.encode()):
        return pieces
    spans = [
        (len(group.text[: start - group.start].encode()), len(group.text[: end - group.start].encode()))
        for start, end in group.given
    ]
    cut: list[bytes] = []
    at = 0
    for piece in pieces:
        cut.append(b"".join(piece[max(0, start - at) : max(0, end - at)] for start, end in spans))
        at += len(piece)
    return cut
