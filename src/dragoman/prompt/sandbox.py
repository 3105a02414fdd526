"""The Jinja environment chat templates run in. Knows no message.

A template comes with a model, so it is foreign code: it may read what it is given and make text, nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any, NoReturn, cast

from jinja2 import nodes
from jinja2.exceptions import SecurityError, TemplateError
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

_LARGEST_PRODUCT = 1_000_000
_LARGEST_POWER = 10_000


class Refusal(TemplateError):
    """The template called `raise_exception`."""


class GenerationBlocks(Extension):
    """`{% generation %}` marks what the assistant said, for training; rendering needs only what is inside."""

    tags = {"generation"}  # noqa: RUF012 (the attribute jinja2 reads)

    def parse(self, parser: Parser) -> list[nodes.Node]:
        """The statements between the tags, as if the tags were not there."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class TemplateNamespace(Namespace):
    """`namespace()` without attributes that start with an underscore: those reach into Python."""

    def __setitem__(self, name: str, value: object) -> None:
        if name.startswith("_"):
            raise SecurityError(f"a namespace attribute may not be called '{name}'")
        super().__setitem__(name, value)


class ChatEnvironment(ImmutableSandboxedEnvironment):
    """Immutable sandbox with limits on products and powers, the settings transformers uses, and its functions."""

    intercepted_binops = frozenset({"*", "**"})

    def __init__(self) -> None:
        super().__init__(trim_blocks=True, lstrip_blocks=True, extensions=[GenerationBlocks, "jinja2.ext.loopcontrols"])
        filters = cast("dict[str, object]", self.filters)  # pyright: ignore[reportUnknownMemberType]
        filters["tojson"] = to_json
        names = cast("dict[str, object]", self.globals)  # pyright: ignore[reportUnknownMemberType]
        names["raise_exception"] = raise_exception
        names["strftime_now"] = strftime_now
        names["dict"] = make_dict
        names["namespace"] = TemplateNamespace

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Products and powers of a sane size only."""
        if operator == "**" and _exceeds(left, _LARGEST_POWER) | _exceeds(right, _LARGEST_POWER):
            raise SecurityError("a power is too large")
        if operator == "*" and _product_length(left, right) > _LARGEST_PRODUCT:
            raise SecurityError("a repeated text or list is too long")
        return super().call_binop(context, operator, left, right)


def _exceeds(value: object, limit: int) -> bool:
    return isinstance(value, int | float) and abs(value) > limit


def _product_length(left: object, right: object) -> int:
    sequence, times = (right, left) if isinstance(left, int) else (left, right)
    if isinstance(sequence, str | list | tuple) and isinstance(times, int):
        return len(cast("Sequence[object]", sequence)) * times
    return 0


def raise_exception(message: object = "") -> NoReturn:
    """A template's way to refuse a conversation."""
    raise Refusal(str(message))


def strftime_now(pattern: str) -> str:
    """The local time, formatted."""
    return datetime.now().strftime(pattern)


def make_dict(*arguments: Any, **fields: Any) -> dict[Any, Any]:
    """`dict(...)`, as a function so that the class itself stays out of reach."""
    return dict(*arguments, **fields)


def to_json(
    value: object,
    ensure_ascii: bool = False,
    indent: int | str | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON text without HTML escapes; unlike Jinja's own filter it is what the models were trained on."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
