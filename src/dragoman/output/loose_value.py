"""One value in a syntax other than strict JSON, turned into JSON while it arrives. Knows nothing of tool calls."""

from __future__ import annotations

import re
from enum import Enum

import msgspec

from dragoman.output.argument_types import ArgumentTypes
from dragoman.output.json_value import BLANK, CONTROLS, LITERALS, NUMBER, ReadStatus
from dragoman.output.value_syntax import Quote, ValueSyntax

_CLOSERS = {"{": "}", "[": "]", "(": ")"}
_OUT = {"{": "{", "[": "[", "(": "[", "}": "}", "]": "]", ")": "]"}
_AFTER_STRING = {"key": ":", "value": ",}])"}
_KEY = re.compile(r"[\w.\-$/]+")
_PLAIN = re.compile(r"[^\"'\\\x00-\x1f]+")
_ESCAPES = {"'": "'", "a": "\\u0007", "v": "\\u000b", "0": "\\u0000", "\n": ""}
_HEX = {"x": 2, "u": 4, "U": 8}
_MAX_WORD = 4096


class _Want(Enum):
    VALUE = "value"
    VALUE_OR_END = "value or end"
    KEY = "key or end"
    COLON = "colon"
    NEXT = "comma or end"


class LooseValue:
    """Gives out JSON, at every moment the beginning of a valid value; see `ValueSyntax` for what it reads.

    A value that begins with '(' is a list, except with `call`, where it holds `key=value` pairs and becomes an
    object; values without a key take the declared names in turn. `types` tells which arguments are plain text
    whatever they look like. `repairs` names what had to be mended.
    """

    def __init__(self, syntax: ValueSyntax, types: ArgumentTypes | None = None, *, call: bool = False) -> None:
        self.status = ReadStatus.READING
        self.repairs: list[str] = []
        self._syntax = syntax
        self._types = types
        self._call = call
        self._stack: list[str] = []
        self._want = _Want.VALUE
        self._quote: Quote | None = None
        self._comma = ""
        self._key = ""
        self._keys: list[str] = []
        self._out: list[str] = []

    def feed(self, text: str, start: int, *, final: bool = False) -> int:
        """Read `text` from `start`; returns the index of the first character not read.

        While READING, what is left unread must be offered again with more behind it. `final` tells that there is no
        more.
        """
        at, size = start, len(text)
        while at < size and self.status is ReadStatus.READING:
            after = self._string(text, at, final) if self._quote else self._structure(text, at, final)
            if after == at:
                break
            at = after
        return at

    def take(self) -> str:
        """The JSON given out since the last call."""
        text = "".join(self._out)
        self._out.clear()
        return text

    def close(self) -> bool:
        """Close what is open, as if the value ended here; False when a key has no value yet."""
        if self.status is ReadStatus.DONE:
            return True
        if self._quote:
            self._end_string()
        if not self._stack or self._want is _Want.COLON or (self._want is _Want.VALUE and not self._comma):
            return False
        while self._stack:
            closer = _CLOSERS[self._stack.pop()]
            self._out.append("}" if self._is_call(len(self._stack)) else _OUT[closer])
        self._mend("close")
        self.status = ReadStatus.DONE
        return True

    def _is_call(self, depth: int) -> bool:
        return self._call and depth == 0

    def _mend(self, rung: str) -> None:
        if rung not in self.repairs:
            self.repairs.append(rung)

    def _structure(self, text: str, at: int, final: bool) -> int:
        mark = text[at]
        if mark in BLANK:
            if self._syntax.keeps_blanks:
                self._blank(mark)
            return at + 1
        if self._want is _Want.COLON:
            return self._colon(mark, at)
        if mark in "}])":
            return self._end(mark, at)
        if self._want is _Want.NEXT:
            return self._next(mark, at)
        return self._begin(text, at, mark, final)

    def _blank(self, mark: str) -> None:
        if self._comma:
            self._comma += mark
        else:
            self._out.append(mark)

    def _colon(self, mark: str, at: int) -> int:
        if mark != ":" and not (mark == "=" and self._is_call(len(self._stack) - 1)):
            return self._break(at)
        self._out.append(":" if self._syntax.keeps_blanks else ": ")
        self._want = _Want.VALUE
        return at + 1

    def _next(self, mark: str, at: int) -> int:
        if mark != ",":
            return self._break(at)
        self._comma = "," if self._syntax.keeps_blanks else ", "
        self._want = _Want.KEY if self._in_object() else _Want.VALUE
        return at + 1

    def _in_object(self) -> bool:
        return self._stack[-1] == "{" or self._is_call(len(self._stack) - 1)

    def _end(self, mark: str, at: int) -> int:
        if not self._stack or _CLOSERS[self._stack[-1]] != mark:
            return self._break(at)
        if self._want is _Want.VALUE and not self._comma:
            return self._break(at)
        if self._comma and self._syntax.mends:
            self._mend("commas")
        self._comma = ""
        self._stack.pop()
        self._out.append("}" if self._is_call(len(self._stack)) else _OUT[mark])
        self._after_value()
        return at + 1

    def _begin(self, text: str, at: int, mark: str, final: bool) -> int:
        quote = self._quote_at(text, at)
        if not final and self._may_be_quote(text, at):
            return at
        if self._want is _Want.KEY:
            return self._begin_key(text, at, quote, final)
        if quote is not None:
            return self._open_string(quote, at)
        if mark in "{[(":
            return self._open(mark, at)
        return self._word(text, at, final)

    def _quote_at(self, text: str, at: int) -> Quote | None:
        return next((quote for quote in self._syntax.quotes if text.startswith(quote.mark, at)), None)

    def _may_be_quote(self, text: str, at: int) -> bool:
        """Whether `text` ends inside a mark, of which shorter marks may be the beginning."""
        rest = text[at : at + 8]
        return any(len(quote.mark) > len(rest) and quote.mark.startswith(rest) for quote in self._syntax.quotes)

    def _begin_key(self, text: str, at: int, quote: Quote | None, final: bool) -> int:
        in_call = self._is_call(len(self._stack) - 1)
        if quote is not None and not in_call:
            return self._open_string(quote, at)
        word = _KEY.match(text, at) if quote is None else None
        end = word.end() if word else at
        while end < len(text) and text[end] in BLANK:
            end += 1
        if word and end == len(text) and not final and end - at <= _MAX_WORD:
            return at
        if word and end < len(text) and text[end] in (":=" if in_call else ":"):
            self._put_comma()
            self._named(word.group())
            self._out.append(f'"{msgspec.json.encode(word.group())[1:-1].decode()}"')
            self._want = _Want.COLON
            if self._syntax.mends:
                self._mend("quotes")
            return end
        return self._positional(text, at, quote, final) if in_call else self._break(at)

    def _positional(self, text: str, at: int, quote: Quote | None, final: bool) -> int:
        names = [name for name in self._types.keys if name not in self._keys] if self._types else []
        if not names:
            return self._break(at)
        self._put_comma()
        self._named(names[0])
        self._out.append(f'"{msgspec.json.encode(names[0])[1:-1].decode()}": ')
        self._want = _Want.VALUE
        self._mend("names")
        return self._begin(text, at, text[at], final) if quote is None else self._open_string(quote, at)

    def _named(self, key: str) -> None:
        if len(self._stack) == 1:
            self._key = key
            self._keys.append(key)

    def _put_comma(self) -> None:
        self._out.append(self._comma)
        self._comma = ""

    def _open(self, mark: str, at: int) -> int:
        self._put_comma()
        is_call = self._is_call(len(self._stack))
        if is_call and mark != "(":
            return self._break(at)
        if mark == "(" and not is_call and not self._syntax.python:
            return self._break(at)
        self._stack.append(mark)
        self._out.append("{" if is_call else _OUT[mark])
        self._want = _Want.KEY if self._in_object() else _Want.VALUE_OR_END
        return at + 1

    def _open_string(self, quote: Quote, at: int) -> int:
        self._put_comma()
        self._quote = quote
        self._out.append('"')
        if self._syntax.mends and quote.mark != '"':
            self._mend("quotes")
        return at + len(quote.mark)

    def _end_string(self) -> None:
        self._quote = None
        self._out.append('"')
        if self._want is _Want.KEY:
            self._want = _Want.COLON
        else:
            self._after_value()

    def _string(self, text: str, at: int, final: bool) -> int:
        quote = self._quote
        if quote is None:
            return at
        if not quote.escapes:
            return self._raw_string(text, at, quote.mark, final)
        plain = _PLAIN.match(text, at)
        if plain:
            self._out.append(plain.group())
            return plain.end()
        if text.startswith(quote.mark, at):
            return self._quote_mark(text, at, quote, final)
        if quote.mark.startswith(text[at:]) and not final:
            return at
        if text[at] == "\\":
            return self._escape(text, at, final)
        self._out.append(_character(text[at]))
        return at + 1

    def _raw_string(self, text: str, at: int, mark: str, final: bool) -> int:
        end = text.find(mark, at)
        stop = end if end >= 0 else len(text) - (0 if final else _overlap(text, at, mark))
        if stop > at:
            self._out.append(msgspec.json.encode(text[at:stop])[1:-1].decode())
        if end < 0:
            return stop
        self._end_string()
        return end + len(mark)

    def _quote_mark(self, text: str, at: int, quote: Quote, final: bool) -> int:
        after = at + len(quote.mark)
        if self._syntax.inner_quotes:
            ends = _AFTER_STRING["key" if self._want is _Want.KEY else "value"]
            place = after
            while place < len(text) and text[place] in BLANK:
                place += 1
            if place == len(text) and not final:
                return at
            if place < len(text) and text[place] not in ends and text[place] != "<":
                self._out.append(_character(text[at]))
                self._mend("quotes")
                return after
        self._end_string()
        return after

    def _escape(self, text: str, at: int, final: bool) -> int:
        if at + 1 == len(text):
            if final:
                self._out.append("\\\\")
                return at + 1
            return at
        letter = text[at + 1]
        if letter in _HEX and (letter == "u" or self._syntax.python):
            return self._hex_escape(text, at, _HEX[letter], final)
        if letter in '"\\bfnrt' or (letter == "/" and not self._syntax.python):
            self._out.append(text[at : at + 2])
            return at + 2
        if letter == "'" or (self._syntax.python and letter in _ESCAPES):
            self._out.append(_ESCAPES[letter])
            return at + 2
        self._out.append("\\\\")
        return at + 1

    def _hex_escape(self, text: str, at: int, width: int, final: bool) -> int:
        digits = text[at + 2 : at + 2 + width]
        is_hex = all(digit in "0123456789abcdefABCDEF" for digit in digits)
        if is_hex and len(digits) < width and not final:
            return at
        if not is_hex or len(digits) < width or int(digits, 16) > 0x10FFFF:
            self._out.append("\\\\")
            return at + 1
        code = int(digits, 16)
        self._out.append(f"\\u{code:04x}" if code < 0x10000 else chr(code))
        return at + 2 + width

    def _word(self, text: str, at: int, final: bool) -> int:
        match = self._syntax.word.match(text, at)
        if match is None or match.end() - at > _MAX_WORD or not self._stack:
            return self._break(at)
        if match.end() == len(text) and not final:
            return at
        word = match.group().rstrip(BLANK)
        spelled = self._spelled(word)
        if spelled is None:
            return self._break(at)
        self._put_comma()
        self._out.append(spelled)
        self._after_value()
        return at + len(word)

    def _spelled(self, word: str) -> str | None:
        if self._is_text() and not self._syntax.mends:
            return f'"{msgspec.json.encode(word)[1:-1].decode()}"'
        known = LITERALS.get(word) or (word if NUMBER.match(word) else _python_number(word))
        if known is not None:
            if word != known and self._syntax.mends:
                self._mend("literals")
            return known
        if self._syntax.word.fullmatch(word) is None or not re.search(r"\w", word):
            return None
        self._mend("quotes")
        return f'"{msgspec.json.encode(word)[1:-1].decode()}"'

    def _is_text(self) -> bool:
        return len(self._stack) == 1 and self._types is not None and self._types.of(self._key) == frozenset({"string"})

    def _after_value(self) -> None:
        self._want = _Want.NEXT
        if not self._stack:
            self.status = ReadStatus.DONE

    def _break(self, at: int) -> int:
        self.status = ReadStatus.BROKEN
        return at


def _character(mark: str) -> str:
    if mark == '"':
        return '\\"'
    return mark if mark >= " " else CONTROLS.get(mark) or f"\\u{ord(mark):04x}"


def _python_number(word: str) -> str | None:
    """A number as Python writes it and JSON does not; None for anything else."""
    if not re.fullmatch(r"[+-]?(?:0[xXoObB][0-9a-fA-F_]+|[0-9][0-9_]*|[0-9_]*\.[0-9_]*(?:[eE][+-]?[0-9]+)?)", word):
        return None
    try:
        spelled = str(int(word, 0))
    except ValueError:
        try:
            spelled = repr(float(word))
        except ValueError:
            return None
    return spelled if NUMBER.match(spelled) else None


def _overlap(text: str, start: int, marker: str) -> int:
    """Length of the longest tail of `text` behind `start` that is a proper prefix of `marker`."""
    size = min(len(text) - start, len(marker) - 1)
    return next((width for width in range(size, 0, -1) if text.endswith(marker[:width])), 0)
