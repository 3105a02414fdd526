"""Rows of the families that write a call as one JSON object with the name in it."""

from __future__ import annotations

from dragoman.output.families.family import CallForm, HeadedCalls, JsonArguments, JsonCalls, ToolFamily
from dragoman.output.families.tag_rows import FUNCTION_TAGS

PYTHON_CALLS = HeadedCalls(
    head=r"(?P<name>[A-Za-z_][\w.\-]*)[ \t\r\n]*", letters=r"[\w.\- \t\r\n]", opens="(", kind="python"
)
_NAME_FIRST = '{"name": "'
_ARGUMENTS = '", "arguments": '
_PARAMETERS = '", "parameters": '

HERMES = ToolFamily(
    name="hermes",
    form=CallForm(
        call_open=f"<tool_call>\n{_NAME_FIRST}",
        name_close=_ARGUMENTS,
        arguments=JsonArguments(),
        call_close="}\n</tool_call>",
    ),
    calls=JsonCalls(),
    others=(FUNCTION_TAGS,),
    openers=("<tool_call>",),
    listed=True,
    call_closers=("```",),
    separators=",;",
    closer="</tool_call>",
)

NEMOTRON = ToolFamily(
    name="nemotron",
    form=CallForm(
        opener="<TOOLCALL>[",
        call_open=_NAME_FIRST,
        name_close=_ARGUMENTS,
        arguments=JsonArguments(),
        call_close="}",
        separator=", ",
        closer="]</TOOLCALL>",
    ),
    calls=JsonCalls(),
    openers=("<TOOLCALL>",),
    listed=True,
    separators=",;",
    closer="</TOOLCALL>",
)

LLAMA3_JSON = ToolFamily(
    name="llama3_json",
    form=CallForm(
        call_open=_NAME_FIRST,
        name_close=_PARAMETERS,
        arguments=JsonArguments(),
        call_close="}",
        separator="; ",
        bare=True,
    ),
    calls=JsonCalls(argument_keys=("parameters", "arguments")),
    others=(PYTHON_CALLS,),
    openers=("<|python_tag|>",),
    bare_starts=("{", "["),
    listed=True,
    separators=",;",
)

GRANITE = ToolFamily(
    name="granite",
    form=CallForm(
        opener="<|tool_call|>[",
        call_open=_NAME_FIRST,
        name_close=_ARGUMENTS,
        arguments=JsonArguments(),
        call_close="}",
        separator=", ",
        closer="]",
    ),
    calls=JsonCalls(),
    openers=("<|tool_call|>", "<tool_call>"),
    listed=True,
    separators=",;",
    closer="</tool_call>",
    text_marks=(("<response>", "</response>"),),
)

PHI4 = ToolFamily(
    name="phi4",
    form=CallForm(
        opener="<|tool_call|>[",
        call_open=_NAME_FIRST,
        name_close=_ARGUMENTS,
        arguments=JsonArguments(),
        call_close="}",
        separator=", ",
        closer="]<|/tool_call|>",
    ),
    calls=JsonCalls(),
    openers=("<|tool_call|>",),
    bare_openers=("functools",),
    listed=True,
    separators=",;",
    closer="<|/tool_call|>",
)

COMMAND = ToolFamily(
    name="command",
    form=CallForm(
        opener="<|START_ACTION|>[\n",
        call_open='    {"tool_call_id": "',
        number_close='", "tool_name": "',
        name_close=_PARAMETERS,
        arguments=JsonArguments(),
        call_close="}",
        separator=",\n",
        closer="\n]<|END_ACTION|>",
        text_open="<|START_RESPONSE|>",
        text_close="<|END_RESPONSE|>",
    ),
    calls=JsonCalls(name_keys=("tool_name", "name"), argument_keys=("parameters", "arguments")),
    openers=("<|START_ACTION|>",),
    listed=True,
    separators=",;",
    closer="<|END_ACTION|>",
    think_open="<|START_THINKING|>",
    think_close="<|END_THINKING|>",
    text_marks=(("<|START_RESPONSE|>", "<|END_RESPONSE|>"),),
)

JSON = ToolFamily(
    name="json",
    form=CallForm(
        call_open=_NAME_FIRST,
        name_close=_ARGUMENTS,
        arguments=JsonArguments(),
        call_close="}",
        separator="\n",
        bare=True,
    ),
    calls=JsonCalls(),
    bare_openers=("```json",),
    bare_starts=("{", "["),
    call_closers=("```",),
    listed=True,
    separators=",;",
)

JSON_ROWS = (HERMES, NEMOTRON, LLAMA3_JSON, GRANITE, PHI4, COMMAND, JSON)
