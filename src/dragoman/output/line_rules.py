"""Rules that end an answer at a line: too little indentation, or too much time. Knows no tokens and no parts.

Both are llama-server's (n_indent, t_max_predict_ms), made for editors that complete code. Its order of work is kept: a
line end is noticed one token later than it came, and indentation is looked at after every token.
"""

from __future__ import annotations

_BLANKS = " \t"


class LineRules:
    """Of one choice. `indent` blanks are the least a line must begin with, 0: any; `milliseconds` from the first token
    on until the next line end ends the answer, 0: never."""

    def __init__(self, indent: int, milliseconds: int) -> None:
        self._indent = indent
        self._milliseconds = milliseconds
        self._text = ""
        self._line = 0
        self._has_line_end = False

    def feed(self, text: str, sent: str, elapsed_ms: float) -> tuple[bool, int | None]:
        """Take in what one token made: `text` in all, of which `sent` went out. Whether the answer ends here, and how
        many characters of its text belong to it, None for all."""
        kept: int | None = None
        if self._indent:
            self._text += text
            if self._has_line_end:
                kept = self._too_little_indented()
        over = kept is not None
        if "\n" in sent:
            self._has_line_end = True
            over = over or 0 < self._milliseconds < elapsed_ms
        return over, kept

    def _too_little_indented(self) -> int | None:
        """Where the line that is looked at is cut, if it must be; else go on to the next one that has begun."""
        if self._line:
            at = self._line
            while at < len(self._text) and self._text[at] in _BLANKS:
                at += 1
            if at < len(self._text) and at - self._line < self._indent:
                return at
        end = self._text.find("\n", self._line)
        if end >= 0:
            self._line = end + 1
        return None
