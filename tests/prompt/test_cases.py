"""The cases of faults other servers shipped that concern prompts, by number."""

import pytest

from dragoman.core.errors import InvalidRequest
from dragoman.core.messages import Message, TextPart, ToolCallPart, ToolResultPart
from dragoman.core.request import RawInput
from tests.prompt import templates
from tests.prompt.vocabularies import BOS, LOOK, builder, call, chat, result, say, tokenizer

WITH_TOOLS = ["qwen3", "smollm2", "text_arguments", "picky_map", "mistral", "gemma", "llama3"]
LATE = "answer BLUE"


@pytest.mark.parametrize("name", WITH_TOOLS)
def test_case_08_arguments_are_decoded_once(name: str) -> None:
    history = (say("user", "look at Oslo"), call('{"place":"Oslo","n":1}'), result("rain"))
    text = builder(templates.EVERY[name]).render(chat(*history, tools=(LOOK,)))
    spelled = ['{"place": "Oslo", "n": 1}', '{"place":"Oslo","n":1}', " place=Oslo n=1"]
    assert sum(text.count(spelling) for spelling in spelled) == 1
    assert '\\"place' not in text
    assert "'place'" not in text
    assert text.index("Oslo") < text.rindex("rain")


@pytest.mark.parametrize("name", WITH_TOOLS)
@pytest.mark.parametrize("arguments", ['{"place": "Os', "not json", "[1, 2]", '"text"', "5", '{"a": NaN}', "[" * 5000])
def test_case_08_invalid_arguments_pass_as_raw_text(name: str, arguments: str) -> None:
    history = (say("user", "look"), call(arguments), result("failed"), say("user", "again"))
    text = builder(templates.EVERY[name]).render(chat(*history, tools=(LOOK,)))
    escaped = arguments.replace('"', '\\"')
    assert arguments in text or escaped in text
    assert "failed" in text


@pytest.mark.parametrize("name", WITH_TOOLS)
@pytest.mark.parametrize("arguments", ["", "  ", "null", "{}"])
def test_case_08_no_arguments_are_an_empty_map(name: str, arguments: str) -> None:
    history = (say("user", "look"), call(arguments), result("rain"))
    some = builder(templates.EVERY[name])
    if some.template_caps.object_arguments:
        expected = some.render(chat(say("user", "look"), call("{}"), result("rain"), tools=(LOOK,)))
        assert some.render(chat(*history, tools=(LOOK,))) == expected


@pytest.mark.parametrize("name", WITH_TOOLS)
def test_case_09_empty_assistant_text_beside_calls(name: str) -> None:
    some = builder(templates.EVERY[name])
    tool_call = ToolCallPart("call_1", "look", '{"place": "Oslo"}')
    forms = [(tool_call,), (TextPart(""), tool_call), (TextPart(""), TextPart(""), tool_call)]
    rendered = {
        some.render(chat(say("user", "look at Oslo"), Message("assistant", parts), result("rain-text"), tools=(LOOK,)))
        for parts in forms
    }
    assert len(rendered) == 1
    (text,) = rendered
    assert "Oslo" in text.partition("look at Oslo")[2]
    assert "rain-text" in text


@pytest.mark.parametrize("name", WITH_TOOLS)
def test_case_09_an_empty_tool_result_keeps_the_turn(name: str) -> None:
    some = builder(templates.EVERY[name])
    asked = (say("user", "look at Oslo"), call('{"place": "Oslo"}'))
    text = some.render(chat(*asked, result(""), tools=(LOOK,)))
    assert text != some.render(chat(*asked, tools=(LOOK,)))
    empty = some.render(chat(*asked, Message("tool", (ToolResultPart("call_1", ()),)), tools=(LOOK,)))
    assert empty == text


