"""Properties of rules that hang on the same property of the rules they use. Linear in the uses, so that long chains
cost no more than short ones. Knows no notation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping


def least(uses: Mapping[str, Iterable[str]], holds: Callable[[str, set[str]], bool]) -> set[str]:
    """The smallest set of names for which `holds(name, set)`; `uses` tells which names each one looks at."""
    users: dict[str, list[str]] = {}
    for name, used in uses.items():
        for other in used:
            users.setdefault(other, []).append(name)
    known: set[str] = set()
    waiting = list(uses)
    while waiting:
        name = waiting.pop()
        if name not in known and holds(name, known):
            known.add(name)
            waiting.extend(users.get(name, ()))
    return known
