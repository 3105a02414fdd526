"""Whether a finished text is of a form, for answers no grammar held to it. Knows no engine."""

from __future__ import annotations

from typing import Any, Protocol

from dragoman.core.constraint import Constraint
from dragoman.core.errors import DragomanError
from dragoman.core.request import OutputFormat
from dragoman.grammar.judge import is_valid
from dragoman.grammar.limits import Limits
from dragoman.grammar.matchers import Matchers
from dragoman.grammar.schema import decoded, normalised


class Compiles(Protocol):
    """What a Compiler does."""

    def compile(self, constraint: Constraint) -> str:
        """See Compiler.compile."""
        ...


class Accepting:
    """Judges texts. JSON is judged as JSON, whatever its blanks and the order of its keys."""

    def __init__(self, compiler: Compiles, matchers: Matchers, limits: Limits) -> None:
        self._compiler = compiler
        self._matchers = matchers
        self._limits = limits

    def accepts(self, format: OutputFormat, text: str) -> bool:
        """True where the format itself cannot be compiled: then nothing can be held against the text."""
        try:
            if format.kind in ("json", "json_schema"):
                return self._is_valid(format, text)
            return self._matches(self._compiler.compile(Constraint(format=format)), text)
        except DragomanError:
            return True

    def _is_valid(self, format: OutputFormat, text: str) -> bool:
        any_object: Any = {"type": "object"}
        schema = any_object if format.kind == "json" else decoded(format.text, format.field, self._limits)
        return is_valid(text, normalised(schema, format.field, self._limits, narrow=False), self._matches)

    def _matches(self, grammar: str, text: str) -> bool:
        matcher = self._matchers.matcher(grammar)
        return matcher.consume_tokens(self._matchers.tokenizer.tokenize_str(text)) and matcher.is_accepting()
