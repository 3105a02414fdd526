"""Rows of the families that write the name in a head of its own and the arguments as one value behind it."""

from __future__ import annotations

from dragoman.output.families.family import (
    CallForm,
    Channels,
    HeadedCalls,
    JsonArguments,
    JsonCalls,
    PythonArguments,
    QuotedArguments,
    ToolFamily,
)
from dragoman.output.families.json_rows import PYTHON_CALLS

_NAME = r"(?P<name>[\w.\-/:]+?)"
_MISTRAL_CALLS = HeadedCalls(
    head=rf"\s*{_NAME}\s*(?:\[CALL_ID\]\s*[\w\-]*\s*)?(?:\[ARGS\]\s*)?", within=("[CALL_ID]", "[ARGS]")
)

MISTRAL = ToolFamily(
    name="mistral",
    form=CallForm(
        call_open="[TOOL_CALLS]",
        name_close="[ARGS]",
        arguments=JsonArguments(),
        call_close="",
        separator="",
    ),
    calls=_MISTRAL_CALLS,
    others=(JsonCalls(),),
    openers=("[TOOL_CALLS]",),
    listed=True,
    separators=",;",
    think_open="[THINK]",
    think_close="[/THINK]",
)

MISTRAL_LIST = ToolFamily(
    name="mistral_list",
    form=CallForm(
        opener="[TOOL_CALLS][",
        call_open='{"name": "',
        name_close='", "arguments": ',
        arguments=JsonArguments(),
        call_close="}",
        separator=", ",
        closer="]",
    ),
    calls=JsonCalls(),
    others=(_MISTRAL_CALLS,),
    openers=("[TOOL_CALLS]",),
    listed=True,
    separators=",;",
)

_CALLS_BEGIN, _CALLS_END = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"
_CALL_BEGIN, _CALL_END, _SEP = "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>", "<｜tool▁sep｜>"
_DEEPSEEK_CALLS = HeadedCalls(
    head=rf"\s*(?:function\s*{_SEP}\s*)?{_NAME}\s*(?:{_SEP})?\s*(?:```(?:json)?\s*)?",
    within=(_SEP,),
    letters=r"[\s\w.\-/:<>｜▁`]",
)

DEEPSEEK_V3 = ToolFamily(
    name="deepseek_v3",
    form=CallForm(
        opener=_CALLS_BEGIN,
        call_open=f"{_CALL_BEGIN}function{_SEP}",
        name_close="\n```json\n",
        arguments=JsonArguments(),
        call_close=f"\n```{_CALL_END}",
        closer=_CALLS_END,
    ),
    calls=_DEEPSEEK_CALLS,
    openers=(_CALLS_BEGIN, _CALL_BEGIN),
    call_openers=(_CALL_BEGIN,),
    call_closers=("```", _CALL_END),
    closer=_CALLS_END,
)

DEEPSEEK_V31 = ToolFamily(
    name="deepseek_v31",
    form=CallForm(
        opener=_CALLS_BEGIN,
        call_open=_CALL_BEGIN,
        name_close=_SEP,
        arguments=JsonArguments(),
        call_close=_CALL_END,
        separator="",
        closer=_CALLS_END,
    ),
    calls=_DEEPSEEK_CALLS,
    openers=(_CALLS_BEGIN, _CALL_BEGIN),
    call_openers=(_CALL_BEGIN,),
    call_closers=("```", _CALL_END),
    closer=_CALLS_END,
)

KIMI_K2 = ToolFamily(
    name="kimi_k2",
    form=CallForm(
        opener="<|tool_calls_section_begin|>",
        call_open="<|tool_call_begin|>functions.",
        numbered=":",
        name_close="<|tool_call_argument_begin|>",
        arguments=JsonArguments(),
        call_close="<|tool_call_end|>",
        separator="",
        closer="<|tool_calls_section_end|>",
    ),
    calls=HeadedCalls(
        head=r"\s*(?:functions\.)?(?P<name>[\w.\-/]+?)(?::\d+)?\s*(?:<\|tool_call_argument_begin\|>)?\s*",
        within=("<|tool_call_argument_begin|>",),
    ),
    openers=("<|tool_calls_section_begin|>", "<|tool_call_begin|>"),
    call_openers=("<|tool_call_begin|>",),
    call_closers=("<|tool_call_end|>",),
    closer="<|tool_calls_section_end|>",
)

