"""Messages tools and tool choice -> core."""

from __future__ import annotations

from msgspec import Struct

from dragoman.core.errors import InvalidField, MissingField
from dragoman.core.tools import Tool, ToolChoice
from dragoman.dialects.anthropic.client_tools import client_tool
from dragoman.dialects.anthropic.schema import ToolChoiceParam, ToolParam


class ToolSetup(Struct, frozen=True):
    """What a request says about tools. `ignored` names entries that only Anthropic could run."""

    tools: tuple[Tool, ...]
    choice: ToolChoice
    parallel: bool
    ignored: tuple[str, ...]


def read_tools(entries: list[ToolParam] | None, choice: ToolChoiceParam | None) -> ToolSetup:
    """The tool setup. Raises InvalidRequest naming the wire path of what is wrong."""
    tools: dict[str, Tool] = {}
    ignored: list[str] = []
    for index, entry in enumerate(entries or ()):
        at = f"tools[{index}]"
        tool = _tool(entry, at)
        if tool is None:
            ignored.append(at)
        elif tool.name in tools:
            raise InvalidField(f"{at}.name: another tool is named '{tool.name}' too.", field=f"{at}.name")
        else:
            tools[tool.name] = tool
    parallel = choice is None or choice.disable_parallel_tool_use is not True
    return ToolSetup(tuple(tools.values()), _choice(choice, tools), parallel, tuple(ignored))


def _tool(entry: ToolParam, at: str) -> Tool | None:
    """None for a tool that runs at Anthropic."""
    field, strict = f"{at}.input_schema", entry.strict is True
    if entry.type not in (None, "custom"):
        known = client_tool(entry)
        if known is None:
            return None
        return Tool(entry.name or known.name, known.description, known.parameters, strict, field)
    if not entry.name:
        raise MissingField(f"{at}.name: the field is required.", field=f"{at}.name")
    if entry.input_schema is None:
        raise MissingField(f"{field}: the field is required.", field=field)
    schema = entry.input_schema
    if entry.input_examples:
        schema = {**schema, "examples": entry.input_examples}
    return Tool(entry.name, entry.description, schema, strict, field)


def _choice(wanted: ToolChoiceParam | None, tools: dict[str, Tool]) -> ToolChoice:
    if wanted is None or wanted.type == "auto":
        return ToolChoice("auto")
    if wanted.type == "none":
        return ToolChoice("none")
    if wanted.type not in ("any", "tool"):
        raise InvalidField(
            f"tool_choice.type: '{wanted.type}' is not one of auto, any, tool, none.", field="tool_choice.type"
        )
    if not tools:
        raise InvalidField("tool_choice: it is only allowed when tools are given.", field="tool_choice")
    if wanted.type == "any":
        return ToolChoice("required")
    if wanted.name is None:
        raise MissingField("tool_choice.name: the field is required.", field="tool_choice.name")
    if wanted.name not in tools:
        raise InvalidField(f"tool_choice.name: no tool is named '{wanted.name}'.", field="tool_choice.name")
    return ToolChoice("named", (wanted.name,))
