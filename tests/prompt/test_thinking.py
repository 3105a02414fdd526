"""Thinking controls: which words reach a template, what it cannot be told, and thoughts it leaves out."""

import pytest

from dragoman.core.messages import Message, ReasoningPart, TextPart
from dragoman.core.request import Thinking
from dragoman.prompt.controls import thinking_of
from dragoman.prompt.efforts import EffortScale, probe_efforts
from dragoman.prompt.reply_format import detect_reply_format
from dragoman.prompt.template import ChatTemplate
from dragoman.prompt.thoughts import ThoughtForm, probe_thoughts
from tests.prompt import templates
from tests.prompt.vocabularies import LOOK, builder, call, chat, result, say, tokenizer

BODY = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
FREE = "Reasoning: {{ reasoning_effort | default('medium') }}\n" + BODY
THREE = (
    "{% if reasoning_effort == 'low' %}Think little.{% elif reasoning_effort == 'xhigh' %}Think hard.{% endif %}"
    "{% if reasoning_effort is defined and reasoning_effort not in ['low', 'medium', 'xhigh'] %}"
    "{{ raise_exception('unknown effort') }}{% endif %}" + BODY
)
SWITCHED = (
    "{% if thinking %}on{% elif thinking is defined %}off{% endif %} {{ thinking_budget | default('-') }} " + BODY
)
KEEPS = "{{ preserve_thinking | default('-') }} {{ clear_thinking | default('-') }} " + BODY
OWN_KEY = "{% for m in messages %}<{{ m.role }}>{{ m.thinking }}|{{ m.content }}{% endfor %}<think></think>"


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (templates.QWEN3, ()),
        (FREE, ("low", "medium", "high")),
        (THREE, ("low", "medium", "xhigh")),
        ("{{ reasoning_effort is defined and '' }}" + BODY, ()),
    ],
)
def test_words_a_template_tells_apart(source: str, words: tuple[str, ...]) -> None:
    assert probe_efforts(ChatTemplate(source)).words == words


@pytest.mark.parametrize(
    ("words", "effort", "word"),
    [
        (("low", "medium", "high"), "minimal", "low"),
        (("low", "medium", "high"), "xhigh", "high"),
        (("low", "medium", "high"), "max", "high"),
        (("low", "medium", "xhigh"), "high", "xhigh"),
        (("low", "high"), "medium", None),
        (("low", "high"), "none", None),
        ((), "high", None),
    ],
)
def test_the_nearest_word(words: tuple[str, ...], effort: str, word: str | None) -> None:
    assert EffortScale(words).word_for(effort) == word


def test_an_effort_reaches_the_prompt_or_is_left_to_the_answer() -> None:
    asked = chat(say("user", "q"), thinking=Thinking("on", "xhigh"))
    spoken, silent = builder(THREE).build(asked), builder(templates.QWEN3).build(asked)
    assert "Think hard." in spoken.text
    assert spoken.thinking.effort is None
    assert silent.thinking == Thinking("on", "xhigh")


def test_switches_and_budgets_by_their_own_names() -> None:
    some = builder(SWITCHED)
    assert some.render(chat(say("user", "q"), thinking=Thinking("on", budget=9))).startswith("on 9")
    assert some.render(chat(say("user", "q"), thinking=Thinking("off"))).startswith("off")
    assert some.render(chat(say("user", "q"), template_kwargs={"enable_thinking": False})).startswith("off")


