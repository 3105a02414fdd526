"""What may stand around the calls of a block: markers, brackets, separators. Knows no call and no stream."""

from __future__ import annotations

from enum import Enum

from dragoman.output.families.family import CallGrammar, HeadedCalls, JsonCalls, TaggedCalls, ToolFamily
from dragoman.output.json_value import BLANK


class After(Enum):
    """What stands behind a call: another `CALL`, the `END` of the block, `PROSE`, or it is not known (`WAIT`)."""

    CALL = "call"
    END = "end"
    PROSE = "prose"
    WAIT = "wait"


class BlockFrame:
    """Follows one block of a family. `lead` is asked before its first call, `after` behind every one."""

    def __init__(self, family: ToolFamily) -> None:
        self._family = family
        self._bracket = False
        self._grammars: tuple[CallGrammar, ...] = (family.calls, *family.others)
        self._behind = tuple(text for text in (family.closer, *family.call_closers) if text)

    def lead(self, text: str, start: int) -> int:
        """The index where the first call begins; -1 when that is not certain yet."""
        at, bracket = start, self._bracket
        while at < len(text):
            mark = text[at]
            opener = next((some for some in self._family.call_openers if text.startswith(some, at)), "")
            if mark in BLANK:
                at += 1
            elif opener:
                at += len(opener)
            elif mark == "[" and self._family.listed and not bracket:
                bracket = True
                at += 1
            elif any(some.startswith(text[at:]) for some in self._family.call_openers):
                return -1
            else:
                self._bracket = bracket
                return at
        return -1

    def after(self, text: str) -> tuple[After, int, int]:
        """What comes, how many characters of `text` are done with, and where a next call begins. While that is not
        known, all of the text must be offered again."""
        was_open = self._bracket
        found = self._after(text)
        if found[0] is After.WAIT:
            self._bracket = was_open
        return found

    def _after(self, text: str) -> tuple[After, int, int]:
        at, done, separated = self._surplus(text), 0, False
        while True:
            while at < len(text) and text[at] in BLANK:
                at += 1
            if at == len(text):
                return After.WAIT, done, done
            closer = self._family.closer
            if closer and text.startswith(closer, at):
                return After.END, at + len(closer), 0
            width = self._markup(text, at)
            if width:
                at += width
                done = at
            elif text[at] in self._family.separators and not separated:
                separated = True
                at += 1
            else:
                break
        if any(some.startswith(text[at:]) for some in (*self._behind, *self._family.call_openers)):
            return After.WAIT, done, done
        return self._next(text, at, done, separated)

    def _surplus(self, text: str) -> int:
        """Past closing braces that are one too many."""
        at = 0
        while isinstance(self._family.calls, JsonCalls) and at < len(text) and text[at] in "} \t\r\n":
            at += 1
        return at

    def _markup(self, text: str, at: int) -> int:
        """Width of a closing mark at `at`: of a call, or the bracket around all."""
        if text[at] == "]" and self._bracket:
            self._bracket = False
            return 1
        return next((len(some) for some in self._family.call_closers if text.startswith(some, at)), 0)

    def _next(self, text: str, at: int, done: int, separated: bool) -> tuple[After, int, int]:
        opener = next((some for some in self._family.call_openers if text.startswith(some, at)), "")
        if opener:
            return After.CALL, done, at + len(opener)
        for grammar in self._grammars:
            begins = self._begins(grammar, text[at:], separated)
            if begins is None:
                return After.WAIT, done, done
            if begins:
                return After.CALL, done, at
        return After.PROSE, done, 0

    def _begins(self, grammar: CallGrammar, rest: str, separated: bool) -> bool | None:
        match grammar:
            case JsonCalls():
                return rest[0] == "{"
            case TaggedCalls():
                if not grammar.open:
                    return False
                return True if rest.startswith(grammar.open) else None if grammar.open.startswith(rest) else False
            case HeadedCalls():
                return self._bracket and separated and (rest[0].isalpha() or rest[0] == "_")
