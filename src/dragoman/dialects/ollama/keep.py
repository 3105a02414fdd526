"""`keep_alive`: how long a client wants the model loaded. Unloads nothing."""

from __future__ import annotations

import math
import re

from dragoman.core.errors import InvalidField

_PIECE = re.compile(r"(?P<number>\d+(?:\.\d*)?|\.\d+)(?P<unit>ns|us|µs|μs|ms|s|m|h)")
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_MOST = 1e10


def read_keep_alive(value: float | str | None) -> float:
    """Seconds; infinity where nothing is said, for a negative value, and for one beyond all calendars. Texts are Go
    durations such as 5m or 1h30m. Raises InvalidField."""
    if value is None:
        return math.inf
    seconds = _duration(value) if isinstance(value, str) else float(value)
    return seconds if 0 <= seconds <= _MOST else math.inf


def _duration(text: str) -> float:
    plain = text.strip()
    sign, body = (-1.0, plain[1:]) if plain.startswith("-") else (1.0, plain.removeprefix("+"))
    if body == "0":
        return 0.0
    pieces = list(_PIECE.finditer(body))
    if not pieces or "".join(piece[0] for piece in pieces) != body:
        raise InvalidField(
            f"invalid keep_alive '{text}'; expected a number of seconds or a duration such as '5m'", field="keep_alive"
        )
    return sign * sum(float(piece["number"]) * _SECONDS[piece["unit"]] for piece in pieces)
