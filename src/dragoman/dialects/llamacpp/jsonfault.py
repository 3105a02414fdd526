"""Says where and why a body is not JSON, in the words llama-server's JSON library uses.

Clients of that server see this text, so column counting and phrases follow it: columns count bytes read on the line,
the end of input counts as one, and "last read" starts at the last string or number. Knows nothing of requests.
"""

from __future__ import annotations

import re

LONGEST = 256 * 1024
"""Bodies longer than this many bytes are not searched: the search is a slow walk on the event loop."""

_PLAIN = re.compile(rb"[\x20\x21\x23-\x5b\x5d-\x7f]+")
_SPACE = re.compile(rb"[ \t\n\r]*")
_HEX = frozenset(b"0123456789abcdefABCDEF")
_DIGITS = frozenset(b"0123456789")
_ESCAPES = frozenset(b'"\\/bfnrt')
_CONTROL_NAMES = [
    "NUL",
    "SOH",
    "STX",
    "ETX",
    "EOT",
    "ENQ",
    "ACK",
    "BEL",
    "BS",
    "HT",
    "LF",
    "VT",
    "FF",
    "CR",
    "SO",
    "SI",
    "DLE",
    "DC1",
    "DC2",
    "DC3",
    "DC4",
    "NAK",
    "SYN",
    "ETB",
    "CAN",
    "EM",
    "SUB",
    "ESC",
    "FS",
    "GS",
    "RS",
    "US",
]
_CONTROL_ESCAPES = {8: "\\b", 9: "\\t", 10: "\\n", 12: "\\f", 13: "\\r"}

END = "end of input"
STRING = "string literal"
NUMBER = "number literal"
BROKEN = "<parse error>"
ANY_VALUE = "'[', '{', or a literal"
_STRUCTURE = {byte: f"'{chr(byte)}'" for byte in b"[]{}:,"}
_LITERALS = {literal[0]: literal for literal in (b"true", b"false", b"null")}
_SCALARS = frozenset({STRING, NUMBER, "true literal", "false literal", "null literal"})


class _Fault(Exception):
    """Carries the finished message."""


def parse_fault(body: bytes) -> str | None:
    """The message for a malformed body, without a prefix for its status; None when no fault is found."""
    if len(body) > LONGEST:
        return None
    try:
        _Parser(body).run()
    except _Fault as fault:
        return str(fault)
    return None


class _Scanner:
    """Bytes to token names. `at` counts bytes read, the end of input included; `start` is where "last read" begins."""

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.at = 0
        self.start = 0
        self.problem = ""

    def read(self) -> int:
        """The next byte, -1 at the end."""
        at = self.at
        self.at += 1
        return self.body[at] if at < len(self.body) else -1

    def token(self) -> str:
        """The next token's name, BROKEN with `problem` set."""
        if self.at == 0 and self.body[:1] == b"\xef" and not self._skip_mark():
            return self._broken("invalid BOM; must be 0xEF 0xBB 0xBF if given")
        space = _SPACE.match(self.body, min(self.at, len(self.body)))
        self.at = max(self.at, space.end() if space else 0)
        byte = self.read()
        if byte in _STRUCTURE:
            return _STRUCTURE[byte]
        if byte in _LITERALS:
            return self._literal(_LITERALS[byte])
        if byte in (-1, 0):
            return END
        return self._scalar(byte)

    def last_read(self) -> str:
        """What was read since the last string or number began, control characters spelled out."""
        text = self.body[self.start : self.at].decode("utf-8", "replace")
        return "".join(f"<U+{ord(char):04X}>" if char <= "\x1f" else char for char in text)

    def position(self) -> str:
        """Line and column of the last byte read."""
        before = self.body[: self.at]
        return f"line {before.count(10) + 1}, column {self.at - before.rfind(10) - 1}"

    def _skip_mark(self) -> bool:
        return all(self.read() == expected for expected in b"\xef\xbb\xbf")

    def _broken(self, problem: str) -> str:
        self.problem = problem
        return BROKEN

    def _literal(self, literal: bytes) -> str:
        if all(self.read() == expected for expected in literal[1:]):
            return f"{literal.decode()} literal"
        return self._broken("invalid literal")

    def _scalar(self, byte: int) -> str:
        if byte != 0x22 and byte != 0x2D and byte not in _DIGITS:
            return self._broken("invalid literal")
        self.start = self.at - 1
        problem = self._string() if byte == 0x22 else self._number(byte)
        if problem:
            return self._broken(problem)
        return STRING if byte == 0x22 else NUMBER

    def _peek(self) -> int:
        return self.body[self.at] if self.at < len(self.body) else -1

    def _digits(self) -> bool:
        """Read digits; False (with the offending byte read) when there is none."""
        if self._peek() not in _DIGITS:
            self.read()
            return False
        while self._peek() in _DIGITS:
            self.at += 1
        return True

    def _number(self, byte: int) -> str:
        if byte == 0x2D:
            byte = self.read()
            if byte not in _DIGITS:
                return "invalid number; expected digit after '-'"
        if byte != 0x30 and self._peek() in _DIGITS:
            self._digits()
        if self._peek() == 0x2E:
            self.at += 1
            if not self._digits():
                return "invalid number; expected digit after '.'"
        return self._exponent() if self._peek() in (0x45, 0x65) else ""

    def _exponent(self) -> str:
        self.at += 1
        if self._peek() in (0x2B, 0x2D):
            self.at += 1
            return "" if self._digits() else "invalid number; expected digit after exponent sign"
        return "" if self._digits() else "invalid number; expected '+', '-', or digit after exponent"

    def _string(self) -> str:
        while True:
            plain = _PLAIN.match(self.body, min(self.at, len(self.body)))
            if plain:
                self.at = plain.end()
            byte = self.read()
            if byte == 0x22:
                return ""
            problem = self._string_byte(byte)
            if problem:
                return problem

    def _string_byte(self, byte: int) -> str:
        if byte == -1:
            return "invalid string: missing closing quote"
        if byte == 0x5C:
            return self._escape()
        if byte < 0x20:
            return _control(byte)
        return self._multibyte(byte)

    def _escape(self) -> str:
        byte = self.read()
        if byte in _ESCAPES:
            return ""
        if byte != 0x75:
            return "invalid string: forbidden character after backslash"
        unit = self._code_unit()
        if unit < 0:
            return "invalid string: '\\u' must be followed by 4 hex digits"
        if 0xD800 <= unit <= 0xDBFF:
            return self._low_surrogate()
        if 0xDC00 <= unit <= 0xDFFF:
            return "invalid string: surrogate U+DC00..U+DFFF must follow U+D800..U+DBFF"
        return ""

    def _low_surrogate(self) -> str:
        if self.read() == 0x5C and self.read() == 0x75:
            unit = self._code_unit()
            if unit < 0:
                return "invalid string: '\\u' must be followed by 4 hex digits"
            if 0xDC00 <= unit <= 0xDFFF:
                return ""
        return "invalid string: surrogate U+D800..U+DBFF must be followed by U+DC00..U+DFFF"

    def _code_unit(self) -> int:
        unit = 0
        for _ in range(4):
            byte = self.read()
            if byte not in _HEX:
                return -1
            unit = unit * 16 + int(chr(byte), 16)
        return unit

    def _multibyte(self, byte: int) -> str:
        for low, high in _continuations(byte):
            if not low <= self.read() <= high:
                return "invalid string: ill-formed UTF-8 byte"
        return "" if 0xC2 <= byte <= 0xF4 else "invalid string: ill-formed UTF-8 byte"


