"""White space around markers, which belongs to the markup. Knows no marker."""

from __future__ import annotations

from dragoman.output.json_value import BLANK

MAX_BLANK = 64


def solid(text: str, end: int) -> int:
    """Where the whitespace before `end` begins that would be dropped if a marker stood there."""
    return max(len(text[:end].rstrip(BLANK)), end - MAX_BLANK)
