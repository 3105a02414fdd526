"""Case 31 and its kin: what a turn's prompt says it will share with the next turn's, it does share.

Conversations are made up at random and grown turn by turn; clients spell them anew each time, with keys in another
order and other call ids.
"""

from __future__ import annotations

import json
import random
from functools import lru_cache
from itertools import pairwise

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from dragoman.core.messages import Message, ReasoningPart, TextPart, ToolCallPart, ToolResultPart
from dragoman.core.request import ChatInput, Thinking
from dragoman.core.tools import Tool
from dragoman.prompt.builder import PromptBuilder
from dragoman.prompt.byte_level import CHARACTER_OF_BYTE
from dragoman.prompt.gguf import gguf_tokenizer
from tests.prompt import templates
from tests.prompt.vocabularies import CONTROL, USER_DEFINED, byte_vocabulary, decode

TURNS = ("<start_of_turn>", "<end_of_turn>", "[INST]", "[/INST]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]")
PHASES = (Phase.explicit, Phase.reuse, Phase.generate)
MERGES = ("Ċ Ċ", "> Ċ", "s t", "Ġ x", ". Ċ", "h e", "l l", "he ll", "hell o")
MISTRAL_TOOLS = (
    "{{ bos_token }}"
    "{% if tools %}{{ '[AVAILABLE_TOOLS]' + (tools | tojson) + '[/AVAILABLE_TOOLS]' }}{% endif %}"
    "{% for m in messages %}"
    "{% if m.role in ('user', 'system') %}{{ '[INST]' + m.content + '[/INST]' }}"
    "{% elif m.role == 'tool' %}"
    "{% if m.tool_call_id | length != 9 %}{{ raise_exception('ids have length 9') }}{% endif %}"
    "{{ '[TOOL_RESULTS]{\"content\": ' + (m.content | tojson) }}"
    "{{ ', \"call_id\": \"' + m.tool_call_id + '\"}[/TOOL_RESULTS]' }}"
    "{% else %}{{ m.content }}"
    "{% for c in m.tool_calls or [] %}"
    "{% if c.id | length != 9 %}{{ raise_exception('ids have length 9') }}{% endif %}"
    "{{ '<tool_call>{\"name\": ' + (c.function.name | tojson) }}"
    "{{ ', \"arguments\": ' + (c.function.arguments | tojson) }}"
    "{{ ', \"id\": ' + (c.id | tojson) + '}</tool_call>' }}"
    "{% endfor %}{{ eos_token }}"
    "{% endif %}{% endfor %}"
)
FAMILIES = {
    "chatml": templates.SMOLLM2,
    "llama3": templates.LLAMA3,
    "mistral": templates.MISTRAL,
    "mistral_tools": MISTRAL_TOOLS,
    "gemma": templates.GEMMA,
    "qwen3": templates.QWEN3,
    "qwen3_forced": templates.QWEN3_FORCED,
    "none": "",
}
REWRITES = {"qwen3", "qwen3_forced"}
"""Families whose templates take thoughts out of earlier turns."""
SCHEMA = {
    "type": "object",
    "properties": {
        "place": {"type": "string", "description": "Where."},
        "n": {"type": "integer", "default": {"b": 1, "a": 2}},
    },
    "required": ["place"],
    "additionalProperties": False,
}


@lru_cache
def builder(name: str) -> PromptBuilder:
    tokens = [
        *CONTROL,
        *TURNS,
        *USER_DEFINED,
        *CHARACTER_OF_BYTE.values(),
        *(merge.replace(" ", "") for merge in MERGES),
    ]
    plain = len(tokens) - len(CONTROL) - len(TURNS) - len(USER_DEFINED)
    types = [3] * (len(CONTROL) + len(TURNS)) + [4] * len(USER_DEFINED) + [1] * plain
    vocabulary = byte_vocabulary(tokens=tokens, types=types, merges=list(MERGES))
    return PromptBuilder(gguf_tokenizer(vocabulary), FAMILIES[name])


def shuffled(value: object, chance: random.Random) -> object:
    """The same JSON with its keys in another order."""
    if isinstance(value, dict):
        keys = list(value)
        chance.shuffle(keys)
        return {key: shuffled(value[key], chance) for key in keys}
    return [shuffled(item, chance) for item in value] if isinstance(value, list) else value


TEXT = st.sampled_from(
    ["hello", "Yes.", "\n\nx", " x", "x", "st\n", "1", "# head\n\ntext", "<b>", "é😀", "hello hello."]
)
ROUND = st.tuples(
    TEXT,  # what the user asks
    st.lists(st.tuples(st.sampled_from(["", "hm", "so\n\nthen"]), st.integers(1, 2), TEXT), max_size=2),  # tool rounds
    st.sampled_from(["", "I know."]),  # the last thought
    TEXT,  # the answer
    st.booleans(),  # a reminder of the system afterwards
)


