"""What a Go template is made of once it is parsed. Runs nothing."""

from __future__ import annotations

from typing import Any

from msgspec import Struct


class Literal(Struct, frozen=True):
    """A constant."""

    value: Any


class Dot(Struct, frozen=True):
    """The value the surrounding `with` or `range` is about."""


class Variable(Struct, frozen=True):
    """`$` or `$name`."""

    name: str


class Field(Struct, frozen=True):
    """A field of a value; of the dot where nothing stands before it."""

    of: Operand
    name: str


class Call(Struct, frozen=True):
    """A function with its arguments."""

    name: str
    arguments: tuple[Operand, ...]


class Pipeline(Struct, frozen=True):
    """Commands, each given the value of the one before as its last argument. `declares` are the variables that get the
    value, or with `assigns` those that exist already."""

    commands: tuple[Operand, ...]
    declares: tuple[str, ...] = ()
    assigns: bool = False


Operand = Literal | Dot | Variable | Field | Call | Pipeline


class Text(Struct, frozen=True):
    """Text as it stands."""

    text: str


class Show(Struct, frozen=True):
    """A pipeline whose value is printed, unless it declares something."""

    pipeline: Pipeline


class Branch(Struct, frozen=True):
    """`if`, `with` or `range`, by `word`."""

    word: str
    pipeline: Pipeline
    body: tuple[Node, ...]
    otherwise: tuple[Node, ...] = ()


class Leave(Struct, frozen=True):
    """`break` or `continue`."""

    word: str


Node = Text | Show | Branch | Leave


def fields_of(nodes: tuple[Node, ...]) -> set[str]:
    """Names of all fields that occur, in lower case."""
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, Show | Branch):
            found |= _names(node.pipeline)
        if isinstance(node, Branch):
            found |= fields_of(node.body) | fields_of(node.otherwise)
    return found


def _names(operand: Operand) -> set[str]:
    match operand:
        case Field():
            return {operand.name.lower()} | _names(operand.of)
        case Call():
            return set[str]().union(*map(_names, operand.arguments))
        case Pipeline():
            return set[str]().union(*map(_names, operand.commands))
        case _:
            return set()
