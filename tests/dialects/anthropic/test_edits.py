"""`context_management` as it is read and reported."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.core.edits import AppliedEdit, ContextEdit, ThinkingEdit, ToolUseEdit
from dragoman.core.errors import InvalidRequest
from dragoman.dialects.anthropic.edits import CLEAR_THINKING, CLEAR_TOOL_USES, read_edits, report
from dragoman.dialects.anthropic.schema import ContextManagement
from dragoman.dialects.decoding import convert

TURNS = {"type": "thinking_turns", "value": 2}


def read(*edits: dict[str, Any]):
    return read_edits(convert({"edits": list(edits)}, ContextManagement, "context_management"))


def uses(value: int, kind: str = "tool_uses") -> dict[str, Any]:
    return {"type": kind, "value": value}


@pytest.mark.parametrize("keep", ["all", {"type": "all"}])
def test_all_thoughts_kept_is_no_edit(keep: Any) -> None:
    plan = read({"type": CLEAR_THINKING, "keep": keep})
    assert (plan.edits, plan.keeps_thoughts) == ((), True)


@pytest.mark.parametrize(
    ("fields", "edit"),
    [
        ({"type": CLEAR_THINKING}, ThinkingEdit(1)),
        ({"type": CLEAR_THINKING, "keep": TURNS}, ThinkingEdit(2)),
        ({"type": CLEAR_TOOL_USES}, ToolUseEdit(keep=3, over_tokens=100_000)),
        ({"type": CLEAR_TOOL_USES, "keep": uses(0)}, ToolUseEdit(keep=0, over_tokens=100_000)),
        ({"type": CLEAR_TOOL_USES, "trigger": uses(5)}, ToolUseEdit(over_uses=5)),
        (
            {
                "type": CLEAR_TOOL_USES,
                "trigger": uses(7, "input_tokens"),
                "clear_at_least": uses(9, "input_tokens"),
                "exclude_tools": ["look"],
                "clear_tool_inputs": ["save"],
            },
            ToolUseEdit(over_tokens=7, at_least=9, exclude=("look",), inputs=("save",)),
        ),
        ({"type": CLEAR_TOOL_USES, "clear_tool_inputs": True}, ToolUseEdit(over_tokens=100_000, inputs=None)),
        ({"type": CLEAR_TOOL_USES, "clear_tool_inputs": False}, ToolUseEdit(over_tokens=100_000)),
    ],
)
def test_edits(fields: dict[str, Any], edit: ContextEdit) -> None:
    assert read(fields).edits == (edit,)


def test_both_in_order() -> None:
    plan = read({"type": CLEAR_THINKING, "keep": TURNS}, {"type": CLEAR_TOOL_USES, "trigger": uses(1)})
    assert plan.edits == (ThinkingEdit(2), ToolUseEdit(over_uses=1))
    assert plan.keeps_thoughts


@pytest.mark.parametrize(
    ("edits", "field"),
    [
        ([{"type": "compact_20260112"}], "[0].type"),
        ([{"type": "clear_everything"}], "[0].type"),
        ([{"type": CLEAR_TOOL_USES}, {"type": CLEAR_THINKING}], "[1].type"),
        ([{"type": CLEAR_TOOL_USES}, {"type": CLEAR_TOOL_USES}], "[1].type"),
        ([{"type": CLEAR_THINKING, "keep": "some"}], "[0].keep"),
        ([{"type": CLEAR_THINKING, "keep": uses(1)}], "[0].keep.type"),
        ([{"type": CLEAR_THINKING, "keep": {"type": "thinking_turns"}}], "[0].keep.value"),
        ([{"type": CLEAR_THINKING, "keep": {"type": "thinking_turns", "value": 0}}], "[0].keep.value"),
        ([{"type": CLEAR_TOOL_USES, "keep": "all"}], "[0].keep"),
        ([{"type": CLEAR_TOOL_USES, "keep": uses(-1)}], "[0].keep.value"),
        ([{"type": CLEAR_TOOL_USES, "trigger": uses(1, "moons")}], "[0].trigger.type"),
        ([{"type": CLEAR_TOOL_USES, "clear_at_least": uses(1)}], "[0].clear_at_least.type"),
        ([{"type": CLEAR_TOOL_USES, "exclude_tools": "look"}], "[0].exclude_tools"),
    ],
)
def test_refusals_name_the_path(edits: list[dict[str, Any]], field: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read(*edits)
    assert caught.value.field == f"context_management.edits{field}"
    assert field in caught.value.message


def test_nothing_asked_for() -> None:
    assert read_edits(None) == read_edits(ContextManagement())
    assert read_edits(None).keeps_thoughts is None


def test_report() -> None:
    found = report((AppliedEdit(ThinkingEdit(1), 2, 30), AppliedEdit(ToolUseEdit(over_uses=1), 3, 40)))
    first, second = found.applied_edits
    assert (first.cleared_input_tokens, second.cleared_input_tokens) == (30, 40)
    assert (type(first).__struct_config__.tag, type(second).__struct_config__.tag) == (CLEAR_THINKING, CLEAR_TOOL_USES)
