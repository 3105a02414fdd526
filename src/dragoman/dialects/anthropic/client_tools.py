"""Tools that Anthropic defines and the client runs: what they are called by, and the input they take.

Their schemas are built into Anthropic's models and not sent with the request, so that any other model has to be told.
Names of commands and fields follow Anthropic's documentation of each tool. Runs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from dragoman.dialects.anthropic.schema import ToolParam

Schema = dict[str, Any]


class ClientTool(Struct, frozen=True):
    """What a model is told about a tool."""

    name: str
    description: str
    parameters: Schema


def client_tool(entry: ToolParam) -> ClientTool | None:
    """The tool a dated type stands for; None for one that runs at Anthropic or is not known."""
    family, _, version = (entry.type or "").rpartition("_")
    make = _FAMILIES.get(family)
    return make(entry, version) if make is not None and version.isdecimal() else None


def _bash(entry: ToolParam, version: str) -> ClientTool:
    properties = {
        "command": _string("The command to run. Required unless restart is true."),
        "restart": {"type": "boolean", "description": "Restart the shell instead of running a command."},
    }
    return ClientTool("bash", "Run commands in a shell that keeps its state between calls.", _object(properties))


def _text_editor(entry: ToolParam, version: str) -> ClientTool:
    recent = version >= "20250429"
    commands = ["view", "create", "str_replace", "insert", *(() if recent else ("undo_edit",))]
    inserted = "insert_text" if recent else "new_str"
    properties = {
        "command": _enum(commands, "What to do."),
        "path": _string("Absolute path of a file or directory."),
        "file_text": _string("The content of the file; for create."),
        "old_str": _string("The text to be replaced, which must occur once; for str_replace."),
        "new_str": _string("The text to put there; for str_replace."),
        "insert_line": _integer("Behind which line to insert, 0 for the beginning; for insert."),
        inserted: _string("The text to insert." if recent else "The text to put there; for str_replace and insert."),
        "view_range": _numbers(2, "First and last line to show, -1 for the end; for view."),
    }
    name = "str_replace_based_edit_tool" if recent else "str_replace_editor"
    return ClientTool(name, "View, create and edit text files.", _object(properties, "command", "path"))


def _computer(entry: ToolParam, version: str) -> ClientTool:
    actions = [*_ACTIONS]
    properties: Schema = {
        "coordinate": _numbers(2, "x and y in pixels; where the mouse shall be."),
        "text": _string("What to type, or the key or keys to press, such as ctrl+s."),
    }
    if version >= "20250124":
        actions += _LATER_ACTIONS
        properties |= {
            "start_coordinate": _numbers(2, "x and y in pixels; where a drag begins."),
            "scroll_direction": _enum(["up", "down", "left", "right"], "Where to scroll."),
            "scroll_amount": _integer("How many clicks of the wheel to scroll."),
            "duration": {"type": "number", "description": "Seconds to hold a key or to wait."},
        }
    if entry.enable_zoom:
        actions.append("zoom")
        properties["region"] = _numbers(4, "The part of the screen to look at: left, top, right, bottom.")
    width, height = entry.display_width_px, entry.display_height_px
    size = f" The screen is {width} pixels wide and {height} high." if width and height else ""
    told = f"Use the mouse and keyboard of a computer and take screenshots.{size}"
    parameters = _object({"action": _enum(actions, "What to do."), **properties}, "action")
    return ClientTool("computer", told, parameters)


def _memory(entry: ToolParam, version: str) -> ClientTool:
    commands = ["view", "create", "str_replace", "insert", "delete", "rename"]
    properties = {
        "command": _enum(commands, "What to do."),
        "path": _string("A path below /memories; for all commands but rename."),
        "view_range": _numbers(2, "First and last line to show; for view."),
        "file_text": _string("The content of the file; for create."),
        "old_str": _string("The text to be replaced; for str_replace."),
        "new_str": _string("The text to put there; for str_replace."),
        "insert_line": _integer("Behind which line to insert; for insert."),
        "insert_text": _string("The text to insert; for insert."),
        "old_path": _string("The path so far; for rename."),
        "new_path": _string("The new path; for rename."),
    }
    told = "Keep notes in files below /memories. Look there before a task, and write down what will matter later."
    return ClientTool("memory", told, _object(properties, "command"))


def _object(properties: Mapping[str, Any], *required: str) -> Schema:
    return {"type": "object", "properties": dict(properties), "required": list(required)}


def _string(description: str) -> Schema:
    return {"type": "string", "description": description}


def _integer(description: str) -> Schema:
    return {"type": "integer", "description": description}


def _enum(values: list[str], description: str) -> Schema:
    return {"type": "string", "enum": values, "description": description}


def _numbers(count: int, description: str) -> Schema:
    return {
        "type": "array",
        "items": {"type": "integer"},
        "minItems": count,
        "maxItems": count,
        "description": description,
    }


_ACTIONS = (
    "key",
    "type",
    "mouse_move",
    "left_click",
    "left_click_drag",
    "right_click",
    "middle_click",
    "double_click",
    "screenshot",
    "cursor_position",
)
_LATER_ACTIONS = ("left_mouse_down", "left_mouse_up", "scroll", "hold_key", "wait", "triple_click")
_FAMILIES: dict[str, Callable[[ToolParam, str], ClientTool]] = {
    "bash": _bash,
    "text_editor": _text_editor,
    "computer": _computer,
    "memory": _memory,
}