@pytest.mark.parametrize("name", ["smollm2", "llama3", "qwen3", "mistral", "gemma", "developer", "typed", "none"])
@pytest.mark.parametrize("role", ["system", "developer"])
def test_case_23_a_late_system_message_is_visible_at_its_place(name: str, role: str) -> None:
    opening = (say("system", "the rules"), say("user", "first"), say("assistant", "reply"))
    some = builder(templates.EVERY[name])
    text = some.render(chat(*opening, say(role, LATE), say("user", "second")))
    assert text.index("the rules") < text.index("first") < text.index("reply") < text.index(LATE) < text.index("second")
    assert text.count(LATE) == 1


def test_case_23_one_turn_where_roles_must_alternate() -> None:
    text = builder(templates.MISTRAL).render(
        chat(say("user", "first"), say("assistant", "reply"), say("system", LATE), say("user", "second"))
    )
    assert text.endswith(f"[INST] {LATE}\n\nsecond [/INST]")


def test_case_23_a_user_turn_of_its_own_where_that_is_taken() -> None:
    strict = (
        "{% for m in messages %}{% if m.role == 'system' and not loop.first %}"
        "{{ raise_exception('System message must be at the beginning.') }}{% endif %}"
        "<{{ m.role }}>{{ m.content }}{% endfor %}"
    )
    text = builder(strict).render(
        chat(say("user", "first"), say("assistant", "reply"), say("system", LATE), say("user", "second"))
    )
    assert text == f"<user>first<assistant>reply<user>{LATE}<user>second"


@pytest.mark.parametrize("name", list(templates.EVERY))
def test_case_24_developer_text_is_in_the_prompt(name: str) -> None:
    some = builder(templates.EVERY[name])
    text = some.render(chat(say("developer", "reply BANANA"), say("user", "hi")))
    assert text.index("reply BANANA") < text.index("hi")
    if not some.template_caps.developer_role:
        assert text == some.render(chat(say("system", "reply BANANA"), say("user", "hi")))


@pytest.mark.parametrize("name", list(templates.EVERY))
def test_case_24_instructions_and_developer_merge(name: str) -> None:
    some = builder(templates.EVERY[name])
    text = some.render(chat(say("system", "ONE"), say("developer", "TWO"), say("user", "hi")))
    assert "ONE\n\nTWO" in text
    assert text == some.render(chat(say("developer", "ONE"), say("system", "TWO"), say("user", "hi")))


def test_case_24_a_template_that_names_the_role_gets_it() -> None:
    source = "{% for m in messages %}{% if m.role == 'developer' %}DEV {% endif %}{{ m.content }} {% endfor %}"
    assert builder(source).render(chat(say("developer", "a"), say("user", "b"))) == "DEV a b "


@pytest.mark.parametrize("name", list(templates.EVERY))
def test_case_25_parts_are_joined_in_order(name: str) -> None:
    some = builder(templates.EVERY[name])
    parts = chat(say("system", "s1 ", "s2"), say("user", "u1 ", "u2"), say("assistant", "a1 ", "a2"), say("user", "v"))
    text = some.render(parts)
    if some.template_caps.string_content:
        joined = chat(say("system", "s1 s2"), say("user", "u1 u2"), say("assistant", "a1 a2"), say("user", "v"))
        assert text == some.render(joined)
    else:
        assert "[text:s1 ][text:s2]" in text
        assert "[text:u1 ][text:u2]" in text
    places = [text.index(piece) for piece in ("s1", "s2", "u1", "u2", "a1", "a2")]
    assert places == sorted(places)


@pytest.mark.parametrize("name", WITH_TOOLS)
def test_case_25_tool_results_as_parts(name: str) -> None:
    some = builder(templates.EVERY[name])
    asked = (say("user", "look"), call('{"place": "Oslo"}'))
    parts = Message("tool", (ToolResultPart("call_1", (TextPart("ra"), TextPart("in"))),))
    assert some.render(chat(*asked, parts, tools=(LOOK,))) == some.render(chat(*asked, result("rain"), tools=(LOOK,)))


@pytest.mark.parametrize("add_bos", [True, False])
def test_case_26_one_bos_in_a_chat(add_bos: bool) -> None:
    prompt = builder(templates.LLAMA3, add_bos=add_bos).build(chat(say("user", "hi")))
    assert prompt.ids.count(BOS) == 1
    assert prompt.ids[0] == BOS
    assert prompt.text.startswith("<|begin_of_text|>")


