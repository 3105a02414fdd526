"""Log probabilities in the legacy shape: four parallel lists, with offsets into the text of the choice."""

from __future__ import annotations

import codecs
from collections.abc import Iterable

import msgspec

from dragoman.core.logprobs import LogprobEntry


class LegacyLogprobs(msgspec.Struct, frozen=True):
    """`choices[].logprobs`. `text_offset` counts characters; `top_logprobs` is null when no rivals were asked for."""

    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None] | None
    text_offset: list[int]


class LogprobLog:
    """Writes the blocks of one choice and follows the text offset across them. `rivals` is how many were asked for,
    `offset` where the first token's text begins (after an echoed prompt)."""

    def __init__(self, rivals: int, offset: int = 0) -> None:
        self._rivals = rivals
        self._offset = offset
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def block(self, entries: Iterable[LogprobEntry], head: LogprobEntry | None = None) -> LegacyLogprobs:
        """The block for the next tokens. `head` is a prompt's first token, for which there are no figures."""
        found = list(entries)
        every = found if head is None else [head, *found]
        blank: list[None] = [] if head is None else [None]
        return LegacyLogprobs(
            [_label(entry) for entry in every],
            [*blank, *(entry.logprob for entry in found)],
            [*blank, *(_rivals(entry) for entry in found)] if self._rivals else None,
            [self._place(entry) for entry in every],
        )

    def _place(self, entry: LogprobEntry) -> int:
        """Where the token begins; tokens inside one character share the place of that character."""
        offset = self._offset
        self._offset += len(self._decoder.decode(entry.raw))
        return offset


def _rivals(entry: LogprobEntry) -> dict[str, float]:
    """The rivals and the emitted token, best first; of two tokens with one spelling the likelier stays."""
    found: dict[str, float] = {}
    for candidate in sorted((*entry.top, entry), key=lambda one: -one.logprob):
        found.setdefault(_label(candidate), candidate.logprob)
    return found


def _label(entry: LogprobEntry) -> str:
    """The token's text; half a character is spelled in OpenAI's `bytes:` form, an end token by its piece."""
    try:
        text = entry.raw.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in entry.raw)
    return text or entry.piece
