"""Tools in our own words, for templates that have none or whose form could not be read back."""

import json
import re

import pytest

from dragoman.core.messages import TextPart
from dragoman.core.tools import Tool, ToolChoice
from tests.prompt import templates
from tests.prompt.vocabularies import LOOK, builder, call, chat, result, say

SMOLLM2 = builder(templates.SMOLLM2)
OTHER_FORM = (
    "{% for t in tools or [] %}{{ t | tojson }}{% endfor %}{% for m in messages %}{{ m.role }}:{{ m.content }}"
    "{% for c in m.tool_calls or [] %}[[CALLS]]{{ c.function.name }}{{ c.function.arguments | tojson }}{% endfor %}"
    "{% endfor %}"
)


def test_the_tools_are_listed_as_json() -> None:
    text = SMOLLM2.render(chat(say("user", "hi"), tools=(LOOK, Tool("bare"))))
    listed = re.search(r"<tools>\n(.*?)\n</tools>", text, re.DOTALL).group(1)
    names = [json.loads(line)["name"] for line in listed.splitlines()]
    assert names == ["look", "bare"]
    assert '{"name": "function_name", "arguments": {"argument_name": "value"}}' in text


def test_they_follow_the_system_text() -> None:
    text = SMOLLM2.render(chat(say("system", "Be brief."), say("user", "hi"), tools=(LOOK,)))
    assert text.startswith("<|im_start|>system\nBe brief.\n\nYou can call functions.")
    assert text.count("<|im_start|>system") == 1


def test_without_a_system_role_they_head_the_first_user_turn() -> None:
    text = builder(templates.GEMMA).render(chat(say("user", "hi"), tools=(LOOK,)))
    assert "<start_of_turn>user\nYou can call functions." in text
    assert "\n\nhi<end_of_turn>" in text


def test_calls_and_results_are_written_in_the_same_form() -> None:
    text = SMOLLM2.render(
        chat(say("user", "hi"), call('{"place": "Oslo"}', TextPart("One moment.")), result("rain"), tools=(LOOK,))
    )
    assert (
        '<|im_start|>assistant\nOne moment.\n<tool_call>\n{"name": "look", "arguments": {"place": "Oslo"}}\n'
        "</tool_call>"
        "<|im_end|>\n<|im_start|>user\n<tool_response>\nrain\n</tool_response><|im_end|>\n"
    ) in text


def test_history_without_tools_needs_no_instructions() -> None:
    text = SMOLLM2.render(chat(say("user", "hi"), call("{}"), result("rain")))
    assert "You can call functions" not in text
    assert "<tool_response>\nrain" in text


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        (ToolChoice("required"), "In this reply you must call a function."),
        (ToolChoice("named", ("look",)), "In this reply you must call look."),
    ],
)
def test_a_wanted_call_is_asked_for(choice: ToolChoice, words: str) -> None:
    assert words in SMOLLM2.render(chat(say("user", "hi"), tools=(LOOK,), tool_choice=choice))
    assert "In this reply" not in SMOLLM2.render(chat(say("user", "hi"), tools=(LOOK,)))


def test_one_call_at_a_time_is_asked_for() -> None:
    assert "at most one call" in SMOLLM2.render(chat(say("user", "hi"), tools=(LOOK,), parallel_tool_calls=False))
    assert "at most one call" not in SMOLLM2.render(chat(say("user", "hi"), tools=(LOOK,)))


def test_tools_that_may_not_be_called_are_not_described() -> None:
    plain = SMOLLM2.render(chat(say("user", "hi")))
    assert SMOLLM2.render(chat(say("user", "hi"), tools=(LOOK,), tool_choice=ToolChoice("none"))) == plain


def test_a_form_nobody_could_read_back_is_not_used() -> None:
    some = builder(OTHER_FORM)
    assert some.template_caps.tools
    assert some.template_caps.tool_calls
    assert not some.native_tools
    assert some.reply_format.tool_family == "hermes"
    text = some.render(chat(say("user", "hi"), call("{}"), result("rain"), tools=(LOOK,)))
    assert "[[CALLS]]" not in text
    assert "<tool_call>" in text


def test_a_form_that_can_be_read_back_is_used() -> None:
    some = builder(templates.QWEN3)
    assert some.native_tools
    assert "You can call functions" not in some.render(chat(say("user", "hi"), tools=(LOOK,)))
