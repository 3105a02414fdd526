"""What a request was promised of its answer, checked when the answer is over. Knows no engine and no wire.

A grammar keeps most promises while decoding; this is for answers no grammar could bind, and for faults on the way. An
answer that a limit, a full window or a stop string cut broke nothing: its finish says that it is not complete.
"""

from __future__ import annotations

import msgspec

from dragoman.core.answer import AnswerPart
from dragoman.core.constraint import Constraint
from dragoman.core.errors import ContractBroken
from dragoman.core.events import Event, Failed, Finished, PartDelta, PartStart
from dragoman.core.finish import FinishReason
from dragoman.core.request import OutputFormat
from dragoman.core.tools import Tool
from dragoman.service.compiler import GrammarCompiler

_COMPLETE = (FinishReason.EOS, FinishReason.TOOL_CALLS)


class Contract:
    """Promises of one request. `bound` tells that a grammar held the engine to them, so that the form of what was
    written need not be looked at again."""

    def __init__(self, constraint: Constraint, compiler: GrammarCompiler | None, *, bound: bool) -> None:
        self._choice = constraint.choice if constraint.tools else None
        self._format = constraint.format if constraint.format is not None and constraint.format.strict else None
        self._strict = {tool.name: tool for tool in constraint.tools if tool.strict}
        self._texts = {tool.name: tool for tool in constraint.tools if tool.text_grammar}
        self._judge = compiler
        self._compiler = None if bound else compiler

    @property
    def empty(self) -> bool:
        """Whether nothing was promised."""
        promised = self._format is not None or self._strict or self._texts
        return not promised and not (self._choice is not None and self._choice.forces)

    def breach(self, parts: list[AnswerPart]) -> ContractBroken | None:
        """What is wrong with a complete answer, None when all is well."""
        calls = [part for part in parts if part.kind == "tool_call"]
        return self._forced(calls) or self._called(calls) or self._written(calls) or self._formed(parts, calls)

    def _forced(self, calls: list[AnswerPart]) -> ContractBroken | None:
        choice = self._choice
        if choice is None or not choice.forces:
            return None
        if not calls:
            return _broken("The model answered without the tool call that was required.", choice.field)
        stray = [call.name for call in calls if choice.names and call.name not in choice.names]
        if stray:
            return _broken(f"The model called '{stray[0]}', which was not the tool asked for.", choice.field)
        return None

    def _called(self, calls: list[AnswerPart]) -> ContractBroken | None:
        for call in calls:
            tool = self._strict.get(call.name)
            if tool is not None and not self._fits(_schema_of(tool), call.text):
                return _broken(f"The model called '{tool.name}' with arguments that break its schema.", tool.field)
        return None

    def _written(self, calls: list[AnswerPart]) -> ContractBroken | None:
        """Texts that no engine was held to: their grammar is one of the text, not of its spelling in JSON."""
        for call in calls:
            tool = self._texts.get(call.name)
            if tool is None or self._judge is None:
                continue
            form = OutputFormat("lark", tool.text_grammar, tool.field)
            if not self._judge.accepts(form, _input_of(call.text)):
                return _broken(f"The model called '{tool.name}' with a text that breaks its grammar.", tool.field)
        return None

    def _formed(self, parts: list[AnswerPart], calls: list[AnswerPart]) -> ContractBroken | None:
        if self._format is None or calls:
            return None
        text = "".join(part.text for part in parts if part.kind == "text")
        if self._fits(self._format, text):
            return None
        return _broken("The model's answer is not of the form that was asked for.", self._format.field)

    def _fits(self, format: OutputFormat, text: str) -> bool:
        if format.kind in ("json", "json_schema") and not _is_json(text):
            return False
        return self._compiler is None or self._compiler.accepts(format, text)


class ContractWatch:
    """Collects one choice's parts from its events and gives the verdict at its end."""

    def __init__(self, contract: Contract) -> None:
        self._contract = contract
        self._parts: list[tuple[PartStart, list[str]]] = []

    def note(self, events: list[Event]) -> bool:
        """Take in the next events. Whether the answer is complete, so that `verdict` has something to say."""
        for event in events:
            if isinstance(event, PartStart):
                self._parts.append((event, []))
            elif isinstance(event, PartDelta) and event.text:
                self._parts[event.index][1].append(event.text)
        last = events[-1] if events else None
        return isinstance(last, Finished) and last.finish.reason in _COMPLETE

    def verdict(self, events: list[Event]) -> list[Event]:
        """The last events, with Failed in the place of Finished when the contract is broken."""
        parts = [
            AnswerPart(kind=start.kind, text="".join(texts), id=start.id, name=start.name)
            for start, texts in self._parts
        ]
        breach = self._contract.breach(parts)
        return events if breach is None else [*events[:-1], Failed(events[-1].choice, breach)]


def _schema_of(tool: Tool) -> OutputFormat:
    return OutputFormat("json_schema", msgspec.json.encode(tool.parameters or {"type": "object"}).decode(), tool.field)


def _input_of(arguments: str) -> str:
    try:
        value = msgspec.json.decode(arguments)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return arguments
    text = value.get("input") if isinstance(value, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return text if isinstance(text, str) else arguments


def _is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False
    return True


def _broken(message: str, field: str) -> ContractBroken:
    return ContractBroken(message, field=field, remedy="Ask again.")
