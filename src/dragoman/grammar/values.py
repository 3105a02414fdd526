"""Tool arguments in the encodings of tool families, as grammar expressions. Knows no call around them.

JSON carries every keyword of the schema. The other encodings carry types, structure, literals and, for what they write
as JSON does, everything; what is left is checked when the call is complete.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, cast

from dragoman.grammar import lark
from dragoman.grammar.json_text import JsonRules
from dragoman.grammar.lark import Rules
from dragoman.grammar.schema import NormalSchema
from dragoman.grammar.spelling import Speller
from dragoman.grammar.view import SchemaView
from dragoman.output.families.family import (
    ArgumentForm,
    JsonArguments,
    PythonArguments,
    QuotedArguments,
    TaggedArguments,
)

_KEY = "/[A-Za-z_][A-Za-z0-9_]{0,63}/"
_SINGLE_QUOTED = r"""/'([^'\\\x00-\x1f]|\\['"\\nrt])*'/"""
_DEEPEST = 12
_CDATA_OPEN, _CDATA_CLOSE = "<![CDATA[", "]]>"

Pair = Callable[[str, SchemaView], str]


class Arguments:
    """Writes the arguments of one tool after another into the same rules."""

    def __init__(self, form: ArgumentForm, rules: Rules, json_rules: JsonRules, speller: Speller) -> None:
        self._form = form
        self._rules = rules
        self._json = json_rules
        self._speller = speller

    def of(self, normal: NormalSchema, field: str) -> str:
        """All arguments of a call, '' for none."""
        view = SchemaView(normal, normal.schema)
        match self._form:
            case JsonArguments():
                return self._json.normal(normal, field)
            case PythonArguments():
                return self._pairs(view, self._python_pair, ", ", self._rules.add("python_key", _KEY))
            case QuotedArguments(quote=quote):
                return self._quoted(view, quote, field, 0)
            case TaggedArguments() as form:
                return self._pairs(view, lambda key, value: self._tagged(form, key, value, field), form.between, "")

    def _pairs(self, view: SchemaView, pair: Pair, between: str, free_key: str) -> str:
        """`pair`s of the named keys in order, the optional ones optional, then of free ones where those may be."""
        view = view.target
        if (alternatives := view.options) is not None:
            return lark.choice([self._pairs(option, pair, between, free_key) for option in alternatives])
        items = [(pair(key, value), key in view.required) for key, value in view.properties.items()]
        rest = view.open
        if rest is not None and not items and free_key:
            items.append((pair("", rest), False))
            return f"({_repeated(items[0][0], between)})?"
        return separated(self._rules, items, between)

    # Python literals

    def _python_pair(self, key: str, value: SchemaView) -> str:
        name = lark.literal(key) if key else self._rules.add("python_key", _KEY)
        return lark.sequence([name, '"="', self._python(value, 0)])

    def _python(self, view: SchemaView, depth: int) -> str:
        view = view.target
        if view.literals is not None:
            spellings = dict.fromkeys(text for value in view.literals for text in (repr_of(value), repr(value)))
            return lark.choice([lark.literal(text) for text in spellings] or ["/[a&&b]/"])
        if (options := view.options) is not None and depth < _DEEPEST:
            return lark.choice([self._python(option, depth + 1) for option in options])
        return self._python_of_type(view, depth)

    def _python_of_type(self, view: SchemaView, depth: int) -> str:
        if view.part == {"type": "string"}:
            return self._python_string()
        if view.only("string") or not view.types & {"boolean", "null", "array", "object", "string"}:
            return self._json.normal(view.normal, "")
        if view.only("boolean"):
            return '("True" | "False")'
        if view.only("null"):
            return '"None"'
        if view.only("array") and depth < _DEEPEST:
            return f'"[" ({_repeated(self._python(view.items, depth + 1), ", ")})? "]"'
        if view.only("object") and depth < _DEEPEST and (view.properties or view.open is None):
            items = [self._python_item(key, value, view, depth) for key, value in view.properties.items()]
            return lark.sequence(['"{"', separated(self._rules, items, ", "), '"}"'])
        return self._any_python()

    def _python_item(self, key: str, value: SchemaView, owner: SchemaView, depth: int) -> tuple[str, bool]:
        name = lark.choice([lark.literal(f"{spelling}: ") for spelling in (json.dumps(key), repr(key))])
        return lark.sequence([name, self._python(value, depth + 1)]), key in owner.required

    def _python_string(self) -> str:
        """In double quotes as in JSON, or in single ones."""
        double = self._json.normal(NormalSchema(schema={"type": "string"}, definitions={}, places=[]), "")
        return f"({double} | {self._rules.add('SINGLE_QUOTED', _SINGLE_QUOTED)})"

    def _any_python(self) -> str:
        known = self._rules.find("python_any")
        if known:
            return known
        name = self._rules.recursive("python_any")
        text = self._python_string()
        number = self._json.normal(NormalSchema(schema={"type": "number"}, definitions={}, places=[]), "")
        pair = f'{text} ": " {name}'
        self._rules.define(
            name,
            f'"True" | "False" | "None" | {number} | {text} | "[" ({_repeated(name, ", ")})? "]"'
            f' | "{{" ({_repeated(pair, ", ")})? "}}"',
        )
        return name

    # quoted strings and bare keys

    def _quoted(self, view: SchemaView, quote: str, field: str, depth: int) -> str:
        view = view.target
        if (alternatives := view.options) is not None and depth < _DEEPEST:
            return lark.choice([self._quoted(option, quote, field, depth + 1) for option in alternatives])
        if view.literals is not None:
            return lark.choice([self._speller.literal(_quoted_of(value, quote)) for value in view.literals])
        if view.types <= {"integer", "number", "boolean", "null"}:
            return self._json.normal(view.normal, field, spaced=False)
        if view.only("string"):
            return lark.sequence([self._speller.literal(quote), self._speller.until(self._rules, "quoted", quote)])
        if view.only("array") and depth < _DEEPEST:
            return f'"[" ({_repeated(self._quoted(view.items, quote, field, depth + 1), ",")})? "]"'
        if (view.only("object") or depth == 0) and depth < _DEEPEST and (view.properties or view.open is None):
            items = [
                (self._quoted_item(key, value, quote, field, depth), key in view.required)
                for key, value in view.properties.items()
            ]
            return lark.sequence(['"{"', separated(self._rules, items, ","), '"}"'])
        return self._any_quoted(quote, only_object=depth == 0)

    def _quoted_item(self, key: str, value: SchemaView, quote: str, field: str, depth: int) -> str:
        return lark.sequence([lark.literal(f"{key}:"), self._quoted(value, quote, field, depth + 1)])

    def _any_quoted(self, quote: str, *, only_object: bool) -> str:
        name = self._rules.find("quoted_any")
        if not name:
            name = self._rules.recursive("quoted_any")
            scalar = NormalSchema(schema={"type": ["number", "boolean", "null"]}, definitions={}, places=[])
            text = lark.sequence([self._speller.literal(quote), self._speller.until(self._rules, "quoted", quote)])
            self._rules.define(
                name,
                f'{self._json.normal(scalar, "", spaced=False)} | {text} | "[" ({_repeated(name, ",")})? "]"'
                f" | {self._bare_object(name)}",
            )
        return f"({self._bare_object(name)})" if only_object else name

    def _bare_object(self, value: str) -> str:
        pair = f'{self._rules.add("bare_key", _KEY)} ":" {value}'
        return f'"{{" ({_repeated(pair, ",")})? "}}"'

    # values between tags

    def _tagged(self, form: TaggedArguments, key: str, value: SchemaView, field: str) -> str:
        value = value.target
        is_text = "string" in value.types
        key_close = form.key_close if is_text or not form.key_close_other else form.key_close_other
        return lark.sequence(
            [self._speller.literal(form.open + key + key_close), self._tagged_value(form, value, field)]
        )

    def _tagged_value(self, form: TaggedArguments, value: SchemaView, field: str) -> str:
        close = self._speller.literal(form.close)
        if value.literals is not None:
            texts = [entry if isinstance(entry, str) else json.dumps(entry) for entry in value.literals]
            return lark.sequence([lark.choice([self._speller.literal(text) for text in texts]), close])
        if "string" not in value.types:
            return lark.sequence([self._json.normal(value.normal, field), close])
        plain = self._speller.until(self._rules, "tagged", form.close)
        if not form.cdata:
            return plain
        inside = self._speller.until(self._rules, "cdata", _CDATA_CLOSE)
        mild = self._rules.add("mild", r"/[^<&\n]{0,4000}/")
        return f"({mild} {close} | {self._speller.literal(_CDATA_OPEN)} {inside} {close})"


def separated(rules: Rules, items: list[tuple[str, bool]], between: str) -> str:
    """The items in order, those that are not required optional, `between` only between two that are there."""
    comma = lark.literal(between) if between else ""
    if not items:
        return ""
    if not comma:
        return lark.sequence([item if required else f"({item})?" for item, required in items])
    # rest[k]: what may come from item k on after something was written; made from the end, so it stays linear.
    rest = ""
    tails: list[str] = []
    for item, required in reversed(items):
        tails.append(rest)
        body = lark.sequence([comma, item, rest]) if required else f"({comma} {item})? {rest}".strip()
        rest = rules.add("rest", body)
    tails.reverse()
    firsts: list[str] = []
    for (item, required), tail in zip(items, tails, strict=True):
        firsts.append(lark.sequence([item, tail]))
        if required:
            return lark.choice(firsts)
    return f"({' | '.join(firsts)})?"


def _repeated(item: str, between: str) -> str:
    return f"{item} ({lark.literal(between)} {item})*"


def repr_of(value: Any) -> str:
    """A Python literal, with strings as JSON writes them."""
    if isinstance(value, dict):
        entries = cast("dict[str, Any]", value).items()
        return "{" + ", ".join(f"{json.dumps(key)}: {repr_of(entry)}" for key, entry in entries) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(repr_of(entry) for entry in cast("list[Any]", value)) + "]"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def _quoted_of(value: Any, quote: str) -> str:
    if isinstance(value, str):
        return f"{quote}{value}{quote}"
    if isinstance(value, dict):
        entries = cast("dict[str, Any]", value).items()
        return "{" + ",".join(f"{key}:{_quoted_of(entry, quote)}" for key, entry in entries) + "}"
    if isinstance(value, list):
        return "[" + ",".join(_quoted_of(entry, quote) for entry in cast("list[Any]", value)) + "]"
    return json.dumps(value)
