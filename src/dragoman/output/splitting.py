"""Which splitter reads the answers of a format. Knows no stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from dragoman.core.prompt import ReplyFormat
from dragoman.core.tools import Tool
from dragoman.output.argument_types import ArgumentTypes
from dragoman.output.channel_splitter import ChannelSplitter
from dragoman.output.families.family import HeadedCalls
from dragoman.output.families.table import family_named
from dragoman.output.segments import Segment
from dragoman.output.splitter import Splitter


class AnswerSplitter(Protocol):
    """Makes segments of one answer's text; see Splitter."""

    plain: bool
    thinking: bool
    repairs: list[str]

    def feed(self, text: str) -> list[Segment]:
        """The pieces that are certain by now."""
        ...

    def flush(self, *, cut: bool) -> list[Segment]:
        """The end of the answer; `cut` when a limit ended it."""
        ...


def open_splitter(
    format: ReplyFormat, tools: Sequence[Tool] = (), *, thinking_open: bool = False, prefill: str = ""
) -> AnswerSplitter:
    """The splitter for one answer. Raises ValueError for a family the table does not have."""
    family = family_named(format.tool_family)
    if family is None or family.channels is None or not isinstance(family.calls, HeadedCalls):
        return Splitter(format, tools=tools, thinking_open=thinking_open, prefill=prefill)
    types = {tool.name: ArgumentTypes(tool.parameters) for tool in tools}
    return ChannelSplitter(family.channels, family.calls, types, thinking_open=thinking_open, prefill=prefill)


def thoughts_in_text(format: ReplyFormat) -> ReplyFormat | None:
    """The format of answers whose thoughts are left in the text; None where a thought is a message of its own, which
    has no place in a text."""
    family = family_named(format.tool_family)
    if family is not None and family.channels is not None:
        return None
    return ReplyFormat(tool_family=format.tool_family)


def markers(format: ReplyFormat) -> tuple[str, ...]:
    """Spellings a splitter must see even where they are control tokens."""
    family = family_named(format.tool_family)
    own = family.terminals if family is not None else ()
    return tuple(text for text in (format.think_open, format.think_close, *own) if text)
