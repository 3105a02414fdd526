"""Rows of the families that write every argument between tags of its own."""

from __future__ import annotations

from dragoman.output.families.family import CallForm, JsonCalls, TaggedArguments, TaggedCalls, ToolFamily

FUNCTION_TAGS = TaggedCalls(
    open="<function=",
    name_close=">",
    key_open="<parameter=",
    key_closes=((">", "schema"),),
    value_close="</parameter>",
    close="</function>",
    framed=True,
)
_FUNCTION_FORM = TaggedArguments(open="<parameter=", key_close=">\n", close="\n</parameter>\n")

QWEN3_CODER = ToolFamily(
    name="qwen3_coder",
    form=CallForm(
        call_open="<tool_call>\n<function=",
        name_close=">\n",
        arguments=_FUNCTION_FORM,
        call_close="</function>\n</tool_call>",
    ),
    calls=FUNCTION_TAGS,
    others=(JsonCalls(),),
    openers=("<tool_call>",),
    starts=("<function=",),
    separators=",;",
    closer="</tool_call>",
)

SEED_OSS = ToolFamily(
    name="seed_oss",
    form=CallForm(
        call_open="<seed:tool_call>\n<function=",
        name_close=">\n",
        arguments=TaggedArguments(open="<parameter=", key_close=">", close="</parameter>\n"),
        call_close="</function>\n</seed:tool_call>",
    ),
    calls=FUNCTION_TAGS,
    openers=("<seed:tool_call>",),
    closer="</seed:tool_call>",
    think_open="<seed:think>",
    think_close="</seed:think>",
)

GLM4 = ToolFamily(
    name="glm4",
    form=CallForm(
        call_open="<tool_call>",
        name_close="\n",
        arguments=TaggedArguments(open="<arg_key>", key_close="</arg_key>\n<arg_value>", close="</arg_value>\n"),
        call_close="</tool_call>",
    ),
    calls=TaggedCalls(
        open="",
        name_close="",
        key_open="<arg_key>",
        key_closes=(("</arg_key>", "schema"),),
        value_open="<arg_value>",
        value_close="</arg_value>",
        close="",
    ),
    others=(JsonCalls(),),
    openers=("<tool_call>",),
    separators=",;",
    closer="</tool_call>",
)

MINICPM5 = ToolFamily(
    name="minicpm5",
    form=CallForm(
        call_open='<function name="',
        name_close='">',
        arguments=TaggedArguments(open='<param name="', key_close='">', close="</param>", cdata=True),
        call_close="</function>",
    ),
    calls=TaggedCalls(
        open='<function name="',
        name_close='">',
        key_open='<param name="',
        key_closes=(('">', "schema"),),
        value_close="</param>",
        close="</function>",
        framed=True,
        cdata=True,
    ),
    starts=('<function name="',),
)

MINIMAX_M2 = ToolFamily(
    name="minimax_m2",
    form=CallForm(
        opener="<minimax:tool_call>\n",
        call_open='<invoke name="',
        name_close='">\n',
        arguments=TaggedArguments(open='<parameter name="', key_close='">', close="</parameter>\n"),
        call_close="</invoke>",
        closer="\n</minimax:tool_call>",
    ),
    calls=TaggedCalls(
        open='<invoke name="',
        name_close='">',
        key_open='<parameter name="',
        key_closes=(('">', "schema"),),
        value_close="</parameter>",
        close="</invoke>",
        framed=True,
    ),
    openers=("<minimax:tool_call>",),
    starts=('<invoke name="',),
    closer="</minimax:tool_call>",
)

DEEPSEEK_V32 = ToolFamily(
    name="deepseek_v32",
    form=CallForm(
        opener="<｜DSML｜function_calls>\n",
        call_open='<｜DSML｜invoke name="',
        name_close='">\n',
        arguments=TaggedArguments(
            open='<｜DSML｜parameter name="',
            key_close='" string="true">',
            key_close_other='" string="false">',
            close="</｜DSML｜parameter>\n",
        ),
        call_close="</｜DSML｜invoke>",
        closer="\n</｜DSML｜function_calls>",
    ),
    calls=TaggedCalls(
        open='<｜DSML｜invoke name="',
        name_close='">',
        key_open='<｜DSML｜parameter name="',
        key_closes=(('" string="true">', "string"), ('" string="false">', "json"), ('">', "schema")),
        value_close="</｜DSML｜parameter>",
        close="</｜DSML｜invoke>",
    ),
    openers=("<｜DSML｜function_calls>",),
    closer="</｜DSML｜function_calls>",
)

TAG_ROWS = (QWEN3_CODER, SEED_OSS, GLM4, MINICPM5, MINIMAX_M2, DEEPSEEK_V32)
