"""Tool calls in a family's canonical form, as grammar expressions. Knows no format of the text beside them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from dragoman.core.errors import InvalidField
from dragoman.core.tools import Tool
from dragoman.grammar import lark
from dragoman.grammar.escaped_lark import escaped_grammar
from dragoman.grammar.json_text import JsonRules, Try
from dragoman.grammar.keywords import SHAPING
from dragoman.grammar.lark import Rules
from dragoman.grammar.lark_guard import guard
from dragoman.grammar.limits import Limits
from dragoman.grammar.schema import NormalSchema, normalised
from dragoman.grammar.spelling import FREE, Speller
from dragoman.grammar.values import Arguments
from dragoman.output.families.family import CallForm, JsonArguments

_INDEX = "/[1-9][0-9]?/"


class Calls:
    """Writes the calls of some tools into the rules of one answer."""

    def __init__(
        self,
        form: CallForm,
        tools: Sequence[Tool],
        rules: Rules,
        json_rules: JsonRules,
        speller: Speller,
        limits: Limits,
        attempt: Try,
    ) -> None:
        self._attempt = attempt
        self._form = form
        self._tools = tools
        self._rules = rules
        self._json_rules = json_rules
        self._speller = speller
        self._limits = limits
        self._arguments = Arguments(form.arguments, rules, json_rules, speller)

    def block(self, *, parallel: bool, most: int | None = None) -> str:
        """One call at least, and what stands around the calls. Where `parallel`, there may be `most` of them."""
        return lark.sequence([self._speller.literal(self._form.opener), self._tail("", parallel=parallel, most=most)])

    def among_text(self, *, parallel: bool) -> str:
        """Free text that becomes a block as soon as its first marker is written; without it, text to the end."""
        free = self._rules.add("FREE", FREE)
        if self._form.bare:
            return self._bare(parallel=parallel)
        marker = self._marker()
        begun = self._speller.until(self._rules, "before_call", marker)
        block = lark.sequence([begun, self._tail(marker, parallel=parallel)])
        return f"({block} | {free})"

    def _bare(self, *, parallel: bool) -> str:
        """Calls without a marker count as the first thing of an answer, so text must begin with something else."""
        start = (self._form.opener + self._form.call_open)[:1] or self._form.opener[:1]
        other = self._rules.add("OTHER", f"/[^{lark.escaped(start)}](?s:.*)/")
        return f"({self.block(parallel=parallel)} | {other})?"

    def _marker(self) -> str:
        """The part of the first literal that shows that a call begins: the whole opener, or the call's up to its first
        line break or quote. What else the literal has may then be written by force."""
        literal = self._form.opener or self._form.call_open
        pieces = self._speller.pieces(literal)
        if pieces and isinstance(pieces[0], int):
            return self._text_of_first(literal)
        ends = [at for at in (literal.find("\n"), literal.find('{"')) if at > 0]
        marker = literal[: min(ends)] if ends else literal
        return marker.rstrip() or literal

    def _text_of_first(self, literal: str) -> str:
        """The text of the special token the literal begins with."""
        rest = self._speller.pieces(literal)[1:]
        behind = next((piece for piece in rest if isinstance(piece, str)), None)
        end = len(literal)
        for length in range(1, len(literal) + 1):
            if self._speller.id_of(literal[:length]) is not None:
                end = length
                break
        return literal[:end] if behind is not None or rest else literal

    def _tail(self, written: str, *, parallel: bool, most: int | None = None) -> str:
        """Calls and closer, when `written` of the first literal is there already."""
        opener = self._form.opener
        first_open = self._form.call_open
        if opener:
            head = self._speller.literal(opener[len(written) :]) if written else ""
        else:
            head, first_open = "", first_open[len(written) :]
        first = self._call(first_open, first=True)
        more = ""
        if parallel:
            # One literal with what follows, because literals are matched greedily and the closer may begin alike.
            again = self._call(self._form.separator + self._form.call_open, first=False)
            more = f"({again})*" if most is None else f"({again}){{0,{most - 1}}}"
        return lark.sequence([head, first, more, self._speller.closing(self._form.closer)])

    def _call(self, call_open: str, *, first: bool) -> str:
        return self._rules.add("call", lark.choice([self._named(tool, call_open, first=first) for tool in self._tools]))

    def _named(self, tool: Tool, call_open: str, *, first: bool) -> str:
        form = self._form
        name = self._name(tool)
        index = '"0"' if first else _INDEX
        if form.number_close:
            head = [self._speller.literal(call_open), index, self._speller.literal(form.number_close + name)]
            head.append(self._speller.literal(form.name_close))
        elif form.numbered:
            head = [self._speller.literal(call_open + name + form.numbered), index]
            head.append(self._speller.literal(form.name_close))
        else:
            head = [self._speller.literal(call_open + name + form.name_close)]
        written = self._text(tool) or self._arguments.of(self._schema(tool), tool.field) or '""'
        arguments = self._rules.add("arguments", written)
        close = self._speller.literal if form.closer else self._speller.closing
        return lark.sequence([*head, arguments, close(form.call_close)])

    def _name(self, tool: Tool) -> str:
        """Inside a JSON call the name is a JSON string."""
        is_json = isinstance(self._form.arguments, JsonArguments) and self._form.call_open.endswith('"')
        return lark.literal(tool.name)[1:-1] if is_json else tool.name

    def _text(self, tool: Tool) -> str:
        """The one argument of a tool that takes a text of a grammar of its own. '' where that cannot be masked, because
        the family does not write JSON or JSON's spelling has no grammar; the finished call is looked at instead."""
        names = list((tool.parameters or {}).get("properties", {}))
        if not tool.text_grammar or len(names) != 1 or not isinstance(self._form.arguments, JsonArguments):
            return ""
        try:
            guard(tool.text_grammar, tool.field, self._limits)
        except InvalidField:
            return ""
        inner = escaped_grammar(lark.headless(tool.text_grammar))
        if inner is None or self._attempt(lark.HEADER + inner):
            return ""
        nested = self._rules.add("text", lark.nested(inner))
        return lark.sequence([lark.literal(f'{{{lark.literal(names[0])}: "'), nested, lark.literal('"}')])

    def _schema(self, tool: Tool) -> NormalSchema:
        given: Any = tool.parameters or {"type": "object"}
        normal = normalised(given, tool.field, self._limits)
        if SHAPING.isdisjoint(normal.schema):
            return msgspec.structs.replace(normal, schema={"type": "object", **normal.schema})
        return normal
