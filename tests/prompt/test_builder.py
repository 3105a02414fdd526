"""Prompts as the engine and the output station get them."""

import json
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.core.errors import EngineFailure, InvalidField, TokenOutOfRange
from dragoman.core.messages import Message, ReasoningPart, TextPart
from dragoman.core.prompt import Prompt
from dragoman.core.request import RawInput, Thinking
from dragoman.prompt.boundary import shared_length
from dragoman.prompt.builder import PromptBuilder
from tests.prompt import templates
from tests.prompt.vocabularies import LOOK, builder, call, chat, decode, result, say, tokenizer

GOLDEN = json.loads((Path(__file__).parent / "data" / "apply_template.json").read_text())
PREFILLED = [name for name in templates.EVERY if name not in ("typed", "text_arguments")]


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: case["name"])
def test_golden_prompts(case: dict) -> None:
    """The recorded exchanges of llama-server build 10622, where a last assistant message is continued."""
    body = case["request"]
    messages = [say(message["role"], message["content"]) for message in body["messages"]]
    primer = body.get("add_generation_prompt", True)
    open_end = messages[-1].role == "assistant"
    prompt = builder(templates.SMOLLM2).build(chat(*messages, add_generation_prompt=primer, continue_final=open_end))
    assert prompt.text == case["prompt"]
    assert prompt.prefill == (messages[-1].text if open_end else "")


@pytest.mark.parametrize("name", list(templates.EVERY))
def test_ids_spell_the_text(name: str) -> None:
    prompt = builder(templates.EVERY[name]).build(chat(say("user", "hello <|im_end|> \U0001f600"), tools=(LOOK,)))
    assert decode(tokenizer(), prompt.ids) == prompt.text
    assert 2 in prompt.ids


@pytest.mark.parametrize("name", PREFILLED)
@pytest.mark.parametrize(
    "text", ["It is", "It is ", "", "two\nlines\n", "say </think> or <|im_end|>", "\u00e9\U0001f600"]
)
def test_the_last_assistant_turn_stays_open(name: str, text: str) -> None:
    prompt = builder(templates.EVERY[name]).build(chat(say("user", "q"), say("assistant", text), continue_final=True))
    assert prompt.text.endswith(text)
    assert prompt.prefill == text
    closed = builder(templates.EVERY[name]).render(chat(say("user", "q"), say("assistant", text)))
    assert prompt.text.count("q") == closed.count("q")


def test_text_that_occurs_before_does_not_confuse_the_end() -> None:
    messages = (say("user", "yes"), say("assistant", "yes"), say("user", "yes"), say("assistant", "yes"))
    prompt = builder(templates.SMOLLM2).build(chat(*messages, continue_final=True))
    assert prompt.text.endswith("<|im_start|>user\nyes<|im_end|>\n<|im_start|>assistant\nyes")
    assert prompt.text.count("yes") == 4


def test_marks_in_the_text_do_not_confuse_the_end() -> None:
    text = "\ue0d9open-turn\ue0da tail"
    prompt = builder(templates.SMOLLM2).build(chat(say("user", text), say("assistant", text), continue_final=True))
    assert prompt.text.endswith("assistant\n" + text)


def test_where_the_template_refuses_an_assistant_at_the_end_the_primer_opens_it() -> None:
    strict = (
        "{% if messages[-1].role != 'user' %}{{ raise_exception('the last message must be of the user') }}{% endif %}"
        "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
        "{% if add_generation_prompt %}<assistant>{% endif %}"
    )
    prompt = builder(strict).build(chat(say("user", "q"), say("assistant", "It"), continue_final=True))
    assert prompt.text == "<user>q<assistant>It"


@pytest.mark.parametrize("messages", [(), (say("user", "q"),), (say("user", "q"), call("{}"))])
def test_what_cannot_be_continued_is_refused(messages: tuple[Message, ...]) -> None:
    with pytest.raises(InvalidField, match="continued") as caught:
        builder(templates.SMOLLM2).build(chat(*messages, continue_final=True))
    assert caught.value.field == "messages"


@pytest.mark.parametrize(
    ("template", "fields", "expected"),
    [
        (templates.QWEN3, {}, False),
        (templates.QWEN3, {"thinking": Thinking(mode="off")}, False),
        (templates.QWEN3_FORCED, {}, True),
        (templates.QWEN3_FORCED, {"add_generation_prompt": False}, False),
        (templates.SMOLLM2, {}, False),
    ],
)
def test_thinking_open_by_the_primer(template: str, fields: dict, expected: bool) -> None:
    assert builder(template).build(chat(say("user", "hi"), **fields)).thinking_open is expected


def test_a_user_who_writes_the_tag_opens_nothing() -> None:
    prompt = builder(templates.QWEN3).build(chat(say("user", "what does <think> mean?")))
    assert not prompt.thinking_open


@pytest.mark.parametrize(
    ("text", "expected"), [("<think>\nso", True), ("<think>so</think>Hi", False), ("Hi", False), ("a <think> b", True)]
)
def test_thinking_open_by_the_prefill(text: str, expected: bool) -> None:
    asked = say("user", "is <think> open?")
    prompt = builder(templates.QWEN3).build(chat(asked, say("assistant", text), continue_final=True))
    assert prompt.thinking_open is expected


