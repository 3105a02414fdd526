"""Constraints in words, for answers that no grammar holds to them (`--grammar-degrade`)."""

from __future__ import annotations

import msgspec

from dragoman.core.constraint import Constraint
from dragoman.core.messages import Message, TextPart
from dragoman.core.request import ChatInput, Input, OutputFormat

_ALONE = "and with nothing else: no words around it and no code fence."


def instructed(input: Input, constraint: Constraint) -> Input:
    """`input` with the constraint as its first system message. A prompt without a template has no place for one and
    stays as it is."""
    text = instruction(constraint)
    if not isinstance(input, ChatInput) or not text:
        return input
    return msgspec.structs.replace(input, messages=(Message("system", (TextPart(text),)), *input.messages))


def instruction(constraint: Constraint) -> str:
    """The words; '' where there is nothing to say."""
    choice = constraint.choice
    if choice.forces and constraint.tools:
        names = choice.names or tuple(tool.name for tool in constraint.tools)
        return f"In this reply you must call a function: {' or '.join(names)}."
    return "" if constraint.format is None else _format_words(constraint.format)


def _format_words(format: OutputFormat) -> str:
    match format.kind:
        case "json":
            return f"Answer with one JSON object {_ALONE}"
        case "json_schema":
            return f"Answer with JSON that is valid against this JSON Schema {_ALONE}\n{format.text}"
        case "regex":
            return f"Answer with a text that this regular expression matches {_ALONE}\n{format.text}"
        case "choice":
            return f"Answer with exactly one of the texts of this JSON list {_ALONE}\n{format.text}"
        case "gbnf" | "lark":
            when = " once one of its trigger texts appears" if format.triggers else ""
            return f"Answer with a text that follows this grammar{when}, {_ALONE}\n{format.text}"