def test_case_26_bos_is_added_where_the_template_has_none_and_the_vocabulary_wants_it() -> None:
    assert builder(templates.SMOLLM2, add_bos=True).build(chat(say("user", "hi"))).ids[0] == BOS
    assert BOS not in builder(templates.SMOLLM2, add_bos=False).build(chat(say("user", "hi"))).ids


def test_case_26_no_eos_behind_a_chat() -> None:
    prompt = builder(templates.LLAMA3, add_bos=True, add_eos=True).build(chat(say("user", "hi")))
    assert prompt.ids == builder(templates.LLAMA3, add_bos=True).build(chat(say("user", "hi"))).ids


@pytest.mark.parametrize("text", ["hello", "<|begin_of_text|>hello"])
def test_case_26_one_bos_in_raw_text(text: str) -> None:
    prompt = builder("", add_bos=True).build(RawInput((text,)))
    assert prompt.ids == (BOS, *tokenizer().encode("hello", add_special=False, parse_special=True))


def test_case_26_add_special_is_obeyed() -> None:
    some = builder("", add_bos=True)
    assert BOS not in some.build(RawInput(("hello",), add_special=False)).ids
    assert some.build(RawInput(("<|begin_of_text|>",), add_special=False)).ids == (BOS,)
    spelled = some.build(RawInput(("<|begin_of_text|>",), parse_special=False)).ids
    assert spelled.count(BOS) == 1
    assert len(spelled) > 2


def test_case_29_the_billing_block_is_left_out() -> None:
    some = builder(templates.SMOLLM2)
    header = "x-anthropic-billing-header: v=1; cch="
    first, second = (
        some.build(chat(say("system", f"{header}{key};", "Long rules"), say("user", "hi")))
        for key in ("aaaaa", "bbbbb")
    )
    assert first == second
    assert first == some.build(chat(say("system", "Long rules"), say("user", "hi")))
    alone = some.build(chat(say("system", f"{header}a;"), say("system", "Long rules"), say("user", "hi")))
    assert alone == first


def test_case_29_the_same_words_of_a_user_stay() -> None:
    words = "x-anthropic-billing-header: what is this?"
    some = builder(templates.SMOLLM2)
    assert words in some.render(chat(say("user", words)))
    assert words in some.render(chat(say("system", f"About {words}"), say("user", "hi")))


@pytest.mark.parametrize("name", ["smollm2", "llama3", "qwen3", "mistral", "gemma", "none"])
def test_case_31_a_late_reminder_keeps_the_prefix(name: str) -> None:
    some = builder(templates.EVERY[name])
    turn = (
        say("system", "rules"),
        say("user", "one"),
        say("assistant", "reply"),
        say("user", "two"),
        say("system", LATE),
    )
    before = some.build(chat(*turn, add_generation_prompt=False))
    after = some.build(chat(*turn, say("assistant", "second reply"), say("user", "three")))
    assert after.ids[: len(before.ids)] == before.ids
    assert LATE in before.text


@pytest.mark.parametrize("name", WITH_TOOLS)
def test_case_31_a_reminder_after_a_tool_result_keeps_the_prefix(name: str) -> None:
    some = builder(templates.EVERY[name])
    turn = (say("user", "one"), call('{"place": "Oslo"}'), result("rain"), say("system", LATE))
    before = some.build(chat(*turn, tools=(LOOK,), add_generation_prompt=False))
    after = some.build(chat(*turn, say("assistant", "It rains."), say("user", "three"), tools=(LOOK,)))
    assert after.ids[: len(before.ids)] == before.ids
    assert before.text.index("rain") < before.text.index(LATE)


def test_a_conversation_the_template_cannot_take_is_the_request_s_fault() -> None:
    with pytest.raises(InvalidRequest, match="alternate"):
        builder(templates.MISTRAL).render(chat(say("assistant", "I begin")))