def test_thoughts_before_a_prefill_are_closed() -> None:
    turn = Message("assistant", (ReasoningPart("hm"), TextPart("So")))
    prompt = builder(templates.QWEN3).build(chat(say("user", "q"), turn, continue_final=True))
    assert prompt.text.endswith("<think>\nhm\n</think>\n\nSo")
    assert not prompt.thinking_open


@pytest.mark.parametrize("name", ["smollm2", "llama3", "qwen3", "none"])
def test_the_stable_boundary_is_what_the_next_turn_shares(name: str) -> None:
    some = builder(templates.EVERY[name])
    messages = (say("system", "rules"), say("user", "hello world"))
    prompt = some.build(chat(*messages))
    following = some.build(chat(*messages, say("assistant", "A reply."), say("user", "more")))
    assert prompt.stable_boundary == len(prompt.ids)
    assert following.ids[: prompt.stable_boundary] == prompt.ids


def test_the_stable_boundary_leaves_out_what_is_rewritten() -> None:
    some = builder(templates.QWEN3)
    off = {"thinking": Thinking(mode="off")}
    prompt = some.build(chat(say("user", "hello"), **off))
    following = some.build(chat(say("user", "hello"), say("assistant", "A reply."), say("user", "more"), **off))
    boundary = prompt.stable_boundary
    assert boundary is not None
    assert boundary < len(prompt.ids)
    assert following.ids[:boundary] == prompt.ids[:boundary]
    assert decode(tokenizer(), prompt.ids[:boundary]).endswith("<|im_start|>assistant\n")


def test_the_stable_boundary_stops_before_thoughts_that_will_go() -> None:
    some = builder(templates.QWEN3)
    asked = (say("user", "hello"), call("{}", ReasoningPart("I should look.")), result("rain"))
    prompt = some.build(chat(*asked, tools=(LOOK,)))
    following = some.build(chat(*asked, say("assistant", "Rain."), say("user", "more"), tools=(LOOK,)))
    boundary = prompt.stable_boundary
    assert boundary is not None
    assert following.ids[:boundary] == prompt.ids[:boundary]
    assert "I should look" not in decode(tokenizer(), prompt.ids[:boundary])


def test_no_boundary_where_the_next_turn_cannot_be_rendered() -> None:
    once = "{% if messages | length > 1 %}{{ raise_exception('one message') }}{% endif %}{{ messages[0].content }}"
    assert builder(once).build(chat(say("user", "hi"))).stable_boundary is None


@given(st.text(max_size=40), st.text(max_size=40), st.text(max_size=40))
def test_shared_length(common: str, first: str, second: str) -> None:
    left, right = common + first, common + second
    shared = shared_length(left, right)
    assert left[:shared] == right[:shared]
    assert shared == min(len(left), len(right)) or left[shared] != right[shared]


def test_raw_pieces_in_order() -> None:
    some = builder("", add_bos=True)
    prompt = some.build(RawInput(("hello", (5, 6), " world")))
    assert [tokenizer().piece(token) for token in prompt.ids] == [
        "<|begin_of_text|>", "hello", "<|end_header_id|>", "<think>", "\u0120world",
    ]  # fmt: skip
    assert prompt.text == ""
    assert some.build(RawInput(("hello", " world"))).text == "hello world"


def test_raw_ids_come_without_bos() -> None:
    assert builder("", add_bos=True).build(RawInput(((5, 6), "hello"))).ids[:2] == (5, 6)
    assert builder("").build(RawInput(((5,),))) == Prompt(ids=(5,))


@pytest.mark.parametrize("pieces", [(), ("",), ((),)])
def test_raw_nothing_is_an_empty_prompt(pieces: tuple) -> None:
    assert builder("").build(RawInput(pieces)).ids == ()


@pytest.mark.parametrize("token", [-1, 10**6, tokenizer().size])
def test_raw_ids_outside_the_vocabulary_are_refused(token: int) -> None:
    with pytest.raises(TokenOutOfRange) as caught:
        builder("").build(RawInput(((0, token),)))
    assert (caught.value.token, caught.value.field) == (token, "prompt")


@pytest.mark.parametrize(
    ("template", "think", "family"),
    [
        (templates.QWEN3, ("<think>", "</think>"), "hermes"),
        ("{{ '[THINK]' }}{{ '[/THINK]' }}", ("[THINK]", "[/THINK]"), "hermes"),
        (templates.SMOLLM2, ("<think>", "</think>"), "hermes"),
    ],
)
def test_reply_formats(template: str, think: tuple[str, str], family: str) -> None:
    found = builder(template).reply_format
    assert (found.think_open, found.think_close, found.tool_family) == (*think, family)


def test_no_thinking_tags_where_nothing_names_them() -> None:
    tokens = [text.replace("think", "thonk") for text in tokenizer()._pieces]
    found = PromptBuilder(tokenizer.__wrapped__(tokens=tokens), templates.SMOLLM2).reply_format
    assert (found.think_open, found.think_close) == ("", "")


def test_a_broken_template_is_told_at_load() -> None:
    with pytest.raises(EngineFailure, match="cannot be compiled"):
        PromptBuilder(tokenizer(), "{% if %}")


def test_many_threads_get_the_same_prompts() -> None:
    some = PromptBuilder(tokenizer(), templates.QWEN3)
    inputs = [chat(say("user", f"hello {number}"), tools=(LOOK,)) for number in range(8)]
    expected = [some.build(input) for input in inputs]
    wrong: list[int] = []

    def work(number: int) -> None:
        wrong.extend(number for _ in range(10) if some.build(inputs[number]) != expected[number])

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
