"""From conversations to template variables."""

import json

import pytest

from dragoman.core.errors import InvalidField
from dragoman.core.messages import MediaPart, Message, ReasoningPart, TextPart, ToolCallPart, ToolResultPart
from dragoman.core.request import Thinking
from dragoman.core.tools import Tool, ToolChoice
from tests.prompt import templates
from tests.prompt.vocabularies import LOOK, builder, call, chat, result, say

SHOW = (
    "{{ [enable_thinking is defined and enable_thinking, enable_thinking is defined, thinking | default('unset'), "
    "reasoning_effort | default('unset'), tools, add_generation_prompt, extra | default('unset')] | tojson }}"
    "{% for m in messages %}{{ m | tojson }}{% endfor %}<tool_call>{% for m in messages %}"
    "{% for c in m.tool_calls or [] %}{{ c.function.name }}{{ c.function.arguments | tojson }}{% endfor %}{% endfor %}"
)


def shown(template: str, *messages: Message, **fields: object) -> tuple[list, list[dict]]:
    """The variables SHOW writes, and the messages after them."""
    text = builder(template).render(chat(*messages, **fields)).partition("<tool_call>")[0]
    decoder = json.JSONDecoder()
    values = []
    while text:
        value, end = decoder.raw_decode(text)
        values.append(value)
        text = text[end:]
    return values[0], values[1:]


@pytest.mark.parametrize(
    ("thinking", "expected"),
    [
        (Thinking(), [False, False, "unset", "unset"]),
        (Thinking(mode="on"), [True, True, True, "unset"]),
        (Thinking(mode="off"), [False, True, False, "unset"]),
        (Thinking(effort="low"), [False, False, "unset", "low"]),
    ],
)
def test_thinking_controls(thinking: Thinking, expected: list) -> None:
    assert shown(SHOW, say("user", "hi"), thinking=thinking)[0][:4] == expected


def test_template_kwargs_pass_but_override_nothing_of_ours() -> None:
    kwargs = {
        "extra": 5,
        "enable_thinking": True,
        "messages": [],
        "tools": [1],
        "add_generation_prompt": False,
        "bos_token": "x",
    }
    variables, messages = shown(SHOW, say("user", "hi"), template_kwargs=kwargs)
    assert variables == [True, True, True, "unset", None, True, 5]
    assert messages == [{"role": "user", "content": "hi"}]


def test_tools_as_function_objects() -> None:
    bare = Tool("bare")
    (_, _, _, _, tools, _, _), _ = shown(SHOW, say("user", "hi"), tools=(LOOK, bare))
    assert tools == [
        {
            "type": "function",
            "function": {"name": "look", "description": "Looks at a place.", "parameters": LOOK.parameters},
        },
        {"type": "function", "function": {"name": "bare", "parameters": {"type": "object", "properties": {}}}},
    ]


def test_tools_are_dropped_when_none_may_be_called() -> None:
    variables, _ = shown(SHOW, say("user", "hi"), tools=(LOOK,), tool_choice=ToolChoice("none"))
    assert variables[4] is None


def test_messages_of_a_tool_round() -> None:
    _, messages = shown(
        SHOW,
        say("user", "hi"),
        Message("assistant", (ReasoningPart("hm"), TextPart("Let me see."), ToolCallPart("c9", "look", '{"n": 1}'))),
        result("rain", id="c9"),
        tools=(LOOK,),
    )
    assert messages[1:] == [
        {
            "role": "assistant",
            "content": "Let me see.",
            "reasoning_content": "hm",
            "reasoning": "hm",
            "tool_calls": [
                {"id": "call00000", "type": "function", "function": {"name": "look", "arguments": {"n": 1}}}
            ],
        },
        {"role": "tool", "content": "rain", "name": "look", "tool_call_id": "call00000"},
    ]


def test_a_user_message_may_hold_results_and_text() -> None:
    mixed = Message("user", (ToolResultPart("call_1", (TextPart("rain"),)), TextPart("and now?")))
    _, messages = shown(SHOW, say("user", "hi"), call("{}"), mixed, tools=(LOOK,))
    assert [(message["role"], message["content"]) for message in messages[2:]] == [
        ("tool", "rain"),
        ("user", "and now?"),
    ]


def test_a_failed_result_says_so_once() -> None:
    _, messages = shown(
        SHOW,
        say("user", "hi"),
        call("{}"),
        result("no such place", is_error=True),
        result("Error: gone", is_error=True),
        tools=(LOOK,),
    )
    assert [message["content"] for message in messages[2:]] == ["Error: no such place", "Error: gone"]


def test_names_pass() -> None:
    _, messages = shown(SHOW, Message("user", (TextPart("hi"),), name="ann"))
    assert messages[0]["name"] == "ann"


@pytest.mark.parametrize(("kind", "words"), [("image", "images"), ("audio", "audio"), ("document", "documents")])
def test_media_is_refused_by_message(kind: str, words: str) -> None:
    picture = MediaPart(kind, "data:;base64,AAAA")
    with pytest.raises(InvalidField, match=f"does not take {words}") as caught:
        builder(templates.SMOLLM2).build(chat(say("user", "a"), Message("user", (TextPart("b"), picture))))
    assert caught.value.field == "messages[1].content"
    inside = Message("tool", (ToolResultPart("call_1", (picture,)),))
    with pytest.raises(InvalidField) as caught:
        builder(templates.SMOLLM2).build(chat(inside))
    assert caught.value.field == "messages[0].content"


def test_reasoning_of_the_last_tool_round_is_shown() -> None:
    asked = (say("user", "hi"), call("{}", ReasoningPart("I should look.")), result("rain"))
    some = builder(templates.QWEN3)
    assert "<think>\nI should look.\n</think>" in some.render(chat(*asked, tools=(LOOK,)))
    later = (*asked, say("assistant", "Rain."), say("user", "thanks"))
    assert "I should look." not in some.render(chat(*later, tools=(LOOK,)))


def test_parallel_results_stay_in_order() -> None:
    two = Message(
        "assistant", (ToolCallPart("a", "look", '{"place": "Oslo"}'), ToolCallPart("b", "look", '{"place": "Rome"}'))
    )
    for name in ("qwen3", "smollm2"):
        text = builder(templates.EVERY[name]).render(
            chat(say("user", "hi"), two, result("rain", id="a"), result("sun", id="b"), tools=(LOOK,))
        )
        places = [text.rindex(word) for word in ("Oslo", "Rome", "rain", "sun")]
        assert places == sorted(places)
        assert text.count("<|im_start|>user") == 2


def test_an_empty_conversation_is_rendered_or_refused_clearly() -> None:
    assert builder(templates.SMOLLM2).render(chat()) == "<|im_start|>assistant\n"
