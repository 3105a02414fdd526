"""Binds an answer to its format and tool choice: compiles the grammar, or says why the engine will not be held to it.

Blocking; runs in a worker thread after the prompt is built, because a grammar begins where the prompt's thoughts end.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from dragoman.core.constraint import Constraint
from dragoman.core.errors import InvalidField, InvalidRequest, UnsupportedField
from dragoman.core.prompt import Prompt, ReplyFormat
from dragoman.core.request import ChatInput, Request
from dragoman.core.tools import Tool
from dragoman.service.compiler import GrammarCompiler

_JSON_KINDS = ("json", "json_schema")


class Binding(Struct, frozen=True, kw_only=True):
    """What was made of a request's constraint. `grammar` None leaves the engine free; `unenforced` then says why, where
    the operator lets such requests pass."""

    constraint: Constraint
    grammar: str | None = None
    unenforced: str = ""


def constraint_of(request: Request, reply: ReplyFormat, prompt: Prompt) -> Constraint:
    """What binds the answer to `request`, whose rendered prompt is `prompt`."""
    chat = request.input
    if not isinstance(chat, ChatInput):
        return Constraint(format=request.format)
    return Constraint(
        format=request.format,
        tools=() if chat.tool_choice.mode == "none" else chat.tools,
        choice=chat.tool_choice,
        # Who names one tool wants one call of it; a small model would go on calling.
        parallel=chat.parallel_tool_calls and len(chat.tool_choice.names) != 1,
        reply=reply,
        thinking_open=prompt.thinking_open,
        may_think=bool(reply.think_open) and chat.thinking.mode != "off",
    )


def bind(constraint: Constraint, compiler: GrammarCompiler | None, *, prefill: str = "", degrade: bool) -> Binding:
    """Compile `constraint`. `compiler` None means that the engine cannot mask. Raises InvalidRequest and its kin naming
    the field, unless `degrade` lets the answer go unbound."""
    if not constraint.binding:
        return Binding(constraint=constraint)
    _check_prefill(constraint, prefill)
    try:
        grammar = None if compiler is None else _compiled(constraint, compiler)
        if grammar is None:
            _refuse_unmasked(constraint)
    except InvalidRequest as refusal:
        if refusal.field and refusal.field not in refusal.message:
            # Not every wire has a place for the field beside the message.
            refusal.message = f"{refusal.field}: {refusal.message}"
        if not degrade:
            raise
        return Binding(constraint=constraint, unenforced=refusal.message)
    return Binding(constraint=constraint, grammar=grammar)


def _check_prefill(constraint: Constraint, prefill: str) -> None:
    format = constraint.format
    if format is not None and format.kind in _JSON_KINDS and prefill:
        raise InvalidField(
            f"The field '{format.field}' asks for JSON, but the answer is to continue a text.",
            field=format.field,
            remedy="Leave the last assistant message out.",
        )


def _compiled(constraint: Constraint, compiler: GrammarCompiler) -> str:
    """The grammar. Nobody was promised that the arguments of a tool that is not strict fit its schema, so a schema that
    cannot be compiled only loses its say there."""
    for _ in constraint.tools:
        try:
            return compiler.compile(constraint)
        except InvalidRequest as refusal:
            loosened = _loosened(constraint.tools, refusal.field or "")
            if loosened == constraint.tools:
                raise
            constraint = msgspec.structs.replace(constraint, tools=loosened)
    return compiler.compile(constraint)


def _loosened(tools: tuple[Tool, ...], field: str) -> tuple[Tool, ...]:
    return tuple(
        msgspec.structs.replace(tool, parameters=None)
        if not tool.strict and tool.parameters and _within(field, tool.field)
        else tool
        for tool in tools
    )


def _within(field: str, place: str) -> bool:
    return field == place or field.startswith((f"{place}.", f"{place}["))


def _refuse_unmasked(constraint: Constraint) -> None:
    """Strict tools alone pass: their calls are checked when they are complete."""
    if constraint.choice.forces and constraint.tools:
        raise UnsupportedField(
            "This engine cannot enforce a tool call.", field=constraint.choice.field, remedy="Use 'auto' or 'none'."
        )
    if constraint.format is not None:
        raise UnsupportedField(
            "Constrained output is not available on this engine.",
            field=constraint.format.field,
            remedy="Leave the field out, or start the server with --grammar-degrade.",
        )
