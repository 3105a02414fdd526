"""`completion_probabilities`: one entry per finished character sequence. Knows no vocabulary."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable
from typing import Any

from dragoman.core.logprobs import LogprobEntry

_UNLIKELY = -9999.0
_LEAST = -3.4028234663852886e38


class ProbabilityList:
    """Entries of one choice. A token that ends inside a UTF-8 character gets none; the token that completes it
    gets one with all its bytes. `linear` shows probabilities, without the candidates that have none."""

    def __init__(self, linear: bool = False) -> None:
        self._open = b""
        self._linear = linear

    def take(self, entries: Iterable[LogprobEntry]) -> list[dict[str, Any]]:
        """Objects for the entries that complete text."""
        return [shown for entry in entries if (shown := self._one(entry)) is not None]

    def _one(self, entry: LogprobEntry) -> dict[str, Any] | None:
        raw = self._open + _sent(entry)
        if raw and _cut_tail(raw) < len(raw):
            self._open = raw
            return None
        self._open = b""
        rivals = [
            self._object(rival, _sent(rival)) for rival in entry.top if not self._linear or rival.logprob > _UNLIKELY
        ]
        return {**self._object(entry, raw), "top_probs" if self._linear else "top_logprobs": rivals}

    def _object(self, entry: LogprobEntry, raw: bytes) -> dict[str, Any]:
        return {
            "id": entry.id,
            "token": raw[: _cut_tail(raw)].decode("utf-8", "replace"),
            "bytes": list(raw),
            **self._likelihood(entry.logprob),
        }

    def _likelihood(self, logprob: float) -> dict[str, float]:
        if self._linear:
            return {"prob": _single(math.exp(logprob))}
        return {"logprob": _LEAST if logprob <= _UNLIKELY else logprob}


def _single(value: float) -> float:
    """The nearest single-precision number: what it was before its logarithm was taken."""
    return struct.unpack("f", struct.pack("f", value))[0]


def _sent(entry: LogprobEntry) -> bytes:
    """The bytes that reached the text: none for an end token, whose text is empty though its spelling is not."""
    whole = _cut_tail(entry.raw) == len(entry.raw)
    return b"" if whole and not entry.text else entry.raw


def _cut_tail(raw: bytes) -> int:
    """How many leading bytes do not belong to an unfinished character at the end."""
    for back in range(1, min(4, len(raw) + 1)):
        byte = raw[-back]
        if byte & 0xC0 == 0x80:
            continue
        needed = 2 if 0xC2 <= byte <= 0xDF else 3 if 0xE0 <= byte <= 0xEF else 4 if 0xF0 <= byte <= 0xF4 else 1
        return len(raw) - back if needed > back else len(raw)
    return len(raw)


__all__ = ["ProbabilityList"]
