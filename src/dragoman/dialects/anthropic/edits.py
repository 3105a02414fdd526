"""`context_management`: edits of the conversation that are wanted, and the report of those that were made."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from dragoman.core.edits import AppliedEdit, ContextEdit, ThinkingEdit, ToolUseEdit
from dragoman.core.errors import InvalidField, MissingField, UnsupportedField
from dragoman.dialects.anthropic.schema import Amount, ContextManagement, EditParam

CLEAR_THINKING = "clear_thinking_20251015"
CLEAR_TOOL_USES = "clear_tool_uses_20250919"

_OVER_TOKENS = 100_000
"""When calls are cleared unless the request says otherwise, as Anthropic documents it."""


class EditPlan(msgspec.Struct, frozen=True):
    """The edits to make, and whether thoughts of earlier turns that are not cleared stay in the prompt; None leaves
    that to the template."""

    edits: tuple[ContextEdit, ...] = ()
    keeps_thoughts: bool | None = None


class ThinkingCleared(msgspec.Struct, frozen=True, tag_field="type", tag=CLEAR_THINKING):
    """Thoughts were left out."""

    cleared_thinking_turns: int
    cleared_input_tokens: int


class ToolUsesCleared(msgspec.Struct, frozen=True, tag_field="type", tag=CLEAR_TOOL_USES):
    """Results were left out."""

    cleared_tool_uses: int
    cleared_input_tokens: int


class ContextReport(msgspec.Struct, frozen=True):
    """`context_management` of an answer."""

    applied_edits: list[ThinkingCleared | ToolUsesCleared]


def read_edits(wanted: ContextManagement | None) -> EditPlan:
    """The edits, in order. Raises InvalidRequest naming the wire path of what is wrong."""
    plan = EditPlan()
    seen: set[str] = set()
    for index, entry in enumerate(wanted.edits or () if wanted else ()):
        at = f"context_management.edits[{index}]"
        read = _EDITS.get(entry.type)
        if read is None:
            words = f"{at}.type: '{entry.type}' cannot be done here; {' and '.join(_EDITS)} can."
            raise UnsupportedField(words, field=f"{at}.type", remedy="Leave it out.")
        if entry.type in seen:
            raise InvalidField(f"{at}.type: '{entry.type}' is there twice.", field=f"{at}.type")
        if entry.type == CLEAR_THINKING and seen:
            raise InvalidField(f"{at}.type: '{CLEAR_THINKING}' must be the first edit.", field=f"{at}.type")
        seen.add(entry.type)
        more = read(entry, at)
        plan = EditPlan((*plan.edits, *more.edits), plan.keeps_thoughts or more.keeps_thoughts)
    return plan


def report(applied: tuple[AppliedEdit, ...]) -> ContextReport:
    """What was done, in this wire's words."""
    return ContextReport([_told(one) for one in applied])


def _told(applied: AppliedEdit) -> ThinkingCleared | ToolUsesCleared:
    kind = ThinkingCleared if isinstance(applied.edit, ThinkingEdit) else ToolUsesCleared
    return kind(applied.cleared, applied.tokens)


def _clear_thinking(entry: EditParam, at: str) -> EditPlan:
    """One turn keeps its thoughts unless the edit says otherwise."""
    keep = entry.keep
    if keep == "all" or (isinstance(keep, Amount) and keep.type == "all"):
        return EditPlan(keeps_thoughts=True)
    if isinstance(keep, str):
        raise InvalidField(f"{at}.keep: '{keep}' is not all.", field=f"{at}.keep")
    turns = 1 if keep is None else _amount(keep, "thinking_turns", 1, f"{at}.keep")
    return EditPlan((ThinkingEdit(turns),), keeps_thoughts=True)


def _clear_tool_uses(entry: EditParam, at: str) -> EditPlan:
    if isinstance(entry.keep, str):
        raise InvalidField(f"{at}.keep: an object is required.", field=f"{at}.keep")
    tokens, uses = _trigger(entry.trigger, f"{at}.trigger")
    inputs = entry.clear_tool_inputs
    edit = ToolUseEdit(
        keep=3 if entry.keep is None else _amount(entry.keep, "tool_uses", 0, f"{at}.keep"),
        over_tokens=tokens,
        over_uses=uses,
        at_least=0 if entry.clear_at_least is None else _tokens(entry.clear_at_least, f"{at}.clear_at_least"),
        exclude=tuple(entry.exclude_tools or ()),
        inputs=None if inputs is True else tuple(inputs or ()),
    )
    return EditPlan((edit,))


def _trigger(wanted: Amount | None, at: str) -> tuple[int | None, int | None]:
    if wanted is None:
        return _OVER_TOKENS, None
    if wanted.type == "tool_uses":
        return None, _amount(wanted, "tool_uses", 0, at)
    return _tokens(wanted, at), None


def _tokens(wanted: Amount, at: str) -> int:
    return _amount(wanted, "input_tokens", 0, at)


def _amount(wanted: Amount, kind: str, least: int, at: str) -> int:
    if wanted.type != kind:
        raise InvalidField(f"{at}.type: '{wanted.type}' is not {kind}.", field=f"{at}.type")
    if wanted.value is None:
        raise MissingField(f"{at}.value: the field is required.", field=f"{at}.value")
    if wanted.value < least:
        raise InvalidField(f"{at}.value: it must be at least {least}.", field=f"{at}.value")
    return wanted.value


_EDITS: dict[str, Callable[[EditParam, str], EditPlan]] = {
    CLEAR_THINKING: _clear_thinking,
    CLEAR_TOOL_USES: _clear_tool_uses,
}
