"""What two servers' answers to one request have in common, and what not. Knows no route by name."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

_NUMBERS = re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d+)?")
_MASKED = frozenset({"seed", "speculative.types", "backend_sampling", "lora"})


@dataclass(frozen=True)
class Answer:
    """Status, kind of content and the JSON values: one, or those of a stream's frames."""

    status: int
    kind: str
    values: tuple[Any, ...]
    text: str


def answer_of(status: int, content_type: str, raw: bytes) -> Answer:
    """What was answered."""
    kind = content_type.partition(";")[0]
    text = raw.decode(errors="replace")
    try:
        if kind == "text/event-stream":
            lines = [line[5:].strip() for line in text.split("\n") if line.startswith("data:")]
            return Answer(
                status, kind, tuple(json.loads(line) for line in lines if line not in ("[DONE]", "null")), text
            )
        return Answer(status, kind, (json.loads(text),), text)
    except ValueError:
        return Answer(status, kind, (), text)


def differences(theirs: Answer, ours: Answer, *, words: bool = True) -> list[str]:
    """Where ours is not as theirs: the class of the status, the kind of content, the keys and their order, settings in
    force, and with `words` what an error says (of several faults, which one is told first is nobody's concern)."""
    if theirs.status // 100 != ours.status // 100:
        said = next((_message(answer) for answer in (theirs, ours) if answer.status >= 400), "")
        return [f"status {ours.status} instead of {theirs.status}, by {said[:140]!r}"]
    if theirs.kind != ours.kind:
        return [f"content {ours.kind} instead of {theirs.kind}"]
    found = [] if theirs.status == ours.status else [f"status {ours.status} instead of {theirs.status}"]
    if theirs.status >= 400:
        return found + _errors(theirs, ours, words=words)
    one, other = _shapes(theirs), _shapes(ours)
    found += [f"missing {shape}" for shape in sorted(one - other)]
    found += [f"added {shape}" for shape in sorted(other - one)]
    return found or _settings(theirs, ours)


def _errors(theirs: Answer, ours: Answer, *, words: bool) -> list[str]:
    one, other = _shapes(theirs), _shapes(ours)
    if one != other:
        return [f"error keys {sorted(other)} instead of {sorted(one)}"]
    said, say = (_message(answer) for answer in (theirs, ours))
    return [] if said == say or not words else [f"words: {say[:160]!r} instead of {said[:160]!r}"]


def _message(answer: Answer) -> str:
    try:
        error = answer.values[0]["error"]
        return f"{error['type']}: {_NUMBERS.sub('N', error['message'])}"
    except (LookupError, TypeError):
        return answer.text


def _settings(theirs: Answer, ours: Answer) -> list[str]:
    """Settings in force that are not the same."""
    pairs = zip(_finals(theirs), _finals(ours), strict=False)
    found = {
        f"setting {key}: {other[key]!r} instead of {one[key]!r}"
        for one, other in pairs
        for key in one
        if key not in _MASKED and one[key] != other.get(key)
    }
    return sorted(found)[:6]


def _finals(answer: Answer) -> list[dict[str, Any]]:
    values = [inner for value in answer.values for inner in (value if isinstance(value, list) else [value])]
    found = [
        value["generation_settings"] for value in values if isinstance(value, dict) and "generation_settings" in value
    ]
    return sorted(found, key=lambda settings: settings["seed"])


def _shapes(answer: Answer) -> frozenset[str]:
    """The objects there are: their paths with their keys in order. Lists count once."""
    found: set[str] = set()
    for value in answer.values:
        _walk(value, "$", found)
    return frozenset(found)


def _walk(value: Any, at: str, found: set[str]) -> None:
    if isinstance(value, dict):
        found.add(f"{at}{{{','.join(value)}}}")
        for key, inner in value.items():
            _walk(inner, f"{at}.{key}", found)
    elif isinstance(value, list):
        found.add(f"{at}[]")
        for inner in value:
            _walk(inner, f"{at}[]", found)
