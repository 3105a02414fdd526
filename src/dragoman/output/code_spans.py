"""Where Markdown code begins and ends in streamed prose, so that markup quoted in it stays text. Knows no markup."""

from __future__ import annotations

import re


class CodeSpans:
    """Follows backticks through text that arrives in pieces.

    A run of one or two backticks opens inline code, which ends with a run of the same length or with the line: a lone
    backtick must not hide a call on the next line. Three or more open a block, which ends with a run at least as long,
    on the same line anywhere, on later lines only as the first thing on its line and not before a letter or digit
    (that would be an info string, so another opener). Close to CommonMark 0.31, sections 4.5 and 6.1, which cannot be
    followed exactly without seeing the whole document.
    """

    def __init__(self, mark: str) -> None:
        self._token = re.compile(f"`+|\n|{re.escape(mark)}")
        self._blank = True
        self._open = 0
        self._crossed = False
        self._run = 0
        self._run_leads = False

    @property
    def in_block(self) -> bool:
        """Whether a code block is open where the text read so far ends."""
        return self._open >= 3

    def read(self, text: str) -> None:
        """Read text in which nothing is looked for."""
        at = 0
        while (at := self.find(text, at) + 1) > 0:
            pass

    def find(self, text: str, start: int) -> int:
        """The first `mark` outside code at or after `start`, -1 when there is none.

        Reads up to and without that mark, or all of the text. Text is read once: go on after the mark with its index
        plus one, or with the same index when it is offered again.
        """
        if self._token.search(text, start) is None:
            self._gap(text, start, len(text))
            return -1
        at = start
        for token in self._token.finditer(text, start):
            self._gap(text, at, token.start())
            at = token.end()
            if token.group()[0] == "`":
                self._backticks(token)
                continue
            self._settle(token.group())
            if token.group() == "\n":
                self._newline()
            elif self._open == 0:
                return token.start()
            else:
                self._blank = False
        self._gap(text, at, len(text))
        return -1

    def _gap(self, text: str, start: int, end: int) -> None:
        if start == end:
            return
        if self._run:
            self._settle(text[start])
        if self._blank:
            self._blank = text[start:end].isspace()

    def _backticks(self, token: re.Match[str]) -> None:
        if self._run == 0:
            self._run_leads = self._blank
        self._run += len(token.group())
        self._blank = False

    def _newline(self) -> None:
        self._blank = True
        if self._open >= 3:
            self._crossed = True
        else:
            self._open = 0

    def _settle(self, follower: str) -> None:
        """A run of backticks is complete: `follower` comes after it."""
        run, self._run = self._run, 0
        if run == 0:
            return
        if self._open == 0:
            self._open = run
            self._crossed = False
        elif self._closes(run, follower):
            self._open = 0

    def _closes(self, run: int, follower: str) -> bool:
        if self._open < 3:
            return run == self._open
        if not self._crossed:
            return run >= self._open
        return run >= self._open and self._run_leads and not follower.isalnum()
