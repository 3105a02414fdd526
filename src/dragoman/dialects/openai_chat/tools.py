"""Tool definitions and tool choices of Chat Completions -> core, today's fields and the legacy `functions`."""

from __future__ import annotations

from msgspec import Struct

from dragoman.core.errors import InvalidField, InvalidRequest, MissingField, UnsupportedField
from dragoman.core.tools import Tool, ToolChoice
from dragoman.dialects.openai_chat.schema import (
    AllowedTools,
    ChatCompletionRequest,
    FunctionDefinition,
    FunctionName,
    NamedTool,
    ToolChoiceObject,
    ToolDefinition,
)


class ToolSetup(Struct, frozen=True, kw_only=True):
    """What a request says about tools. `legacy` asks for the answer's `function_call` instead of `tool_calls`;
    `ignored` names entries of `tools` that only a hosted service could run."""

    tools: tuple[Tool, ...] = ()
    choice: ToolChoice = ToolChoice()
    parallel: bool = True
    legacy: bool = False
    ignored: tuple[str, ...] = ()


def read_tools(body: ChatCompletionRequest) -> ToolSetup:
    """The tool setup. Raises InvalidRequest naming the wire path of what is wrong."""
    if body.functions is not None and not body.tools:
        return _legacy(body)
    if body.functions:
        raise InvalidRequest("The fields 'tools' and 'functions' exclude each other.", field="functions")
    tools, ignored = _definitions(body.tools or [])
    choice, tools = _choice(body.tool_choice, tools)
    return ToolSetup(tools=tools, choice=choice, parallel=body.parallel_tool_calls is not False, ignored=ignored)


def _legacy(body: ChatCompletionRequest) -> ToolSetup:
    tools = tuple(_tool(function, f"functions[{index}]") for index, function in enumerate(body.functions or ()))
    wanted = body.function_call
    if isinstance(wanted, FunctionName):
        choice = ToolChoice("named", (_known(wanted.name, tools, "function_call.name"),), "function_call")
    elif wanted in (None, "auto", "none"):
        choice = ToolChoice("none" if wanted == "none" else "auto")
    else:
        raise InvalidField(
            f"Invalid 'function_call': '{wanted}' is neither auto, none nor an object.", field="function_call"
        )
    return ToolSetup(tools=tools, choice=choice, parallel=False, legacy=True)


def _definitions(entries: list[ToolDefinition]) -> tuple[tuple[Tool, ...], tuple[str, ...]]:
    tools: list[Tool] = []
    ignored: list[str] = []
    for index, entry in enumerate(entries):
        at = f"tools[{index}]"
        if entry.type == "custom":
            raise UnsupportedField(
                f"Custom tools are not supported by this server ('{at}').", field=f"{at}.type", remedy="Use a function."
            )
        if entry.type != "function":
            ignored.append(at)
        elif entry.function is None:
            raise MissingField(f"The field '{at}.function' is required.", field=f"{at}.function")
        else:
            tools.append(_tool(entry.function, f"{at}.function"))
    return tuple(tools), tuple(ignored)


def _tool(function: FunctionDefinition, at: str) -> Tool:
    return Tool(function.name, function.description, function.parameters, function.strict is True, f"{at}.parameters")


def _choice(wanted: str | ToolChoiceObject | None, tools: tuple[Tool, ...]) -> tuple[ToolChoice, tuple[Tool, ...]]:
    """The choice, and the tools it leaves callable."""
    if wanted is None or wanted == "auto":
        return ToolChoice("auto"), tools
    if wanted == "none":
        return ToolChoice("none"), tools
    if wanted == "required":
        _some(tools)
        return ToolChoice("required"), tools
    if isinstance(wanted, str):
        raise InvalidField(
            f"Invalid 'tool_choice': '{wanted}' is not one of none, auto, required.", field="tool_choice"
        )
    if wanted.type == "allowed_tools":
        return _allowed(wanted.allowed_tools, tools)
    name = _name(NamedTool(type=wanted.type, function=wanted.function), "tool_choice")
    return ToolChoice("named", (_known(name, tools, "tool_choice.function.name"),)), tools


def _allowed(allowed: AllowedTools | None, tools: tuple[Tool, ...]) -> tuple[ToolChoice, tuple[Tool, ...]]:
    at = "tool_choice.allowed_tools"
    if allowed is None:
        raise MissingField(f"The field '{at}' is required.", field=at)
    names = tuple(
        _known(_name(entry, f"{at}.tools[{index}]"), tools, f"{at}.tools[{index}].function.name")
        for index, entry in enumerate(allowed.tools)
    )
    if not names:
        raise InvalidField(f"Invalid '{at}.tools': at least one tool is required.", field=f"{at}.tools")
    if allowed.mode == "required":
        return ToolChoice("named", names), tools
    if allowed.mode != "auto":
        raise InvalidField(f"Invalid '{at}.mode': '{allowed.mode}' is neither auto nor required.", field=f"{at}.mode")
    return ToolChoice("auto"), tuple(tool for tool in tools if tool.name in names)


def _name(entry: NamedTool, at: str) -> str:
    if entry.type != "function":
        raise UnsupportedField(f"The tool type '{entry.type}' cannot be chosen here.", field=f"{at}.type")
    if entry.function is None:
        raise MissingField(f"The field '{at}.function' is required.", field=f"{at}.function")
    return entry.function.name


def _known(name: str, tools: tuple[Tool, ...], at: str) -> str:
    _some(tools)
    if all(tool.name != name for tool in tools):
        raise InvalidField(f"Invalid '{at}': no tool is named '{name}'.", field=at)
    return name


def _some(tools: tuple[Tool, ...]) -> None:
    if not tools:
        raise InvalidField("Invalid 'tool_choice': it is only allowed when tools are given.", field="tool_choice")
