"""Pieces of a Go template to its tree (grammar: Go documentation, package text/template). Runs nothing.

`define`, `template` and `block` are not understood: a chat template is one file.
"""

from __future__ import annotations

from collections.abc import Sequence

from dragoman.prompt.go.fault import GoTemplateFault
from dragoman.prompt.go.functions import FUNCTIONS
from dragoman.prompt.go.lex import Action, Piece, Word, lex, unquoted
from dragoman.prompt.go.nodes import (
    Branch,
    Call,
    Dot,
    Field,
    Leave,
    Literal,
    Node,
    Operand,
    Pipeline,
    Show,
    Text,
    Variable,
)

_DEEPEST = 50
_CONSTANTS = {"true": True, "false": False, "nil": None}
_BRANCHES = ("if", "with", "range")


def parse(source: str) -> tuple[Node, ...]:
    """The tree. Raises GoTemplateFault."""
    return _Tree(lex(source)).whole()


class _Tree:
    """Reads pieces in order."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self._pieces = pieces
        self._at = 0
        self._depth = 0
        self._ranges = 0

    def whole(self) -> tuple[Node, ...]:
        nodes, end = self._nodes()
        if end is not None:
            raise GoTemplateFault(f"'{end.words[0].text}' without its beginning")
        return nodes

    def _nodes(self) -> tuple[tuple[Node, ...], Action | None]:
        """Nodes up to an `end` or `else`, which comes back."""
        nodes: list[Node] = []
        while self._at < len(self._pieces):
            piece = self._pieces[self._at]
            self._at += 1
            if isinstance(piece, str):
                nodes.append(Text(piece))
            elif _first(piece) in ("end", "else"):
                return tuple(nodes), piece
            else:
                nodes.append(self._node(piece))
        return tuple(nodes), None

    def _node(self, action: Action) -> Node:
        word = _first(action)
        if word in _BRANCHES:
            return self._branch(word, action.words[1:])
        if word in ("break", "continue"):
            if not self._ranges or len(action.words) > 1:
                raise GoTemplateFault(f"'{word}' outside of a range")
            return Leave(word)
        if word in ("define", "template", "block"):
            raise GoTemplateFault(f"'{word}' is not understood here")
        return Show(_Words(action.words).pipeline())

    def _branch(self, word: str, words: Sequence[Word]) -> Branch:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise GoTemplateFault("it is nested too deeply")
        pipeline = _Words(words).pipeline(pair=word == "range")
        self._ranges += word == "range"
        body, end = self._nodes()
        self._ranges -= word == "range"
        otherwise: tuple[Node, ...] = ()
        if end is not None and _first(end) == "else":
            otherwise = self._otherwise(end)
        elif end is None:
            raise GoTemplateFault(f"'{word}' without its end")
        self._depth -= 1
        return Branch(word, pipeline, body, otherwise)

    def _otherwise(self, end: Action) -> tuple[Node, ...]:
        """What follows an `else`; `else if` and `else with` share the end of the branch they stand in."""
        rest = end.words[1:]
        if rest:
            if rest[0].text not in ("if", "with"):
                raise GoTemplateFault(f"'else {rest[0].text}'")
            return (self._branch(rest[0].text, rest[1:]),)
        nodes, last = self._nodes()
        if last is None or _first(last) != "end":
            raise GoTemplateFault("'else' without its end")
        return nodes


def _first(action: Action) -> str:
    return action.words[0].text if action.words and action.words[0].kind == "name" else ""


class _Words:
    """Reads the words of one action."""

    def __init__(self, words: Sequence[Word]) -> None:
        self._words = words
        self._at = 0
        self._depth = 0

    def pipeline(self, *, pair: bool = False) -> Pipeline:
        """All of the words as one pipeline; `pair` allows two variables."""
        pipeline = self._pipeline(pair)
        if self._at < len(self._words):
            raise GoTemplateFault(f"'{self._words[self._at].text}' in the wrong place")
        return pipeline

    def _pipeline(self, pair: bool) -> Pipeline:
        names, assigns = self._declared(pair)
        commands = [self._command()]
        while self._take("|"):
            command = self._command()
            if not isinstance(command, Call):
                raise GoTemplateFault("what stands behind '|' is no function")
            commands.append(command)
        return Pipeline(tuple(commands), names, assigns)

    def _declared(self, pair: bool) -> tuple[tuple[str, ...], bool]:
        """Variables in front of := or =, if any."""
        names: list[str] = []
        start = self._at
        while self._peek().kind == "variable" and len(names) < 1 + pair:
            names.append(self._next().text)
            if self._take(":=") or (len(names) == 1 and self._take("=")):
                return tuple(names), self._words[self._at - 1].text == "="
            if not self._take(","):
                break
        self._at = start
        return (), False

    def _command(self) -> Operand:
        word = self._peek()
        if word.kind == "name" and word.text not in _CONSTANTS:
            name = self._next().text
            if name not in FUNCTIONS:
                raise GoTemplateFault(f"there is no function '{name}'")
            arguments: list[Operand] = []
            while self._peek().text not in ("", "|", ")"):
                arguments.append(self._operand())
            return Call(name, tuple(arguments))
        operand = self._operand()
        if self._peek().text not in ("", "|", ")"):
            raise GoTemplateFault(f"'{self._peek().text}' behind a value")
        return operand

    def _operand(self) -> Operand:
        word = self._next()
        match word.kind:
            case "string" | "char":
                return Literal(unquoted(word.text))
            case "number":
                return Literal(_number(word.text))
            case "field":
                operand: Operand = Field(Dot(), word.text[1:])
            case "variable":
                operand = Variable(word.text)
            case "name" if word.text in _CONSTANTS:
                return Literal(_CONSTANTS[word.text])
            case "name" if word.text in FUNCTIONS:
                operand = Call(word.text, ())
            case "sign" if word.text == ".":
                operand = Dot()
            case "sign" if word.text == "(":
                operand = self._inner()
            case _:
                raise GoTemplateFault(f"'{word.text}' where a value should be" if word.text else "an action is empty")
        while self._peek().kind == "field" and not self._peek().spaced:
            operand = Field(operand, self._next().text[1:])
        return operand

    def _inner(self) -> Pipeline:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise GoTemplateFault("it is nested too deeply")
        pipeline = self._pipeline(pair=False)
        if not self._take(")"):
            raise GoTemplateFault("a parenthesis is not closed")
        self._depth -= 1
        return pipeline

    def _peek(self) -> Word:
        return self._words[self._at] if self._at < len(self._words) else Word("", "")

    def _next(self) -> Word:
        word = self._peek()
        self._at += 1
        return word

    def _take(self, sign: str) -> bool:
        if self._peek().kind == "sign" and self._peek().text == sign:
            self._at += 1
            return True
        return False


def _number(text: str) -> int | float:
    try:
        return int(text, 0) if not text.lstrip("+-").startswith("0") or "x" in text.lower() else int(text, 10)
    except ValueError:
        return float(text)
