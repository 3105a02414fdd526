"""Output formats as grammar expressions: any JSON, schema, regex, choice, Lark, GBNF. Knows no tool and no thought."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import msgspec

from dragoman.core.request import OutputFormat
from dragoman.grammar import lark
from dragoman.grammar.gbnf_lark import lark_of
from dragoman.grammar.gbnf_parse import parsed
from dragoman.grammar.gbnf_tree import Grammar
from dragoman.grammar.json_text import JsonRules, Try
from dragoman.grammar.lark import HEADER, Rules
from dragoman.grammar.lark_guard import guard
from dragoman.grammar.limits import Limits
from dragoman.grammar.refusal import caret_in, invalid_source, place_in, reason_in, too_large
from dragoman.grammar.schema import decoded
from dragoman.grammar.spelling import Speller


class Sources:
    """Writes formats into the rules of one answer. `attempt` compiles a text of its own, to tell a mistake in a source
    by its place there."""

    def __init__(self, rules: Rules, json_rules: JsonRules, speller: Speller, limits: Limits, attempt: Try) -> None:
        self._rules = rules
        self._json = json_rules
        self._speller = speller
        self._limits = limits
        self._attempt = attempt

    def answer(self, format: OutputFormat) -> str:
        """An expression for the whole format. Raises InvalidRequest naming the place."""
        writers: dict[str, Callable[[OutputFormat], str]] = {
            "json": self._any_json,
            "json_schema": self._schema,
            "regex": self._regex,
            "choice": self._choice,
            "lark": self._lark,
            "gbnf": lambda given: self.gbnf(parsed(given.text, given.field, self._limits), given.field),
        }
        if len(format.text.encode("utf-8", "replace")) > self._limits.text_bytes:
            raise too_large("constraint", f"is larger than {self._limits.text_bytes} bytes", format.field)
        return writers[format.kind](format)

    def gbnf(self, grammar: Grammar, field: str) -> str:
        """An expression for a GBNF grammar."""
        try:
            text = lark_of(grammar, self._speller)
        except KeyError as missing:
            raise invalid_source("GBNF grammar", f"this model has no token {missing.args[0]}", field) from None
        guard(text, field, self._limits)
        return self._nested(text)

    def _any_json(self, format: OutputFormat) -> str:
        return self._json.value({"type": "object"}, format.field, spaced=format.whitespace)

    def _schema(self, format: OutputFormat) -> str:
        schema = decoded(format.text, format.field, self._limits)
        return self._json.value(schema, format.field, spaced=format.whitespace)

    def _regex(self, format: OutputFormat) -> str:
        source = _unanchored(format.text)
        body = lark.regex(source)
        problem = self._attempt(f"{HEADER}start: ANSWER\nANSWER: {body}\n")
        if problem:
            shift = len(format.text) - len(format.text.removeprefix("^"))
            column = caret_in(problem)
            raise invalid_source("regex", reason_in(problem), format.field, column=column and column + shift)
        return self._rules.add("ANSWER", body)

    def _choice(self, format: OutputFormat) -> str:
        try:
            entries: Any = msgspec.json.decode(format.text)
        except (msgspec.DecodeError, UnicodeError) as error:
            raise invalid_source("list of choices", str(error), format.field) from error
        texts = cast("list[Any]", entries) if isinstance(entries, list) else []
        if not texts or not all(isinstance(text, str) and text for text in texts):
            raise invalid_source("list of choices", "it must have texts that are not empty, one at least", format.field)
        options = "|".join(lark.escaped(text) for text in dict.fromkeys(cast("list[str]", texts)))
        return self._rules.add("ANSWER", f"/{options}/")

    def _lark(self, format: OutputFormat) -> str:
        guard(format.text, format.field, self._limits)
        text = lark.headless(format.text)
        problem = self._attempt(HEADER + text)
        if problem:
            line, column = place_in(problem)
            line += format.text[: len(format.text) - len(text)].count("\n") - 1 if line else 0
            raise invalid_source("Lark grammar", reason_in(problem), format.field, line=line, column=column)
        return self._nested(text)

    def _nested(self, text: str) -> str:
        return self._rules.add("grammar", lark.nested(text))


def _unanchored(source: str) -> str:
    """The answer is matched as a whole, so anchors around it say nothing. Only those around all of it are dropped."""
    if "|" in source and source[:1] == "^":
        return source
    source = source.removeprefix("^")
    backslashes = len(source[:-1]) - len(source[:-1].rstrip("\\"))
    return source[:-1] if source.endswith("$") and backslashes % 2 == 0 else source
