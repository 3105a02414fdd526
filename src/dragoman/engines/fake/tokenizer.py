"""The toy vocabulary of the fake engine: bytes, a few special tokens and the pieces of a script.

Fixed once made, so it is safe on any thread. Knows nothing of rows or sampling.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from dragoman.engines.fake.script import FakeScript, Piece, ScriptedPiece

BYTES = 256
BOS = "<|bos|>"
EOS = "<|eos|>"
TURN_START = "<|im_start|>"
TURN_END = "<|im_end|>"
CONTROL_TOKENS = (BOS, EOS, TURN_START, TURN_END)
"""Special: their text never belongs to an answer, and plain text spells them only when parsing is asked for."""
TAGS = ("<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")
"""Added but not special, as real vocabularies have them: part of the text, and always recognised in it."""


class FakeTokenizer:
    """Ids 0..255 are single bytes, then CONTROL_TOKENS, the script's control tokens, TAGS and the script's pieces.

    Text is encoded to bytes and special tokens; pieces are only ever emitted. BOS is added when asked for.
    """

    def __init__(self, script: FakeScript | None = None) -> None:
        script = script or FakeScript()
        control = tuple(dict.fromkeys((*CONTROL_TOKENS, *script.control_tokens)))
        tags = tuple(tag for tag in TAGS if tag not in control)
        self._table = [bytes((value,)) for value in range(BYTES)]
        self._special = {text: BYTES + place for place, text in enumerate((*control, *tags))}
        self._table += [text.encode() for text in self._special]
        self._control_end = BYTES + len(control)
        self._tag_pattern = _alternatives(tags)
        self._all_pattern = _alternatives((*control, *tags))
        self._plain = {content: token for token, content in enumerate(self._table[:BYTES])}
        for content in _contents(script):
            self._add(content)
        self._stop_tokens = frozenset((self._special[EOS], self._special[TURN_END]))

    def _add(self, content: bytes | str) -> None:
        """Give a piece an id, unless it is a special token or has one."""
        if isinstance(content, str):
            if content in self._special:
                return
            content = content.encode("utf-8", "replace")
        if content not in self._plain:
            self._plain[content] = len(self._table)
            self._table.append(content)

    @property
    def size(self) -> int:
        """Number of ids."""
        return len(self._table)

    @property
    def stop_tokens(self) -> frozenset[int]:
        """EOS and the end of a turn."""
        return self._stop_tokens

    @property
    def bos_token(self) -> str:
        """Text of BOS."""
        return BOS

    @property
    def eos_token(self) -> str:
        """Text of EOS."""
        return EOS

    def token_bytes(self, token: int) -> bytes:
        """The bytes of an id, special tokens spelled out; b'' outside the vocabulary."""
        return self._table[token] if 0 <= token < len(self._table) else b""

    def is_special(self, token: int) -> bool:
        """Whether the id is a control token."""
        return BYTES <= token < self._control_end

    def piece(self, token: int) -> str:
        """Printable ASCII as it is, other single bytes as '<0x0A>', everything else as text."""
        raw = self.token_bytes(token)
        if token < BYTES and not 0x20 <= token < 0x7F:
            return f"<0x{token:02X}>" if token >= 0 else ""
        return raw.decode("utf-8", "backslashreplace")

    def encode(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        """UTF-8 bytes and tags; control tokens too with `parse_special`. `add_special` puts BOS in front."""
        pattern = self._all_pattern if parse_special else self._tag_pattern
        ids = [self._special[BOS]] if add_special else []
        for place, part in enumerate(pattern.split(text)):
            if place % 2:
                ids.append(self._special[part])
            else:
                ids.extend(part.encode("utf-8", "replace"))
        return ids

    def decode(self, tokens: tuple[int, ...] | list[int]) -> str:
        """Text of ids, special tokens spelled out; broken UTF-8 is replaced by U+FFFD."""
        return b"".join(map(self.token_bytes, tokens)).decode("utf-8", "replace")

    def token_of(self, piece: Piece) -> int:
        """The id of a script's piece. Raises KeyError for a piece the script of this vocabulary does not have."""
        text = piece if isinstance(piece, str) else piece.text
        if text is not None and text in self._special:
            return self._special[text]
        return self._plain[piece.content if isinstance(piece, ScriptedPiece) else piece.encode("utf-8", "replace")]

    def special(self, text: str) -> int:
        """The id of a control token or tag. Raises KeyError for any other text."""
        return self._special[text]


def _alternatives(texts: tuple[str, ...]) -> re.Pattern[str]:
    """A pattern whose split keeps the special texts at odd places, the longest one winning."""
    return re.compile("(" + "|".join(re.escape(text) for text in sorted(texts, key=len, reverse=True)) + ")")


def _contents(script: FakeScript) -> Iterator[bytes | str]:
    """Everything the script may emit: text that may name a special token, or bytes that never do."""
    for rule in script.rules:
        for piece in rule.pieces:
            if isinstance(piece, str):
                yield piece
                continue
            yield piece.content if piece.text is None else piece.text
            yield from (text for text, _ in piece.top)
