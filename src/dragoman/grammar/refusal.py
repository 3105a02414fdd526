"""Refusals of constraints, with the place in the source that is at fault. Knows no source language."""

from __future__ import annotations

import re

from dragoman.core.errors import InvalidField, UnsupportedField

_IDENTIFIER = re.compile(r"[A-Za-z_$][\w$]*")
_CARET = re.compile(r"^[ ]*\^+[ ]*$", re.MULTILINE)
_PLACE = re.compile(r"\b(?:at )?(\d+)\((\d+)\): ")


class SchemaPath:
    """A place in a JSON schema, from its root."""

    def __init__(self, steps: tuple[str | int, ...] = ()) -> None:
        self.steps = steps

    def __truediv__(self, step: str | int) -> SchemaPath:
        return SchemaPath((*self.steps, step))

    @property
    def suffix(self) -> str:
        """Behind the wire path of the schema, e.g. `.properties.a.items[0]`."""
        return "".join(_step(step) for step in self.steps)

    def __str__(self) -> str:
        return f"${self.suffix}"


def _step(step: str | int) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    return f".{step}" if _IDENTIFIER.fullmatch(step) else f'["{step}"]'


def invalid_schema(problem: str, path: SchemaPath, field: str) -> InvalidField:
    """The schema is wrong at `path`; `problem` is a clause that follows 'The JSON schema'."""
    return InvalidField(f"The JSON schema at '{path}' {problem}.", field=field + path.suffix)


def unsupported_schema(problem: str, path: SchemaPath, field: str) -> UnsupportedField:
    """The schema is right, but cannot be enforced while decoding."""
    return UnsupportedField(
        f"The JSON schema at '{path}' {problem}, which cannot be enforced while decoding.",
        field=field + path.suffix,
        remedy="Leave it out, or check it yourself.",
    )


def invalid_source(kind: str, reason: str, field: str, *, line: int = 0, column: int = 0) -> InvalidField:
    """A regex or grammar is wrong. Lines and columns count from 1; 0 where the place is not known."""
    return InvalidField(f"The {kind}{_where(line, column)} is not valid: {reason.rstrip('.')}.", field=field)


def too_large(kind: str, what: str, field: str) -> InvalidField:
    """Beyond a limit; `what` is a clause that follows the kind."""
    return InvalidField(f"The {kind} {what}.", field=field, remedy="Use a simpler one.")


def _where(line: int, column: int) -> str:
    if not column:
        return f" in line {line}" if line else ""
    return f" at column {column}" if line <= 1 else f" at line {line}, column {column}"


def place_in(message: str) -> tuple[int, int]:
    """Line and column of a compiler's message about a Lark text, (0, 0) where it names none."""
    found = _PLACE.search(message)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def caret_in(message: str) -> int:
    """The column, from 1, of the first caret line in a message about a one-line regex; 0 where there is none."""
    found = _CARET.search(message)
    return found[0].index("^") - 3 if found else 0


def reason_in(message: str) -> str:
    """The sentence of a compiler's message, without its excerpts."""
    errors = [line.removeprefix("error: ") for line in message.splitlines() if line.startswith("error: ")]
    if errors:
        return errors[0]
    first = _PLACE.sub("", message.splitlines()[0] if message else "", count=1)
    return re.sub(r" \(at \".*", "", first)
