"""How many prompt tokens a step may prefill, learnt from how long the last ones took. Knows no row and no engine."""

from __future__ import annotations

_FIRST = 256
_LEAST = 16
_ROOM_TO_GROW = 3


class Pace:
    """Halves the chunk when it took longer than `seconds`, doubles it when it took less than a third of that, between
    16 and `most` tokens. It begins with 256, or `most`
    where that is less. Without `seconds` the chunk is always `most`.

    Sizes are `most` halved some times, so that a machine that is fast enough always gets the same chunks: where a
    prompt is cut may show in the last bits of its state.
    """

    def __init__(self, most: int, seconds: float | None = None) -> None:
        self._seconds = seconds
        self._sizes = _halved(most, _LEAST)
        begins = [place for place, size in enumerate(self._sizes) if size <= _FIRST]
        self._place = begins[0] if seconds is not None and begins else 0

    @property
    def chunk(self) -> int:
        """Tokens of the next step."""
        return self._sizes[self._place]

    def took(self, tokens: int, seconds: float) -> None:
        """`tokens` were prefilled in one step. What was less than a chunk can only tell that it was too slow; what was
        more counts by its tokens."""
        if self._seconds is None:
            return
        if tokens > self.chunk:
            seconds *= self.chunk / tokens
        if seconds > self._seconds:
            self._place = min(self._place + 1, len(self._sizes) - 1)
        elif tokens >= self.chunk and seconds * _ROOM_TO_GROW < self._seconds:
            self._place = max(self._place - 1, 0)


def _halved(most: int, least: int) -> list[int]:
    sizes = [most]
    while sizes[-1] // 2 >= least:
        sizes.append(sizes[-1] // 2)
    return sizes