def _continuations(lead: int) -> tuple[tuple[int, int], ...]:
    """Ranges of the bytes that must follow a lead byte (Unicode 15, table 3-7)."""
    tail = (0x80, 0xBF)
    if lead < 0xC2 or lead > 0xF4:
        return ()
    if lead < 0xE0:
        return (tail,)
    second = {0xE0: (0xA0, 0xBF), 0xED: (0x80, 0x9F), 0xF0: (0x90, 0xBF), 0xF4: (0x80, 0x8F)}.get(lead, tail)
    return (second, tail) if lead < 0xF0 else (second, tail, tail)


def _control(byte: int) -> str:
    escape = _CONTROL_ESCAPES.get(byte)
    ways = f"\\u{byte:04X}" + (f" or {escape}" if escape else "")
    return f"invalid string: control character U+{byte:04X} ({_CONTROL_NAMES[byte]}) must be escaped to {ways}"


class _Parser:
    """Walks one value; raises _Fault at the first error."""

    def __init__(self, body: bytes) -> None:
        self.scanner = _Scanner(body)
        self.token = ""

    def run(self) -> None:
        self._next()
        open_kinds: list[str] = []
        while True:
            if self._opens_value(open_kinds):
                continue
            if not self._next_item(open_kinds):
                break
        if self._next() != END:
            self._fail("value", END)

    def _next(self) -> str:
        self.token = self.scanner.token()
        return self.token

    def _opens_value(self, open_kinds: list[str]) -> bool:
        """Read the current value; True when it opened a non-empty container, whose first value is now current."""
        if self.token == "'{'":  # noqa: S105
            if self._next() == "'}'":
                return False
            open_kinds.append("object")
            self._key()
            return True
        if self.token == "'['":  # noqa: S105
            if self._next() == "']'":
                return False
            open_kinds.append("array")
            return True
        if self.token == NUMBER:
            self._check_range()
        elif self.token not in _SCALARS:
            self._no_value()
        return False

    def _next_item(self, open_kinds: list[str]) -> bool:
        """Move to the next value of the innermost container, closing those that end; False when all are closed."""
        while open_kinds:
            kind = open_kinds[-1]
            close = "']'" if kind == "array" else "'}'"
            self._next()
            if self.token == "','":  # noqa: S105
                self._next()
                if kind == "object":
                    self._key()
                return True
            if self.token != close:
                self._fail(kind, close)
            open_kinds.pop()
        return False

    def _key(self) -> None:
        if self.token != STRING:
            self._fail("object key", STRING)
        if self._next() != "':'":
            self._fail("object separator", "':'")
        self._next()

    def _no_value(self) -> None:
        if self.token == END and self.scanner.at == 1:
            self._raise(
                "attempting to parse an empty input; check that your input string or stream contains the expected JSON"
            )
        self._fail("value", None if self.token == BROKEN else ANY_VALUE)

    def _check_range(self) -> None:
        text = self.scanner.body[self.scanner.start : self.scanner.at].decode()
        if abs(float(text)) == float("inf"):
            raise _Fault(f"[json.exception.out_of_range.406] number overflow parsing '{text}'")

    def _fail(self, context: str, expected: str | None) -> None:
        scanner = self.scanner
        if self.token == BROKEN:
            found = f"{scanner.problem}; last read: '{scanner.last_read()}'"
        else:
            found = f"unexpected {self.token}"
        tail = f"; expected {expected}" if expected else ""
        self._raise(f"syntax error while parsing {context} - {found}{tail}")

    def _raise(self, what: str) -> None:
        raise _Fault(f"[json.exception.parse_error.101] parse error at {self.scanner.position()}: {what}")
