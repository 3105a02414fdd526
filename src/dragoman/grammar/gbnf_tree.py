"""GBNF grammars as trees, and what is left of one after a text has been read. Knows no spelling."""

from __future__ import annotations

from msgspec import Struct

from dragoman.grammar.fixpoint import least


class Text(Struct, frozen=True):
    """A literal, at least one character."""

    text: str


class Chars(Struct, frozen=True):
    """One character out of `ranges` (code points, both ends included), or outside them."""

    ranges: tuple[tuple[int, int], ...]
    negated: bool = False

    def has(self, char: str) -> bool:
        """Whether it matches the character."""
        return any(low <= ord(char) <= high for low, high in self.ranges) != self.negated


class Token(Struct, frozen=True):
    """One token, by id or by text, or any other one."""

    id: int | None
    text: str
    negated: bool = False


class Ref(Struct, frozen=True):
    """A rule by name."""

    name: str


class Seq(Struct, frozen=True):
    """One after the other; empty for nothing."""

    parts: tuple[Node, ...] = ()


class Alt(Struct, frozen=True):
    """One of them; empty for what can never match."""

    options: tuple[Node, ...] = ()


class Repeat(Struct, frozen=True):
    """`node` at least `least` times, at most `most` times (None: without end)."""

    node: Node
    least: int
    most: int | None


Node = Text | Chars | Token | Ref | Seq | Alt | Repeat
Grammar = dict[str, Node]

NEVER = Alt()
NOTHING = Seq()


def children(node: Node) -> tuple[Node, ...]:
    """What it is made of."""
    match node:
        case Seq(parts):
            return parts
        case Alt(options):
            return options
        case Repeat(inner):
            return (inner,)
        case _:
            return ()


def references(node: Node) -> set[str]:
    """Names of the rules it uses directly."""
    if isinstance(node, Ref):
        return {node.name}
    return {name for child in children(node) for name in references(child)}


def has_token(node: Node) -> bool:
    """Whether a token is named in it, rules not followed."""
    return isinstance(node, Token) or any(has_token(child) for child in children(node))


def after(grammar: Grammar, text: str, root: str = "root") -> Grammar | None:
    """The grammar of what may follow `text` in texts of `grammar`; None when none begins so."""
    for char in text:
        grammar, root = _Derivation(grammar, char).of_rule(root)
        grammar = {name: grammar[name] for name in reachable(grammar, root)}
    return None if grammar[root] == NEVER else {"root": Ref(root), **{k: v for k, v in grammar.items() if k != "root"}}


def reachable(grammar: Grammar, root: str = "root") -> list[str]:
    """The rules `root` uses, itself first, others in the order they are met."""
    found = {root: None}
    waiting = [root]
    while waiting:
        for name in sorted(references(grammar[waiting.pop()])):
            if name not in found:
                found[name] = None
                waiting.append(name)
    return list(found)


class _Derivation:
    """One step: all rules that are left after `char`, beside the rules there are."""

    def __init__(self, grammar: Grammar, char: str) -> None:
        self._grammar = dict(grammar)
        self._char = char
        self._nullable = _nullable_rules(grammar)
        self._derived: dict[str, str] = {}

    def of_rule(self, root: str) -> tuple[Grammar, str]:
        name = self._rule(root)
        return self._grammar, name

    def _rule(self, name: str) -> str:
        known = self._derived.get(name)
        if known is None:
            known = self._derived[name] = f"{name}-{ord(self._char):x}"
            while known in self._grammar:
                known = self._derived[name] = f"{known}x"
            self._grammar[known] = NEVER
            self._grammar[known] = self._node(self._grammar[name])
        return known

    def _node(self, node: Node) -> Node:
        match node:
            case Text(text):
                if text[0] != self._char:
                    return NEVER
                return Text(text[1:]) if len(text) > 1 else NOTHING
            case Chars():
                return NOTHING if node.has(self._char) else NEVER
            case Token():
                return NEVER
            case Ref(name):
                return Ref(self._rule(name))
            case Alt(options):
                left = tuple(rest for option in options if (rest := self._node(option)) != NEVER)
                return left[0] if len(left) == 1 else Alt(left)
            case Seq(parts):
                return self._sequence(parts)
            case Repeat(inner, fewest, most):
                rest = self._node(inner)
                if rest == NEVER or most == 0:
                    return NEVER
                again = Repeat(inner, max(fewest - 1, 0), None if most is None else most - 1)
                return _joined((rest, again))

    def _sequence(self, parts: tuple[Node, ...]) -> Node:
        options: list[Node] = []
        for index, part in enumerate(parts):
            rest = self._node(part)
            if rest != NEVER:
                options.append(_joined((rest, *parts[index + 1 :])))
            if not is_nullable(part, self._nullable):
                break
        return options[0] if len(options) == 1 else Alt(tuple(options))


def _joined(parts: tuple[Node, ...]) -> Node:
    kept = tuple(part for part in parts if part != NOTHING)
    return kept[0] if len(kept) == 1 else Seq(kept)


def _nullable_rules(grammar: Grammar) -> set[str]:
    uses = {name: references(node) for name, node in grammar.items()}
    return least(uses, lambda name, known: is_nullable(grammar[name], known))


def is_nullable(node: Node, rules: set[str]) -> bool:
    """Whether it matches nothing at all; `rules` are those that do."""
    match node:
        case Ref(name):
            return name in rules
        case Seq(parts):
            return all(is_nullable(part, rules) for part in parts)
        case Alt(options):
            return any(is_nullable(option, rules) for option in options)
        case Repeat(inner, fewest):
            return fewest == 0 or is_nullable(inner, rules)
        case _:
            return False
