"""Looks over a Lark text before a compiler does, whose recursion follows rules into rules: too long a chain of them
would take the process down. Finds no mistakes."""

from __future__ import annotations

import re

from dragoman.grammar.limits import Limits
from dragoman.grammar.refusal import too_large

_OPAQUE = re.compile(r'"(?:[^"\\\n]|\\.)*"i?|//[^\n]*|#[^\n]*|/(?![*/ ])(?:[^/\\\n]|\\.)+/[a-z]*')
_RULE = re.compile(r"^[ \t]*[?!]?([A-Za-z_][\w-]*)(?:\.-?\d+)?(?:::\w+)?[ \t]*(?:\[[^\]\n]*\])?[ \t]*:", re.MULTILINE)
_NAME = re.compile(r"[A-Za-z_][\w-]*")
_OPENING, _CLOSING = "([{", ")]}"


def guard(text: str, field: str, limits: Limits) -> None:
    """Raises InvalidField for a text beyond the limits."""
    if len(text.encode("utf-8", "replace")) > limits.text_bytes:
        raise too_large("grammar", f"is larger than {limits.text_bytes} bytes", field)
    if text.count("$ref") > limits.definitions:
        raise too_large("grammar", f"has more than {limits.definitions} references in its JSON schemas", field)
    if _deepest_bracket(text) > limits.brackets:
        raise too_large("grammar", f"has brackets that nest more than {limits.brackets} levels deep", field)
    rules = _rules(_OPAQUE.sub(" ", text))
    if len(rules) > limits.rules:
        raise too_large("grammar", f"has more than {limits.rules} rules", field)
    if _longest_chain(rules) > limits.rule_depth:
        raise too_large("grammar", f"has rules that use each other more than {limits.rule_depth} levels deep", field)


def _deepest_bracket(text: str) -> int:
    """Brackets in JSON schemas count, those in strings and regexes do not, unless these span JSON."""
    depth = deepest = 0
    for char in _OPAQUE.sub(" ", text):
        if char in _OPENING:
            depth += 1
            deepest = max(deepest, depth)
        elif char in _CLOSING:
            depth = max(0, depth - 1)
    return deepest


def _rules(text: str) -> dict[str, set[str]]:
    starts = list(_RULE.finditer(text))
    ends = [match.start() for match in starts[1:]] + [len(text)]
    rules: dict[str, set[str]] = {}
    for match, end in zip(starts, ends, strict=True):
        rules.setdefault(match[1], set()).update(_NAME.findall(text[match.end() : end]))
    return {name: used & rules.keys() for name, used in rules.items()}


def _longest_chain(rules: dict[str, set[str]]) -> int:
    """How deep a walk along the rules can get that visits none twice, at most: a depth-first walk's greatest depth."""
    seen: set[str] = set()
    deepest = 0
    for root in rules:
        if root in seen:
            continue
        seen.add(root)
        path = [(root, iter(rules[root]))]
        while path:
            deepest = max(deepest, len(path))
            following = next((name for name in path[-1][1] if name not in seen), None)
            if following is None:
                path.pop()
            else:
                seen.add(following)
                path.append((following, iter(rules[following])))
    return deepest