def turns_of(rounds: list, seed: int) -> list[Message]:
    """All messages of a conversation, as a client with its own ids writes them."""
    messages = [Message("system", (TextPart("rules"),))]
    for at, (asked, loops, thought, answer, reminded) in enumerate(rounds):
        messages.append(Message("user", (TextPart(asked),)))
        for step, (why, calls, result) in enumerate(loops):
            ids = [f"{seed}-{at}-{step}-{call}" for call in range(calls)]
            parts = tuple(ToolCallPart(ident, "look", json.dumps({"place": asked, "n": 1})) for ident in ids)
            messages.append(Message("assistant", (*([ReasoningPart(why)] if why else []), *parts)))
            messages += [Message("tool", (ToolResultPart(ident, (TextPart(result),)),)) for ident in ids]
        messages.append(Message("assistant", (*([ReasoningPart(thought)] if thought else []), TextPart(answer))))
        if reminded:
            messages.append(Message("system", (TextPart("remember"),)))
    return messages


def chat(messages: list[Message], seed: int, **fields: object) -> ChatInput:
    parameters = shuffled(SCHEMA, random.Random(seed))
    return ChatInput(messages=tuple(messages), tools=(Tool("look", "Looks.", parameters),), **fields)  # type: ignore[arg-type]


def requests_of(rounds: list, seed: int, **fields: object) -> list[ChatInput]:
    """What the client sends, one request for every answer of the model."""
    messages = turns_of(rounds, seed)
    return [
        chat(turns_of(rounds, seed + at)[:at], seed + at, **fields)
        for at, message in enumerate(messages)
        if message.role == "assistant"
    ]


@pytest.mark.parametrize("name", FAMILIES)
@settings(max_examples=20, deadline=None, phases=PHASES)
@given(rounds=st.lists(ROUND, min_size=1, max_size=3), seed=st.integers(0, 1000))
def test_no_boundary_claims_too_much(name: str, rounds: list, seed: int) -> None:
    prompts = [builder(name).build(request) for request in requests_of(rounds, seed)]
    for before, after in pairwise(prompts):
        assert before.stable_boundary is not None
        assert after.ids[: before.stable_boundary] == before.ids[: before.stable_boundary]


@pytest.mark.parametrize("name", [name for name in FAMILIES if name not in REWRITES])
@settings(max_examples=20, deadline=None, phases=PHASES)
@given(rounds=st.lists(ROUND, min_size=1, max_size=3), seed=st.integers(0, 1000))
def test_where_nothing_is_rewritten_the_boundary_is_all_but_the_last_token_or_two(
    name: str, rounds: list, seed: int
) -> None:
    for request in requests_of(rounds, seed):
        prompt = builder(name).build(request)
        assert prompt.stable_boundary is not None
        assert prompt.stable_boundary >= len(prompt.ids) - 12


@pytest.mark.parametrize("name", REWRITES)
@settings(max_examples=20, deadline=None, phases=PHASES)
@given(rounds=st.lists(ROUND, min_size=1, max_size=3), seed=st.integers(0, 1000))
def test_kept_thoughts_keep_the_prefix(name: str, rounds: list, seed: int) -> None:
    """With every thought kept, templates that rewrite history no longer do, up to the opener of a forced thought."""
    some = builder(name)
    prompts = [some.build(request) for request in requests_of(rounds, seed, thinking=Thinking(preserve=True))]
    for before, after in pairwise(prompts):
        text = before.text.removesuffix("<think>\n")
        assert after.text.startswith(text)


@pytest.mark.parametrize("name", FAMILIES)
def test_the_spelling_of_the_client_does_not_matter(name: str) -> None:
    rounds = [("hello", [("hm", 2, "x")], "", "Yes.", True)]
    spelled = {builder(name).build(chat(turns_of(rounds, seed), seed)).ids for seed in range(8)}
    assert len(spelled) == 1


def test_call_ids_fit_templates_that_count_their_letters() -> None:
    text = builder("mistral_tools").render(chat(turns_of([("hello", [("", 2, "x")], "", "Yes.", False)], 1), 1))
    assert '"id": "call00000"}' in text
    assert '"call_id": "call00001"}' in text


def test_a_boundary_before_text_that_may_melt_into_the_answer() -> None:
    """The line break that ends the primer becomes another token when the answer begins with one."""
    prompt = builder("chatml").build(chat([Message("user", (TextPart("hi"),))], 1))
    assert prompt.text.endswith("assistant\n")
    assert prompt.stable_boundary == len(prompt.ids) - 1
    assert decode(builder("chatml")._tokenizer, prompt.ids[: prompt.stable_boundary]).endswith("assistant")
