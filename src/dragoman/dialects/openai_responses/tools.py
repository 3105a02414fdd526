"""Tool definitions and tool choices of Responses -> core. Runs no tool."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from dragoman.core.errors import InvalidField, MissingField, UnsupportedField
from dragoman.core.tools import Tool, ToolChoice
from dragoman.dialects.decoding import convert
from dragoman.dialects.openai_responses.names import INPUT, ToolName, core_name
from dragoman.dialects.openai_responses.schema import (
    ChosenTool,
    CustomFormat,
    CustomTool,
    FunctionTool,
    InputFields,
    NamespaceTool,
    ToolChoiceObject,
)

_CALLABLE = ("function", "custom")
_WORDS = ("auto", "none", "required")


class ToolSetup(Struct, frozen=True, kw_only=True):
    """What a request says about tools. `names` tells what a core tool is on the wire; `hosted` lists entries of `tools`
    that only a hosted service could run."""

    tools: tuple[Tool, ...] = ()
    choice: ToolChoice = ToolChoice()
    parallel: bool = True
    names: dict[str, ToolName] = {}
    hosted: tuple[str, ...] = ()


def read_tools(body: InputFields) -> ToolSetup:
    """The tool setup. Raises InvalidRequest naming the wire path of what is wrong."""
    found = _Definitions()
    for index, entry in enumerate(body.tools or ()):
        found.add(entry, f"tools[{index}]", None)
    choice, tools = _choice(body.tool_choice, tuple(found.tools), found)
    return ToolSetup(
        tools=tools,
        choice=choice,
        parallel=body.parallel_tool_calls is not False,
        names=found.names,
        hosted=tuple(found.hosted),
    )


class _Definitions:
    """Collects tools, flattening namespaces."""

    def __init__(self) -> None:
        self.tools: list[Tool] = []
        self.names: dict[str, ToolName] = {}
        self.hosted: list[str] = []

    def add(self, entry: dict[str, Any], at: str, namespace: NamespaceTool | None) -> None:
        kind = entry.get("type", "function")
        if kind == "function":
            self._function(convert(entry, FunctionTool, at), at, namespace)
        elif kind == "custom":
            self._custom(convert(entry, CustomTool, at), at, namespace)
        elif kind == "namespace" and namespace is None:
            self._namespace(convert(entry, NamespaceTool, at), at)
        elif isinstance(kind, str) and kind:
            self.hosted.append(f"{at}.{kind}")
        else:
            raise InvalidField(f"Invalid '{at}.type': it must be a string.", field=f"{at}.type")

    def _namespace(self, space: NamespaceTool, at: str) -> None:
        if not space.name or "." in space.name:
            raise InvalidField(f"Invalid '{at}.name': a namespace has a name without a dot.", field=f"{at}.name")
        for index, entry in enumerate(space.tools):
            self.add(entry, f"{at}.tools[{index}]", space)

    def _function(self, tool: FunctionTool, at: str, space: NamespaceTool | None) -> None:
        name = self._name(ToolName("function", tool.name, space.name if space else None), at)
        strict = tool.strict is True
        self.tools.append(Tool(name, tool.description, tool.parameters, strict, f"{at}.parameters"))

    def _custom(self, tool: CustomTool, at: str, space: NamespaceTool | None) -> None:
        name = self._name(ToolName("custom", tool.name, space.name if space else None), at)
        description, text = _described(tool, at)
        format = tool.format or CustomFormat()
        lark = format.definition or "" if format.syntax == "lark" else ""
        parameters: dict[str, Any] = {
            "type": "object",
            "properties": {INPUT: text},
            "required": [INPUT],
            "additionalProperties": False,
        }
        self.tools.append(Tool(name, description, parameters, "pattern" in text, f"{at}.format", lark))

    def _name(self, name: ToolName, at: str) -> str:
        flat = core_name(name.name, name.namespace)
        if not name.name:
            raise InvalidField(f"Invalid '{at}.name': it is empty.", field=f"{at}.name")
        if flat in self.names:
            raise InvalidField(f"Invalid '{at}.name': there are two tools named '{flat}'.", field=f"{at}.name")
        self.names[flat] = name
        return flat


def _described(tool: CustomTool, at: str) -> tuple[str | None, dict[str, Any]]:
    """The description, with the grammar where there is one, and the schema of the text."""
    format = tool.format or CustomFormat()
    text: dict[str, Any] = {"type": "string"}
    if format.type == "text":
        return tool.description, text
    if format.type != "grammar":
        raise InvalidField(
            f"Invalid '{at}.format.type': '{format.type}' is neither text nor grammar.", field=f"{at}.format.type"
        )
    if format.syntax not in ("lark", "regex"):
        raise InvalidField(f"Invalid '{at}.format.syntax': it is neither lark nor regex.", field=f"{at}.format.syntax")
    if not format.definition:
        raise MissingField(f"The field '{at}.format.definition' is required.", field=f"{at}.format.definition")
    if format.syntax == "regex":
        # A pattern of the schema, so the engine is held to it, or the call is looked at when it is complete.
        text["pattern"] = f"^(?:{format.definition})$"
    told = f"The {INPUT} is a text of this {format.syntax} grammar:\n{format.definition}"
    return "\n\n".join(piece for piece in (tool.description, told) if piece), text


def _choice(
    wanted: str | dict[str, Any] | None, tools: tuple[Tool, ...], found: _Definitions
) -> tuple[ToolChoice, tuple[Tool, ...]]:
    """The choice, and the tools it leaves callable."""
    if wanted is None:
        return ToolChoice(), tools
    if isinstance(wanted, str):
        return _word(wanted, tools), tools
    chosen = convert(wanted, ToolChoiceObject, "tool_choice")
    if chosen.type in _WORDS:
        return _word(chosen.type, tools), tools
    if chosen.type == "allowed_tools":
        return _allowed(chosen, tools, found)
    if chosen.type not in _CALLABLE:
        raise UnsupportedField(
            f"The hosted tool '{chosen.type}' cannot be run by this server.", field="tool_choice", remedy="Use 'auto'."
        )
    return ToolChoice("named", (_known(chosen, "tool_choice", found),)), tools


def _word(wanted: str, tools: tuple[Tool, ...]) -> ToolChoice:
    if wanted == "required":
        if not tools:
            raise InvalidField(
                "Invalid 'tool_choice': a call is required, but there is no tool the model can call here.",
                field="tool_choice",
            )
        return ToolChoice("required")
    if wanted not in _WORDS:
        raise InvalidField(
            f"Invalid 'tool_choice': '{wanted}' is not one of none, auto, required.", field="tool_choice"
        )
    return ToolChoice("none" if wanted == "none" else "auto")


def _allowed(
    chosen: ToolChoiceObject, tools: tuple[Tool, ...], found: _Definitions
) -> tuple[ToolChoice, tuple[Tool, ...]]:
    if chosen.mode not in ("auto", "required"):
        raise InvalidField(
            f"Invalid 'tool_choice.mode': '{chosen.mode}' is neither auto nor required.", field="tool_choice.mode"
        )
    names: list[str] = []
    for index, entry in enumerate(chosen.tools or ()):
        at = f"tool_choice.tools[{index}]"
        one = convert(entry, ChosenTool, at)
        if one.type in _CALLABLE:
            names.append(_known(one, at, found))
    if chosen.mode == "required":
        if not names:
            raise InvalidField(
                "Invalid 'tool_choice.tools': none of them can be called here.", field="tool_choice.tools"
            )
        return ToolChoice("named", tuple(names)), tools
    return ToolChoice("auto" if names else "none"), tuple(tool for tool in tools if tool.name in names)


def _known(chosen: ChosenTool, at: str, found: _Definitions) -> str:
    if chosen.name is None:
        raise MissingField(f"The field '{at}.name' is required.", field=f"{at}.name")
    flat = core_name(chosen.name, chosen.namespace)
    name = found.names.get(flat)
    if name is None or name.kind != chosen.type:
        raise InvalidField(f"Invalid '{at}.name': no {chosen.type} tool is named '{flat}'.", field=f"{at}.name")
    return flat
