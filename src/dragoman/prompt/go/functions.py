"""The functions of Go templates: those of text/template that chat templates use, and those Ollama adds. Knows no
template."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from typing import Any, cast

from dragoman.prompt.go.fault import GoTemplateFault

_LONGEST = 16 * 1024 * 1024


def truth(value: Any) -> bool:
    """Whether a value counts as true: false, 0, nil and what is empty do not."""
    return bool(value)


def shown(value: Any) -> str:
    """A value as it is printed. Lists and maps are JSON, as the values that Ollama hands to templates print."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return to_json(value) if isinstance(value, dict | list) else str(value)


def to_json(value: Any) -> str:
    """JSON on one line, without blanks."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _and(*values: Any) -> Any:
    return next((value for value in values if not truth(value)), values[-1])


def _or(*values: Any) -> Any:
    return next((value for value in values if truth(value)), values[-1])


def _eq(first: Any, *others: Any) -> bool:
    return any(first == other and isinstance(first, bool) == isinstance(other, bool) for other in others)


def _not(value: Any) -> bool:
    return not truth(value)


def _ne(first: Any, second: Any) -> bool:
    return not _eq(first, second)


def _greater(first: Any, second: Any) -> bool:
    return _less(second, first)


def _at_most(first: Any, second: Any) -> bool:
    return not _less(second, first)


def _at_least(first: Any, second: Any) -> bool:
    return not _less(first, second)


def _less(first: Any, second: Any) -> bool:
    try:
        return first < second
    except TypeError:
        raise GoTemplateFault("values of different types are compared") from None


def _len(value: Any) -> int:
    if isinstance(value, str):
        return len(value.encode())
    if isinstance(value, list | dict):
        return len(cast("list[Any]", value))
    raise GoTemplateFault("'len' of a value that has no length")


def _index(value: Any, *keys: Any) -> Any:
    for key in keys:
        if isinstance(value, dict):
            value = cast("dict[Any, Any]", value).get(key)
        elif isinstance(value, list) and isinstance(key, int) and 0 <= key < len(cast("list[Any]", value)):
            value = cast("list[Any]", value)[key]
        else:
            raise GoTemplateFault("'index' finds nothing there")
    return value


def _slice(value: Any, *bounds: Any) -> Any:
    """Texts are cut by bytes, as Go does."""
    if len(bounds) > 2 or not all(isinstance(bound, int) for bound in bounds):
        raise GoTemplateFault("'slice' needs whole numbers")
    if isinstance(value, str):
        text = value.encode()
        start, stop = _bounds(len(text), *bounds)
        return text[start:stop].decode(errors="replace")
    if isinstance(value, list):
        items = cast("list[Any]", value)
        start, stop = _bounds(len(items), *bounds)
        return items[start:stop]
    raise GoTemplateFault("'slice' of a value that cannot be cut")


def _bounds(length: int, start: int = 0, stop: int | None = None) -> tuple[int, int]:
    end = length if stop is None else stop
    if not 0 <= start <= end <= length:
        raise GoTemplateFault("'slice' reaches beyond the value")
    return start, end


def _print(*values: Any) -> str:
    """Operands stand apart by a blank where neither is a string."""
    said = ""
    for at, value in enumerate(values):
        apart = at and not isinstance(value, str) and not isinstance(values[at - 1], str)
        said += (" " if apart else "") + shown(value)
    return said


def _println(*values: Any) -> str:
    return " ".join(map(shown, values)) + "\n"


def _printf(form: Any, *values: Any) -> str:
    """%s, %v, %d, %q and %%, without widths."""
    left, said, text = list(values), "", str(form)
    at = 0
    while at < len(text):
        if text[at] != "%":
            said += text[at]
            at += 1
            continue
        verb = text[at + 1 : at + 2]
        at += 2
        if verb == "%":
            said += "%"
        elif verb in ("s", "v", "d", "q") and verb and left:
            value = left.pop(0)
            said += to_json(shown(value)) if verb == "q" else shown(value)
        else:
            raise GoTemplateFault(f"'printf' cannot write '%{verb}'")
    return said


def _current_date(*_: Any) -> str:
    return datetime.datetime.now(datetime.UTC).astimezone().strftime("%Y-%m-%d")


def _yesterday(*_: Any) -> str:
    return (datetime.datetime.now(datetime.UTC).astimezone() - datetime.timedelta(days=1)).strftime("%Y-%m-%d")


def _typescript(value: Any) -> str:
    """The TypeScript type of a JSON Schema property."""
    schema = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    options = schema.get("anyOf")
    if isinstance(options, list) and options:
        return " | ".join(map(_typescript, cast("list[Any]", options)))
    kind = schema.get("type")
    kinds = cast("list[Any]", kind) if isinstance(kind, list) else [kind]
    return " | ".join(_typescript_word(str(one), schema) for one in kinds) or "any"


def _typescript_word(kind: str, schema: dict[str, Any]) -> str:
    if kind == "array":
        return f"{_typescript(schema['items'])}[]" if schema.get("items") else "any[]"
    words = {"integer": "number", "object": "Record<string, any>", "None": "any"}
    return words.get(kind, kind)


FUNCTIONS: dict[str, tuple[int, Callable[..., Any]]] = {
    "and": (1, _and),
    "or": (1, _or),
    "not": (1, _not),
    "eq": (2, _eq),
    "ne": (2, _ne),
    "lt": (2, _less),
    "gt": (2, _greater),
    "le": (2, _at_most),
    "ge": (2, _at_least),
    "len": (1, _len),
    "index": (1, _index),
    "slice": (1, _slice),
    "print": (0, _print),
    "println": (0, _println),
    "printf": (1, _printf),
    "json": (1, to_json),
    "toJson": (1, to_json),
    "currentDate": (0, _current_date),
    "yesterdayDate": (0, _yesterday),
    "toTypeScriptType": (1, _typescript),
}
"""Each function with the fewest arguments it takes."""


def call(name: str, arguments: list[Any]) -> Any:
    """The function's value. Raises GoTemplateFault."""
    fewest, function = FUNCTIONS[name]
    if len(arguments) < fewest:
        raise GoTemplateFault(f"'{name}' needs {fewest} arguments")
    try:
        value = function(*arguments)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise GoTemplateFault(f"'{name}' cannot be called so") from error
    if isinstance(value, str) and len(value) > _LONGEST:
        raise GoTemplateFault("it writes too much")
    return value