FUNCTION_GEMMA = ToolFamily(
    name="function_gemma",
    form=CallForm(
        call_open="<start_function_call>call:",
        name_close="",
        arguments=QuotedArguments(quote="<escape>"),
        call_close="<end_function_call>",
        separator="",
    ),
    calls=HeadedCalls(head=rf"\s*call\s*:\s*{_NAME}\s*", kind="quoted", quote="<escape>", within=("<escape>",)),
    openers=("<start_function_call>",),
    call_openers=("<start_function_call>",),
    closer="<end_function_call>",
)

GEMMA4 = ToolFamily(
    name="gemma4",
    form=CallForm(
        call_open="<|tool_call>call:",
        name_close="",
        arguments=QuotedArguments(quote='<|"|>'),
        call_close="<tool_call|>",
        separator="",
    ),
    calls=HeadedCalls(head=rf"\s*call\s*:\s*{_NAME}\s*", kind="quoted", quote='<|"|>', within=('<|"|>',)),
    openers=("<|tool_call>",),
    closer="<tool_call|>",
    think_open="<|channel>thought",
    think_close="<channel|>",
)

LFM2 = ToolFamily(
    name="lfm2",
    form=CallForm(
        opener="<|tool_call_start|>[",
        call_open="",
        name_close="(",
        arguments=PythonArguments(),
        call_close=")",
        separator=", ",
        closer="]<|tool_call_end|>",
    ),
    calls=PYTHON_CALLS,
    others=(JsonCalls(),),
    openers=("<|tool_call_start|>",),
    listed=True,
    separators=",;",
    closer="<|tool_call_end|>",
)

LLAMA_PYTHONIC = ToolFamily(
    name="llama_pythonic",
    form=CallForm(
        opener="[",
        call_open="",
        name_close="(",
        arguments=PythonArguments(),
        call_close=")",
        separator=", ",
        closer="]",
        bare=True,
    ),
    calls=PYTHON_CALLS,
    others=(JsonCalls(argument_keys=("parameters", "arguments")),),
    openers=("<|python_start|>", "<|python_tag|>"),
    bare_starts=("[", "{"),
    listed=True,
    separators=",;",
    closer="<|python_end|>",
)

HARMONY = ToolFamily(
    name="harmony",
    form=CallForm(
        call_open="<|channel|>commentary to=functions.",
        name_close=" <|constrain|>json<|message|>",
        arguments=JsonArguments(),
        call_close="<|call|>",
        separator="<|start|>assistant",
        after_thought="<|start|>assistant",
        text_open="<|channel|>final<|message|>",
        text_close="<|return|>",
    ),
    calls=HeadedCalls(
        head=r"(?s:.*?)to=(?:functions\.)?(?P<name>[\w.\-]+)(?s:.*)<\|message\|>\s*",
        letters=r"[^{]",
    ),
    think_open="<|channel|>analysis<|message|>",
    think_close="<|end|>",
    channels=Channels(
        start="<|start|>",
        channel="<|channel|>",
        message="<|message|>",
        constrain="<|constrain|>",
        ends=("<|end|>", "<|return|>", "<|call|>"),
        thoughts=("analysis",),
        recipient="to=functions.",
        text_header="final",
    ),
)

HEAD_ROWS = (
    MISTRAL,
    MISTRAL_LIST,
    DEEPSEEK_V3,
    DEEPSEEK_V31,
    KIMI_K2,
    FUNCTION_GEMMA,
    GEMMA4,
    LFM2,
    LLAMA_PYTHONIC,
    HARMONY,
)
