"""Leaves the last assistant turn open so that the model continues it. Knows no token id."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from dragoman.core.errors import InvalidField, InvalidRequest
from dragoman.prompt.turns import Turn

_MARK = "\ue0d9open-turn\ue0da"

Render = Callable[[Sequence[Turn], bool], str]


def open_turn(turns: Sequence[Turn]) -> Turn:
    """The assistant turn to be continued. Raises InvalidField when there is none, or it ends in a tool call."""
    if not turns or turns[-1].role != "assistant":
        raise InvalidField("Only an assistant message can be continued, and the last message is not one.", field=_LAST)
    if turns[-1].calls:
        raise InvalidField("The last message holds tool calls, so it cannot be continued.", field=_LAST)
    return turns[-1]


_LAST = "messages"


def render_open(turns: Sequence[Turn], render: Render) -> str:
    """The prompt up to and including the text of the last turn, without what the template writes after it.

    `render(turns, add_generation_prompt)` renders. A mark at the end of the text shows where it ends; where the
    template loses the mark or refuses such an end, the text follows the primer of a new answer instead.
    """
    last = open_turn(turns)
    mark = _unused_mark(turns)
    marked = msgspec.structs.replace(last, texts=(last.text + mark,))
    try:
        before, found, _ = render([*turns[:-1], marked], False).rpartition(mark)
    except InvalidRequest:
        found, before = "", ""
    if found:
        return before
    return render(turns[:-1], True) + last.text


def _unused_mark(turns: Sequence[Turn]) -> str:
    mark = _MARK
    while any(mark in turn.text for turn in turns):
        mark += "\ue0da"
    return mark
