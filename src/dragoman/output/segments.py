"""What the splitter makes of text: a flat sequence of pieces. Knows no part numbers and no events."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

SegmentKind = Literal["text", "reasoning", "call", "arguments", "end", "cut"]


class Segment(Struct, frozen=True, gc=False):
    """`text` and `reasoning` carry text of the answer, `call` the name of a call that begins, `arguments` more of its
    JSON text; `end` closes the thought or the call that is open, `cut` closes a call that will never be complete.

    `at` is where a `text` piece begins in the whole decoded stream, in characters; such a piece is an unchanged slice
    of that stream. It is -1 for other kinds.
    """

    kind: SegmentKind
    text: str = ""
    at: int = -1


END = Segment("end")
CUT = Segment("cut")
