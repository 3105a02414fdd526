"""Everything that binds one answer as one grammar text: thoughts first, then the text's format, the calls, or either.
Compiles nothing by itself."""

from __future__ import annotations

from dragoman.core.constraint import Constraint
from dragoman.core.errors import InvalidField, InvalidRequest
from dragoman.core.tools import Tool
from dragoman.core.vocabulary import Vocabulary
from dragoman.grammar import lark
from dragoman.grammar.calls import Calls
from dragoman.grammar.json_text import JsonRules, Try
from dragoman.grammar.lark import Rules
from dragoman.grammar.limits import Limits
from dragoman.grammar.sources import Sources
from dragoman.grammar.spelling import FREE, Speller
from dragoman.grammar.triggers import lazy
from dragoman.output.families.family import CallForm
from dragoman.output.families.table import family_named

_GENERIC = "hermes"
"""The form our own instructions ask models for whose family is not known."""

_BLANK_LINES = '("\\n\\n" | "\\n")?'


class Composition:
    """The text for one constraint; `blame` finds whose fault it is when the text does not compile."""

    def __init__(
        self, constraint: Constraint, speller: Speller, vocabulary: Vocabulary, limits: Limits, attempt: Try
    ) -> None:
        self._constraint = constraint
        self._speller = speller
        self._vocabulary = vocabulary
        self._limits = limits
        self._attempt = attempt
        self._rules = Rules()
        self._json = JsonRules(self._rules, limits)
        self._sources = Sources(self._rules, self._json, speller, limits, attempt)
        self._form = _form_of(constraint.reply.tool_family)
        self.text = self._rules.text(self._start())

    def blame(self, attempt: Try) -> InvalidRequest | None:
        """The refusal of the schema at fault, None where it is none's."""
        return self._json.blame(attempt)

    def _start(self) -> str:
        body = self._body()
        reply = self._constraint.reply
        if self._constraint.thinking_open and reply.think_close:
            return lark.sequence([self._thought(), body])
        if self._constraint.may_think and reply.think_open and reply.think_close:
            opened = lark.sequence([self._speller.literal(reply.think_open), self._thought()])
            return lark.sequence([f"({opened})?", body])
        return body

    def _thought(self) -> str:
        """The rest of a thought, its closing tag, and what may stand between that and the answer."""
        closed = self._speller.until(self._rules, "thought", self._constraint.reply.think_close)
        between = self._speller.literal(self._form.after_thought) if self._form.after_thought else _BLANK_LINES
        return lark.sequence([closed, between])

    def _body(self) -> str:
        constraint = self._constraint
        tools = _callable(constraint)
        if constraint.choice.forces and constraint.tools:
            return self._calls(tools).block(parallel=constraint.parallel, most=self._limits.calls)
        if constraint.format is None:
            if not tools:
                return self._rules.add("FREE", FREE)
            return self._text_or_calls(tools)
        answer = self._in_text(self._format())
        if not tools or constraint.format.triggers:
            return answer
        return lark.choice([answer, self._calls(tools).block(parallel=constraint.parallel)])

    def _text_or_calls(self, tools: tuple[Tool, ...]) -> str:
        """Free text that may turn into calls; where a family puts marks around text, one or the other."""
        calls = self._calls(tools)
        parallel = self._constraint.parallel
        form = self._form
        if not self._constraint.reply.tool_family or not form.text_open:
            return calls.among_text(parallel=parallel)
        text = lark.sequence(
            [self._speller.literal(form.text_open), self._speller.text_until(self._rules, form.text_close)]
        )
        return lark.choice([calls.block(parallel=parallel), text])

    def _format(self) -> str:
        format = self._constraint.format
        if format is None:
            return ""
        if format.triggers:
            return lazy(format, self._rules, self._sources, self._speller, self._vocabulary, self._limits)
        return self._sources.answer(format)

    def _in_text(self, answer: str) -> str:
        """Plain text in the family's own marks."""
        form = self._form if self._constraint.reply.tool_family else None
        if form is None or not form.text_open:
            return answer
        return lark.sequence([self._speller.literal(form.text_open), answer, self._speller.closing(form.text_close)])

    def _calls(self, tools: tuple[Tool, ...]) -> Calls:
        return Calls(self._form, tools, self._rules, self._json, self._speller, self._limits, self._attempt)


def _callable(constraint: Constraint) -> tuple[Tool, ...]:
    """The tools that may be called: all, or those that were named."""
    choice = constraint.choice
    if choice.mode == "none":
        return ()
    if choice.mode != "named" or not choice.names:
        return constraint.tools
    known = {tool.name for tool in constraint.tools}
    for name in choice.names:
        if name not in known:
            raise InvalidField(f"The tool '{name}' is to be called, but is not among the tools.", field=choice.field)
    return tuple(tool for tool in constraint.tools if tool.name in choice.names)


def _form_of(family: str) -> CallForm:
    row = family_named(family or _GENERIC)
    if row is None:
        raise ValueError("there is no generic family")
    return row.form
