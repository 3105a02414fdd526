"""Reads GBNF, llama.cpp's grammar notation. Knows nothing of what becomes of it."""

from __future__ import annotations

from dragoman.core.errors import InvalidRequest
from dragoman.grammar.gbnf_tree import Alt, Chars, Grammar, Node, Ref, Repeat, Seq, Text, Token, references
from dragoman.grammar.limits import Limits
from dragoman.grammar.refusal import invalid_source

_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\", "[": "[", "]": "]", "-": "-", "^": "^", "/": "/"}
_HEX = {"x": 2, "u": 4, "U": 8}
_MOST_CODE_POINT = 0x10FFFF
_MOST_REPEATS = 2_000


def parsed(text: str, field: str, limits: Limits) -> Grammar:
    """The rules; `root` is among them, and all that are used. Raises InvalidRequest with line and column."""
    return _Parser(text, field, limits).grammar()


class _Parser:
    def __init__(self, text: str, field: str, limits: Limits) -> None:
        self._text = text
        self._field = field
        self._limits = limits
        self._at = 0
        self._depth = 0
        self._used: dict[str, int] = {}

    def grammar(self) -> Grammar:
        rules: Grammar = {}
        self._blank(lines=True)
        while self._peek():
            name = self._name()
            self._blank(lines=False)
            if not self._take("::="):
                raise self._fault("expected '::='")
            self._blank(lines=True)
            rules[name] = self._options(nested=False)
            if self._peek() not in ("", "\n", "\r"):
                raise self._fault(f"'{self._peek()}' is out of place")
            if len(rules) > self._limits.rules:
                raise self._fault(f"it has more than {self._limits.rules} rules")
            self._blank(lines=True)
        self._check(rules)
        return rules

    def _check(self, rules: Grammar) -> None:
        if "root" not in rules:
            raise self._fault("there is no rule 'root'", at=0)
        for node in rules.values():
            for name in references(node):
                if name not in rules:
                    raise self._fault(f"the rule '{name}' is not defined", at=self._used[name])

    def _options(self, *, nested: bool) -> Node:
        options = [self._sequence(nested=nested)]
        while self._take("|"):
            self._blank(lines=True)
            options.append(self._sequence(nested=nested))
        return options[0] if len(options) == 1 else Alt(tuple(options))

    def _sequence(self, *, nested: bool) -> Node:
        parts: list[Node] = []
        while True:
            part = self._primary()
            if part is None:
                return parts[0] if len(parts) == 1 else Seq(tuple(parts))
            self._blank(lines=nested)
            while self._peek() in ("*", "+", "?", "{") and self._peek():
                part = self._repeated(part)
                self._blank(lines=nested)
            parts.append(part)

    def _primary(self) -> Node | None:
        char = self._peek()
        if char == '"':
            return self._string()
        if char == "[":
            return self._chars()
        if char == "(":
            return self._group()
        if char == ".":
            self._at += 1
            return Chars((), negated=True)
        if char in ("<", "!") and char:
            return self._token()
        if _is_word(char):
            start = self._at
            name = self._name()
            self._used.setdefault(name, start)
            return Ref(name)
        return None

    def _group(self) -> Node:
        self._at += 1
        self._depth += 1
        if self._depth > self._limits.brackets:
            raise self._fault("its brackets nest too deep")
        self._blank(lines=True)
        inner = self._options(nested=True)
        self._blank(lines=True)
        if not self._take(")"):
            raise self._fault("expected ')'")
        self._depth -= 1
        return inner

    def _repeated(self, node: Node) -> Node:
        simple = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(self._peek())
        self._at += 1
        if simple is not None:
            return Repeat(node, *simple)
        least = self._number()
        most: int | None = least
        if self._take(","):
            most = self._number() if self._peek().isdigit() else None
        if not self._take("}") or (most is not None and most < least):
            raise self._fault("this is no repetition")
        return Repeat(node, least, most)

    def _number(self) -> int:
        start = self._at
        while self._peek().isdigit() and self._peek().isascii():
            self._at += 1
        digits = self._text[start : self._at]
        if not digits or len(digits) > 6 or int(digits) > _MOST_REPEATS:
            raise self._fault(f"expected a number up to {_MOST_REPEATS}", at=start)
        return int(digits)

    def _string(self) -> Node:
        self._at += 1
        start = self._at
        text = ""
        while self._peek() != '"':
            text += self._char(start)
        self._at += 1
        return Text(text) if text else Seq()

    def _chars(self) -> Node:
        start = self._at
        self._at += 1
        negated = self._take("^")
        ranges: list[tuple[int, int]] = []
        while self._peek() != "]":
            low = ord(self._char(start))
            high = low
            if self._peek() == "-" and self._text[self._at + 1 : self._at + 2] != "]":
                self._at += 1
                high = ord(self._char(start))
            if high < low:
                raise self._fault("this range is the wrong way round")
            ranges.append((low, high))
        self._at += 1
        if not ranges and not negated:
            raise self._fault("no character can match this", at=start)
        return Chars(tuple(ranges), negated)

    def _token(self) -> Node:
        start = self._at
        negated = self._take("!")
        end = self._text.find(">", self._at)
        if self._peek() != "<" or end < 0 or "\n" in self._text[self._at : end]:
            raise self._fault("this is no token", at=start)
        body = self._text[self._at + 1 : end]
        self._at = end + 1
        if body.startswith("[") and body.endswith("]") and body[1:-1].isdecimal():
            return Token(int(body[1:-1]), "", negated)
        return Token(None, f"<{body}>", negated)

    def _char(self, start: int) -> str:
        char = self._peek()
        if not char or char == "\n":
            raise self._fault("this is never closed", at=start - 1 if self._text[start - 1] == '"' else start)
        self._at += 1
        if char != "\\":
            return char
        kind = self._peek()
        self._at += 1
        if kind in _HEX:
            digits = self._text[self._at : self._at + _HEX[kind]]
            if len(digits) == _HEX[kind] and all(digit in "0123456789abcdefABCDEF" for digit in digits):
                self._at += len(digits)
                if int(digits, 16) <= _MOST_CODE_POINT:
                    return chr(int(digits, 16))
        elif kind in _ESCAPES and kind:
            return _ESCAPES[kind]
        raise self._fault("there is no such escape", at=self._at - 2)

    def _name(self) -> str:
        start = self._at
        while _is_word(self._peek()):
            self._at += 1
        if start == self._at:
            raise self._fault("expected the name of a rule")
        return self._text[start : self._at]

    def _blank(self, *, lines: bool) -> None:
        while char := self._peek():
            if char == "#":
                end = self._text.find("\n", self._at)
                self._at = len(self._text) if end < 0 else end
            elif char in " \t" or (lines and char in "\r\n"):
                self._at += 1
            else:
                return

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _take(self, text: str) -> bool:
        found = self._text.startswith(text, self._at)
        self._at += len(text) if found else 0
        return found

    def _fault(self, reason: str, *, at: int | None = None) -> InvalidRequest:
        at = self._at if at is None else at
        line = self._text.count("\n", 0, at) + 1
        column = at - (self._text.rfind("\n", 0, at) + 1) + 1
        return invalid_source("GBNF grammar", reason, self._field, line=line, column=column)


def _is_word(char: str) -> bool:
    return char != "" and (char.isalnum() or char in "-_") and char.isascii()
