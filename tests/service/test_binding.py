"""What binds an answer, what is refused, and what passes in words (DESIGN: structured output, tool_choice)."""

from __future__ import annotations

import pytest

from dragoman.core.constraint import Constraint
from dragoman.core.errors import InvalidField, UnsupportedField
from dragoman.core.messages import Message, TextPart
from dragoman.core.prompt import Prompt, ReplyFormat
from dragoman.core.request import ChatInput, OutputFormat, RawInput, Request, Thinking
from dragoman.core.tools import Tool, ToolChoice
from dragoman.service.binding import bind, constraint_of
from dragoman.service.instruction import instructed, instruction
from tests.service.compilers import NotingCompiler

LOOK = Tool("look", None, {"type": "object"}, field="tools[0].function.parameters")
SAVE = Tool("save", None, {"type": "object"}, True, "tools[1].function.parameters")
USER = (Message("user", (TextPart("hi"),)),)
SCHEMA = OutputFormat("json_schema", '{"type":"string"}', "response_format.json_schema.schema", strict=True)
FORCED = Constraint(tools=(LOOK, SAVE), choice=ToolChoice("required"))
TAGS = ReplyFormat(think_open="<think>", think_close="</think>", tool_family="hermes")
PROMPT = Prompt(ids=(1,), text="x", thinking_open=True)


def chat(**more) -> Request:
    format = more.pop("format", None)
    return Request(input=ChatInput(messages=USER, **more), format=format)


def test_what_binds_a_conversation() -> None:
    request = chat(tools=(LOOK,), tool_choice=ToolChoice("required"), parallel_tool_calls=False, format=SCHEMA)
    assert constraint_of(request, TAGS, PROMPT) == Constraint(
        format=SCHEMA,
        tools=(LOOK,),
        choice=ToolChoice("required"),
        parallel=False,
        reply=TAGS,
        thinking_open=True,
        may_think=True,
    )


def test_case_15_no_thoughts_where_they_are_off_or_unknown() -> None:
    assert constraint_of(chat(thinking=Thinking("off")), TAGS, PROMPT).may_think is False
    assert constraint_of(chat(), ReplyFormat(), PROMPT).may_think is False


def test_one_tool_by_name_is_called_once() -> None:
    for names, parallel in ((("look",), False), (("look", "save"), True)):
        request = chat(tools=(LOOK, SAVE), tool_choice=ToolChoice("named", names))
        assert constraint_of(request, TAGS, PROMPT).parallel is parallel


def test_choice_none_leaves_no_tool_to_call() -> None:
    assert constraint_of(chat(tools=(LOOK,), tool_choice=ToolChoice("none")), TAGS, PROMPT).tools == ()


def test_a_raw_prompt_has_no_markup() -> None:
    raw = Request(input=RawInput(("x",)), format=SCHEMA)
    assert constraint_of(raw, TAGS, PROMPT) == Constraint(format=SCHEMA)


@pytest.mark.parametrize(
    ("constraint", "binding"),
    [
        (Constraint(), False),
        (Constraint(tools=(LOOK,)), False),
        (Constraint(tools=(LOOK,), choice=ToolChoice("required")), True),
        (Constraint(tools=(LOOK, SAVE)), True),
        (Constraint(choice=ToolChoice("required")), False),
        (Constraint(format=SCHEMA), True),
    ],
)
def test_only_what_binds_is_compiled(constraint: Constraint, binding: bool) -> None:
    compiler = NotingCompiler()
    bound = bind(constraint, compiler, degrade=False)
    assert (bound.grammar is not None) == bool(compiler.asked) == constraint.binding == binding


@pytest.mark.parametrize(("constraint", "field"), [(Constraint(format=SCHEMA), SCHEMA.field), (FORCED, "tool_choice")])
def test_case_12_an_engine_without_masks_refuses_by_name(constraint: Constraint, field: str) -> None:
    with pytest.raises(UnsupportedField) as caught:
        bind(constraint, None, degrade=False)
    assert caught.value.field == field
    lenient = bind(constraint, None, degrade=True)
    assert (lenient.grammar, lenient.unenforced) == (None, caught.value.message)


def test_strict_tools_alone_pass_without_masks() -> None:
    bound = bind(Constraint(tools=(SAVE,)), None, degrade=False)
    assert (bound.grammar, bound.unenforced) == (None, "")


def test_case_14_a_format_that_cannot_be_compiled_is_refused_with_its_path() -> None:
    compiler = NotingCompiler(SCHEMA.field)
    with pytest.raises(InvalidField) as caught:
        bind(Constraint(format=SCHEMA), compiler, degrade=False)
    assert caught.value.field == "response_format.json_schema.schema.pattern"
    assert caught.value.message == "response_format.json_schema.schema.pattern: It cannot be compiled."
    assert bind(Constraint(format=SCHEMA), compiler, degrade=True).unenforced == caught.value.message


def test_a_tool_that_is_not_strict_only_loses_its_schema() -> None:
    compiler = NotingCompiler(LOOK.field)
    assert bind(FORCED, compiler, degrade=False).grammar is not None
    assert [tool.parameters for tool in compiler.asked[-1].tools] == [None, SAVE.parameters]
    with pytest.raises(InvalidField) as caught:
        bind(FORCED, NotingCompiler(LOOK.field, SAVE.field), degrade=False)
    assert caught.value.field == f"{SAVE.field}.pattern"


def test_json_cannot_continue_a_text() -> None:
    with pytest.raises(InvalidField) as caught:
        bind(Constraint(format=SCHEMA), NotingCompiler(), prefill="The", degrade=False)
    assert caught.value.field == SCHEMA.field
    choice = Constraint(format=OutputFormat("choice", '["a"]'))
    assert bind(choice, NotingCompiler(), prefill="The", degrade=False).grammar is not None


@pytest.mark.parametrize(
    "format",
    [SCHEMA, *(OutputFormat(kind, "TEXT") for kind in ("json_schema", "regex", "lark", "gbnf", "choice"))],
)
def test_words_quote_the_constraint(format: OutputFormat) -> None:
    assert format.text in instruction(Constraint(format=format))


def test_words_come_first_in_a_conversation_and_nowhere_else() -> None:
    found = instructed(chat().input, FORCED)
    assert isinstance(found, ChatInput)
    assert found.messages[0].role == "system"
    assert "look or save" in str(found.messages[0])
    assert found.messages[1:] == USER
    raw = RawInput(("x",))
    assert instructed(raw, Constraint(format=SCHEMA)) is raw
