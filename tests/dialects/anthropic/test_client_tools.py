"""Tools that Anthropic defines and the client runs, judged by the official SDK's types."""

from __future__ import annotations

from typing import Any

import pytest
from anthropic.types.beta import BetaMemoryTool20250818Command
from jsonschema import Draft202012Validator
from pydantic import TypeAdapter

from dragoman.core.tools import Tool
from dragoman.dialects.anthropic.schema import ToolParam
from dragoman.dialects.anthropic.tools import read_tools

COMMAND: TypeAdapter[Any] = TypeAdapter(BetaMemoryTool20250818Command)


def tool_of(**fields: Any) -> Tool:
    [tool] = read_tools([ToolParam(**fields)], None).tools
    assert tool.parameters is not None
    Draft202012Validator.check_schema(tool.parameters)
    return tool


def takes(tool: Tool, value: dict[str, Any]) -> bool:
    schema = tool.parameters or {}
    return Draft202012Validator(schema).is_valid(value) and value.keys() <= schema["properties"].keys()


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        ("bash_20241022", "bash", {"command": "ls"}),
        ("bash_20250124", "bash", {"restart": True}),
        ("text_editor_20241022", "str_replace_editor", {"command": "undo_edit", "path": "/a"}),
        ("text_editor_20250124", "str_replace_editor", {"command": "insert", "path": "/a", "new_str": "x"}),
        (
            "text_editor_20250429",
            "str_replace_based_edit_tool",
            {"command": "view", "path": "/a", "view_range": [1, -1]},
        ),
        (
            "text_editor_20250728",
            "str_replace_based_edit_tool",
            {"command": "insert", "path": "/a", "insert_text": "x"},
        ),
        ("computer_20241022", "computer", {"action": "left_click", "coordinate": [1, 2]}),
        ("computer_20250124", "computer", {"action": "scroll", "scroll_direction": "up", "scroll_amount": 2}),
        ("computer_20251124", "computer", {"action": "wait", "duration": 1.5}),
        ("memory_20250818", "memory", {"command": "rename", "old_path": "/memories/a", "new_path": "/memories/b"}),
    ],
)
def test_the_model_is_told_what_they_take(kind: str, name: str, value: dict[str, Any]) -> None:
    tool = tool_of(type=kind, name=name)
    assert tool.name == name
    assert tool.description
    assert takes(tool, value)
    assert not takes(tool, {"command": 5, "action": "juggle"})


def test_an_older_computer_does_less_and_a_newer_one_looks_closer() -> None:
    assert not takes(tool_of(type="computer_20241022", name="computer"), {"action": "scroll"})
    zoom = {"action": "zoom", "region": [0, 0, 9, 9]}
    assert not takes(tool_of(type="computer_20251124", name="computer"), zoom)
    sized = tool_of(
        type="computer_20251124", name="computer", enable_zoom=True, display_width_px=1024, display_height_px=768
    )
    assert takes(sized, zoom)
    assert "1024 pixels wide and 768 high" in (sized.description or "")


def test_every_command_of_the_memory_tool_can_be_said() -> None:
    tool = tool_of(type="memory_20250818", name="memory")
    said = {"path": "/memories/a", "file_text": "x", "old_str": "x", "new_str": "y", "insert_line": 0}
    said |= {"insert_text": "x", "old_path": "/memories/a", "new_path": "/memories/b"}
    for command in ("view", "create", "str_replace", "insert", "delete", "rename"):
        assert takes(tool, {"command": command, **said})
        COMMAND.validate_python({"command": command, **said})


@pytest.mark.parametrize(
    "kind",
    [
        "web_search_20250305",
        "web_fetch_20250910",
        "code_execution_20250825",
        "tool_search_tool_regex_20251119",
        "mcp_toolset",
        "browser_toolset_20260801",
        "bash_latest",
        "something_new",
    ],
)
def test_tools_that_run_at_anthropic_are_ignored(kind: str) -> None:
    found = read_tools([ToolParam(type=kind, name="x")], None)
    assert (found.tools, found.ignored) == ((), ("tools[0]",))


def test_examples_stand_in_the_schema() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    tool = tool_of(name="x", input_schema=schema, input_examples=[{"a": 1}], strict=True)
    assert tool.parameters == {**schema, "examples": [{"a": 1}]}
    assert tool.strict
