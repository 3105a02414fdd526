"""Calls written by the canonical form of a family's row, as history and forced calls are."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from dragoman.output.families.family import (
    ArgumentForm,
    CallForm,
    JsonArguments,
    PythonArguments,
    QuotedArguments,
    TaggedArguments,
)

Arguments = dict[str, Any]


def spelled(form: CallForm, calls: Sequence[tuple[str, Arguments]]) -> str:
    written = [_call(form, index, name, arguments) for index, (name, arguments) in enumerate(calls)]
    return form.opener + form.separator.join(written) + form.closer


def _call(form: CallForm, index: int, name: str, arguments: Arguments) -> str:
    before = f"{index}{form.number_close}" if form.number_close else ""
    behind = f"{form.numbered}{index}" if form.numbered else ""
    head = f"{form.call_open}{before}{name}{behind}{form.name_close}"
    return head + _arguments(form.arguments, arguments) + form.call_close


def _arguments(form: ArgumentForm, arguments: Arguments) -> str:
    match form:
        case JsonArguments():
            return json.dumps(arguments, ensure_ascii=False)
        case PythonArguments():
            return ", ".join(f"{key}={value!r}" for key, value in arguments.items())
        case QuotedArguments():
            return _quoted(arguments, form.quote)
        case TaggedArguments():
            return form.between.join(_tagged(form, key, value) for key, value in arguments.items())


def _quoted(value: Any, quote: str) -> str:
    match value:
        case dict():
            return "{" + ",".join(f"{key}:{_quoted(inner, quote)}" for key, inner in value.items()) + "}"
        case list():
            return "[" + ",".join(_quoted(inner, quote) for inner in value) + "]"
        case str():
            return f"{quote}{value}{quote}"
        case _:
            return json.dumps(value)


def _tagged(form: TaggedArguments, key: str, value: Any) -> str:
    if not isinstance(value, str):
        head = f"{form.open}{key}{form.key_close_other or form.key_close}"
        return head + json.dumps(value, ensure_ascii=False) + form.close
    if form.cdata and any(mark in value for mark in "<&\n"):
        value = "<![CDATA[" + value.replace("]]>", "]]]]><![CDATA[>") + "]]>"
    return f"{form.open}{key}{form.key_close}{value}{form.close}"