@pytest.mark.parametrize(
    ("thinking", "kwargs", "expected"),
    [
        (Thinking("on"), {"enable_thinking": False}, Thinking("off")),
        (Thinking("off"), {"thinking": True}, Thinking("on")),
        (Thinking(), {"reasoning_effort": "none"}, Thinking("off", "none")),
        (Thinking("on", "low"), {"reasoning_effort": "high"}, Thinking("on", "high")),
        (Thinking("on", budget=0), {}, Thinking("off", budget=0)),
        (Thinking("on", budget=5), {"thinking_budget": 7}, Thinking("on", budget=7)),
        (Thinking(), {"thinking_budget": True, "enable_thinking": "yes"}, Thinking()),
        (Thinking(), {"preserve_thinking": True}, Thinking(preserve=True)),
        (Thinking(), {"clear_thinking": False}, Thinking(preserve=True)),
    ],
)
def test_wishes_among_template_kwargs(thinking: Thinking, kwargs: dict, expected: Thinking) -> None:
    assert thinking_of(chat(say("user", "q"), thinking=thinking, template_kwargs=kwargs)) == expected


def test_off_closes_a_thought_no_switch_prevents() -> None:
    some = builder(templates.QWEN3_FORCED)
    prompt = some.build(chat(say("user", "q"), thinking=Thinking("off")))
    assert prompt.text.endswith("<|im_start|>assistant\n<think>\n\n</think>\n\n")
    assert not prompt.thinking_open
    assert some.build(chat(say("user", "q"))).thinking_open


def test_a_user_s_tag_is_not_closed() -> None:
    prompt = builder(templates.QWEN3).build(chat(say("user", "<think>"), thinking=Thinking("off")))
    assert prompt.text.count("</think>") == 1


def test_the_form_of_a_thought_is_the_template_s() -> None:
    def form(source: str) -> ThoughtForm:
        return probe_thoughts(ChatTemplate(source), detect_reply_format(source, tokenizer()))

    assert form(templates.QWEN3) == ThoughtForm("<think>\n", "\n</think>\n\n")
    tight = "{% for m in messages %}<think>{{ m.reasoning_content }}</think>{{ m.content }}{% endfor %}"
    assert form(tight) == ThoughtForm("<think>", "</think>")
    assert form("{{ messages[0].content.split('</think>')[-1] }}") == ThoughtForm("<think>\n", "\n</think>\n\n")


HISTORY = (
    say("user", "one"),
    Message("assistant", (ReasoningPart("first thought"), TextPart("1"))),
    say("user", "two"),
    call("{}", ReasoningPart("second thought")),
    result("rain"),
)


def test_old_thoughts_go_as_the_template_wants() -> None:
    text = builder(templates.QWEN3).render(chat(*HISTORY, tools=(LOOK,)))
    assert "first thought" not in text
    assert "<think>\nsecond thought\n</think>" in text


@pytest.mark.parametrize(
    "wish", [{"thinking": Thinking(preserve=True)}, {"template_kwargs": {"preserve_thinking": True}}]
)
def test_all_thoughts_stay_where_that_is_asked(wish: dict) -> None:
    text = builder(templates.QWEN3).render(chat(*HISTORY, tools=(LOOK,), **wish))
    assert "<|im_start|>assistant\n<think>\nfirst thought\n</think>\n\n1<|im_end|>" in text
    assert text.count("second thought") == 1
    assert "\ue0d9" not in text


def test_a_template_with_a_switch_of_its_own_is_told() -> None:
    some = builder(KEEPS)
    assert some.render(chat(say("user", "q"), thinking=Thinking(preserve=True))).startswith("True False")
    assert some.render(chat(say("user", "q"), thinking=Thinking(preserve=False))).startswith("False True")
    assert some.render(chat(say("user", "q"))).startswith("- -")


def test_thoughts_under_the_name_a_template_looks_for() -> None:
    some = builder(OWN_KEY)
    answer = Message("assistant", (ReasoningPart("hm"), TextPart("So.")))
    assert "<assistant>hm|So." in some.render(chat(say("user", "q"), answer))


def test_several_thoughts_of_one_turn_stand_apart() -> None:
    answer = Message("assistant", (ReasoningPart("a"), ReasoningPart(""), TextPart("x"), ReasoningPart("b")))
    text = builder(templates.QWEN3).render(chat(say("user", "q"), answer))
    assert "<think>\na\n\nb\n</think>" in text
