"""GBNF trees in llguidance's Lark. Knows no spelling of GBNF.

Rules that are regular become terminals, which is what makes masks cheap. A terminal is matched greedily, so a grammar
in which a regular rule may be followed by more of its own characters loses those texts where the rule stops early; a
grammar that is regular as a whole is one terminal and exact.
"""

from __future__ import annotations

from collections.abc import Callable

from dragoman.grammar import lark
from dragoman.grammar.fixpoint import least
from dragoman.grammar.gbnf_tree import (
    NEVER,
    Alt,
    Chars,
    Grammar,
    Node,
    Ref,
    Repeat,
    Seq,
    Text,
    Token,
    has_token,
    reachable,
)
from dragoman.grammar.gbnf_tree import references as references_of
from dragoman.grammar.spelling import Speller


def lark_of(grammar: Grammar, speller: Speller) -> str:
    """The Lark text without header, `start` first. Raises KeyError with a token the vocabulary does not have."""
    return _Writer(grammar, speller).text()


class _Writer:
    def __init__(self, grammar: Grammar, speller: Speller) -> None:
        self._grammar = {name: grammar[name] for name in reachable(grammar)}
        self._speller = speller
        self._terminals = self._regular_rules()
        self._names = {name: self._name(name, index) for index, name in enumerate(self._grammar)}

    def text(self) -> str:
        lines = [f"start: {self._names['root']}"]
        for name, node in self._grammar.items():
            terminal = name in self._terminals
            lines.append(f"{self._names[name]}: {self._node(node, terminal=terminal)}")
        return "\n".join(lines) + "\n"

    def _name(self, name: str, index: int) -> str:
        return f"G{index}" if name in self._terminals else f"g{index}"

    def _regular_rules(self) -> frozenset[str]:
        """Rules without tokens that use only such rules, and never themselves."""
        uses = {name: references_of(node) for name, node in self._grammar.items()}
        plain = {name for name, node in self._grammar.items() if not self._holds_token(node)}
        return frozenset(least(uses, lambda name, known: name in plain and uses[name] <= known))

    def _holds_token(self, node: Node) -> bool:
        return has_token(node) or _any_text(node, self._speller.has_special)

    def _node(self, node: Node, *, terminal: bool) -> str:
        match node:
            case Text(text):
                return lark.literal(text) if terminal else self._speller.literal(text)
            case Chars():
                return _class(node)
            case Token():
                return self._token(node)
            case Ref(name):
                return self._names[name]
            case Seq(parts):
                return lark.sequence([self._inner(part, terminal=terminal) for part in parts])
            case Alt(options):
                if node == NEVER:
                    return "/[a&&b]/"
                return " | ".join(self._inner(option, terminal=terminal) for option in options)
            case Repeat(_, _, 0):
                return '""'
            case Repeat(inner, fewest, most):
                return f"{self._inner(inner, terminal=terminal)}{_times(fewest, most)}"

    def _inner(self, node: Node, *, terminal: bool) -> str:
        text = self._node(node, terminal=terminal)
        single = isinstance(node, Text | Chars | Ref | Token) and " " not in text.replace('" "', "")
        return text if single else f"({text})"

    def _token(self, node: Token) -> str:
        id = node.id if node.id is not None else self._speller.id_of(node.text)
        if id is None or id >= self._speller.size:
            raise KeyError(node.text or f"[{id}]")
        if not node.negated:
            return lark.token(id)
        before = [f"0-{id - 1}"] if id else []
        behind = [f"{id + 1}-{self._speller.size - 1}"] if id + 1 < self._speller.size else []
        return f"<[{','.join(before + behind)}]>"


def _any_text(node: Node, special: Callable[[str], bool]) -> bool:
    match node:
        case Text(text):
            return special(text)
        case Seq(parts):
            return any(_any_text(part, special) for part in parts)
        case Alt(options):
            return any(_any_text(option, special) for option in options)
        case Repeat(inner):
            return _any_text(inner, special)
        case _:
            return False


def _class(chars: Chars) -> str:
    if not chars.ranges:
        return "/(?s:.)/"
    ranges = "".join(f"\\x{{{low:x}}}-\\x{{{high:x}}}" for low, high in chars.ranges)
    return f"/[{'^' if chars.negated else ''}{ranges}]/"


def _times(fewest: int, most: int | None) -> str:
    if most is None and fewest < 2:
        return "+" if fewest else "*"
    if (fewest, most) == (0, 1):
        return "?"
    return f"{{{fewest},{'' if most is None else most}}}"
