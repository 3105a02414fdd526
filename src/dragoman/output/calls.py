"""Readers of single calls: what they have in common, and which one reads a given call. Knows no text around calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from dragoman.output.argument_types import ArgumentTypes
from dragoman.output.families.family import CallGrammar, HeadedCalls, JsonCalls, TaggedCalls
from dragoman.output.headed_call import HeadedCallReader
from dragoman.output.json_call import JsonCallReader
from dragoman.output.json_value import BLANK, ReadStatus
from dragoman.output.tagged_call import TaggedCallReader

TypesOf = Callable[[str], ArgumentTypes]


class CallReader(Protocol):
    """Reads one call of a block, whatever its grammar.

    `name` is set once known; `ready` tells that the arguments have begun or are complete, so that the call may be
    announced. `repairs` names what was not as it should be. Where `mendable`, a call that turns out BROKEN may be
    given to a Mender with its text from `value_at` on.
    """

    name: str | None
    ready: bool
    status: ReadStatus
    repairs: list[str]
    mendable: bool
    value_at: int

    @property
    def complete(self) -> bool:
        """Whether name and arguments are whole; what may follow does not matter to the call."""
        ...

    def feed(self, text: str, start: int) -> int:
        """Read `text` from `start`; returns the index of the first character not read.

        While READING, what is left unread must be offered again with more behind it.
        """
        ...

    def take(self) -> str:
        """Argument JSON text since the last call: at every moment the beginning of a JSON object."""
        ...

    def flush(self, rest: str) -> None:
        """The answer ended by itself; `rest` was offered and not read. Complete the call if that is possible."""
        ...


class CallContext(Struct, frozen=True):
    """What a reader may need: literals that end the block or stand behind a call, the declared types, and whether the
    block had no marker."""

    closers: tuple[str, ...]
    types_of: TypesOf
    bare: bool = False


def open_reader(grammars: tuple[CallGrammar, ...], text: str, context: CallContext) -> CallReader | None:
    """The reader for a call that begins like `text`; None while that is not certain.

    The first grammar whose beginning fits; where none fits, the first of all, which will find out what is wrong.
    """
    start = len(text) - len(text.lstrip(BLANK))
    if start == len(text):
        return None
    for grammar in grammars:
        fits = _fits(grammar, text[start:])
        if fits is None:
            return None
        if fits:
            return _reader(grammar, context)
    return _reader(grammars[0], context)


def _fits(grammar: CallGrammar, text: str) -> bool | None:
    """Whether a call that begins like `text` may be of this grammar; None when there is too little of it."""
    if isinstance(grammar, JsonCalls):
        return text[0] == "{"
    if isinstance(grammar, TaggedCalls) and grammar.open:
        return _starts(text, grammar.open)
    return text[0] not in '{["<`'


def _starts(text: str, literal: str) -> bool | None:
    if text.startswith(literal):
        return True
    return None if literal.startswith(text) else False


def _reader(grammar: CallGrammar, context: CallContext) -> CallReader:
    match grammar:
        case JsonCalls():
            return JsonCallReader(grammar, context.closers, bare=context.bare)
        case HeadedCalls():
            return HeadedCallReader(grammar, context.closers, context.types_of)
        case TaggedCalls():
            return TaggedCallReader(grammar, context.closers, context.types_of)
