"""Constraints to grammar texts, checked, cached and within limits: the station as the service and the app see it."""

from __future__ import annotations

import threading

import msgspec
from llguidance import LLMatcher

from dragoman.core.constraint import Constraint
from dragoman.core.errors import InvalidField, InvalidRequest
from dragoman.core.prompt import ReplyFormat
from dragoman.core.request import OutputFormat
from dragoman.core.vocabulary import Tokenizer
from dragoman.grammar.accept import Accepting
from dragoman.grammar.compose import Composition
from dragoman.grammar.limits import Limits
from dragoman.grammar.mask import MaskFactory
from dragoman.grammar.matchers import Matchers, Recent
from dragoman.grammar.refusal import too_large
from dragoman.grammar.spelling import Speller

_KEPT_TEXTS = 256
_SIZE_WORDS = ("too big", "too large", "too complex", "limit", "too many")


class Compiler:
    """Grammars for one model. Safe from any thread. Nothing is built before it is needed; the first constraint pays
    some tenths of a second for the vocabulary."""

    def __init__(self, tokenizer: Tokenizer, limits: Limits | None = None) -> None:
        self._tokenizer = tokenizer
        self._limits = limits or Limits()
        self._matchers = Matchers(tokenizer, self._limits)
        self._texts: Recent[str] = Recent(_KEPT_TEXTS)
        self._lock = threading.Lock()
        self._speller: Speller | None = None

    @property
    def masks(self) -> MaskFactory:
        """Gives requests for an engine of this process their masks."""
        return MaskFactory(self._matchers, self._tokenizer.size)

    def matcher(self, grammar: str) -> LLMatcher:
        """A matcher at the beginning of a text that was compiled, for checks and benches."""
        return self._matchers.matcher(grammar)

    def compile(self, constraint: Constraint) -> str:
        """The grammar of the whole answer, in llguidance's text form. Raises InvalidRequest and its kin, `field` naming
        the wire path of what cannot be compiled, and Overloaded when others keep the compilers busy."""
        key = msgspec.json.encode(constraint).decode()
        known = self._texts.get(key)
        if known is not None:
            return known
        field = _field_of(constraint)
        composition = Composition(
            constraint, self._spelling, self._tokenizer, self._limits, lambda text: self._matchers.problem(text, field)
        )
        problem = self._matchers.problem(composition.text, field)
        if problem:
            raise self._refusal(composition, problem, field)
        self._texts.put(key, composition.text)
        return composition.text

    def accepts(self, format: OutputFormat, text: str) -> bool:
        """Whether `text` is of this form. True where the format itself cannot be compiled."""
        return Accepting(self, self._matchers, self._limits).accepts(format, text)

    @property
    def _spelling(self) -> Speller:
        with self._lock:
            if self._speller is None:
                self._speller = Speller(self._tokenizer)
            return self._speller

    def _refusal(self, composition: Composition, problem: str, field: str) -> InvalidRequest:
        found = composition.blame(lambda text: self._matchers.problem(text, field))
        if found is not None:
            return found
        reason = problem.partition("\n")[0]
        if any(word in reason for word in _SIZE_WORDS):
            return too_large("constraint", f"is too complex ({reason})", field)
        return InvalidField(f"The constraint cannot be compiled: {reason}", field=field)


def compile_format(
    format: OutputFormat,
    tokenizer: Tokenizer,
    *,
    reply: ReplyFormat | None = None,
    thinking_open: bool = False,
    may_think: bool = False,
    limits: Limits | None = None,
) -> str:
    """The grammar text of a format alone, without a cache; see Compiler.compile."""
    constraint = Constraint(
        format=format, reply=reply or ReplyFormat(), thinking_open=thinking_open, may_think=may_think
    )
    return Compiler(tokenizer, limits).compile(constraint)


def _field_of(constraint: Constraint) -> str:
    if constraint.choice.forces and constraint.tools:
        return constraint.choice.field
    if constraint.format is not None:
        return constraint.format.field
    return constraint.tools[0].field if constraint.tools else "tools"
