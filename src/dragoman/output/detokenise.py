"""Token ids to text, one id at a time. Knows nothing of parts, stops or markup, only which spellings must pass."""

from __future__ import annotations

from codecs import utf_8_decode
from collections.abc import Iterable

from dragoman.core.vocabulary import Vocabulary


class Detokeniser:
    """Decodes the bytes of successive ids as UTF-8 and never gives out part of a character.

    Invalid bytes become U+FFFD, one for each maximal subpart (Unicode 15, section 3.9), which is also what Python's
    own decoder does, so any split of the bytes gives the text that decoding them at once gives. Control tokens and
    stop tokens have no text, except that a control token spelled like one of `markers` keeps its spelling: whoever
    splits the answer must see it.
    """

    def __init__(self, vocabulary: Vocabulary, markers: Iterable[str] = ()) -> None:
        self._bytes = vocabulary.token_bytes
        self._special = vocabulary.is_special
        self._ends = vocabulary.stop_tokens
        self._markers = frozenset(marker.encode() for marker in markers if marker)
        self._tail = b""
        self._held = ""

    @property
    def incomplete(self) -> bool:
        """Whether the bytes so far end inside a character."""
        return self._tail != b""

    def bytes_of(self, token: int) -> bytes:
        """What `token` adds to the answer: b'' for a silent one."""
        data = self._bytes(token)
        if token in self._ends or (self._special(token) and data not in self._markers):
            return b""
        return data

    def feed(self, token: int) -> str:
        """The text `token` completes: '' while the bytes end inside a character that this id began.

        Text in front of such a character waits for it, so that the ids of one character share one delivery.
        """
        data = self.bytes_of(token)
        if self._tail:
            return self._continue(data)
        text, used = utf_8_decode(data, "replace", False)
        if used == len(data):
            return text
        self._tail = data[used:]
        self._held = text
        return ""

    def flush(self) -> str:
        """What is still held, an unfinished character as U+FFFD."""
        text = self._held + utf_8_decode(self._tail, "replace", True)[0]
        self._tail = b""
        self._held = ""
        return text

    def _continue(self, data: bytes) -> str:
        whole = self._tail + data
        text, used = utf_8_decode(whole, "replace", False)
        self._tail = whole[used:]
        if not text:
            return ""
        text = self._held + text
        self._held = ""
        return text
