"""Conversations that go on from token ids."""

from __future__ import annotations

import pytest

from dragoman.core.errors import TokenOutOfRange
from dragoman.core.messages import Message
from dragoman.core.request import ChatInput
from dragoman.prompt.template import CHATML
from tests.prompt.vocabularies import IM_END, builder, decode, say, tokenizer

BUILDER = builder(CHATML)
FIRST = (say("system", "S"), say("user", "hello"))


def ids_of(*messages: Message, context: tuple[int, ...] = (), template: str = "") -> tuple[int, ...]:
    return BUILDER.build(ChatInput(messages=messages, context=context, template=template)).ids


def answered(text: str, *, ended: bool) -> tuple[int, ...]:
    """The ids a client gets back after an answer."""
    said = tokenizer().encode(text, add_special=False, parse_special=False)
    return (*ids_of(*FIRST), *said, *((IM_END,) if ended else ()))


@pytest.mark.parametrize("ended", [True, False])
def test_it_is_the_prompt_the_turns_would_have(ended: bool) -> None:
    context = answered("world", ended=ended)
    turns = (*FIRST, say("assistant", "world"), say("user", "12"))
    assert ids_of(say("user", "12"), context=context) == ids_of(*turns)


def test_an_instruction_is_not_said_twice() -> None:
    context = answered("world", ended=True)
    assert ids_of(say("system", "S"), say("user", "12"), context=context) == ids_of(say("user", "12"), context=context)
    other = decode(tokenizer(), ids_of(say("system", "Other"), say("user", "12"), context=context))
    assert other.count("Other") == 1
    assert other.index("Other") > other.index("world")


def test_a_template_of_its_own_follows_the_ids() -> None:
    context = answered("world", ended=True)
    ids = ids_of(say("user", "12"), context=context, template="[{{ .Prompt }}]")
    assert decode(tokenizer(), ids[len(context) :]) == "[12]"
    assert decode(tokenizer(), ids_of(say("user", "12"), template="<think>{{ .Prompt }}")) == "<think>12"


def test_the_text_is_all_of_it() -> None:
    prompt = BUILDER.build(ChatInput(messages=(say("user", "12"),), context=answered("world", ended=True)))
    assert prompt.text.startswith("<|im_start|>system")
    assert prompt.text.endswith("<|im_start|>assistant\n")


def test_ids_outside_the_vocabulary() -> None:
    with pytest.raises(TokenOutOfRange) as caught:
        ids_of(say("user", "x"), context=(10**6,))
    assert caught.value.field == "context"


def test_a_template_that_drops_the_answer_is_rendered_as_it_is() -> None:
    last = builder("{{ messages[-1]['content'] }}")
    chat = ChatInput(messages=(say("user", "12"),), context=(8, 9))
    assert decode(tokenizer(), last.build(chat).ids[2:]) == "12"
