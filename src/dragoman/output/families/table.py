"""The table of tool families. `core.prompt.ReplyFormat.tool_family` names a row; adding a family adds a row."""

from __future__ import annotations

from dragoman.output.families.family import ToolFamily
from dragoman.output.families.head_rows import HEAD_ROWS
from dragoman.output.families.json_rows import JSON_ROWS
from dragoman.output.families.tag_rows import TAG_ROWS

FAMILIES = {row.name: row for row in (*JSON_ROWS, *TAG_ROWS, *HEAD_ROWS)}


def family_named(name: str) -> ToolFamily | None:
    """The row, None for ''. Raises ValueError for a name the table does not have."""
    if not name:
        return None
    if name not in FAMILIES:
        raise ValueError(f"There is no tool family '{name}'; the table has {', '.join(sorted(FAMILIES))}.")
    return FAMILIES[name]
