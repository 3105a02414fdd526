"""Completions requests, field by field."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.core.answer import Answer, AnswerPart, Choice
from dragoman.core.errors import InvalidField, InvalidRequest, MissingField
from dragoman.core.events import Started
from dragoman.core.finish import Finish, FinishReason
from dragoman.core.logprobs import LogprobEntry
from dragoman.core.request import InfillInput, RawInput
from dragoman.core.sampling import SamplingSpec
from dragoman.core.usage import Usage
from dragoman.dialects.base import GenerateCall
from dragoman.dialects.openai_completions.endpoints import DIALECT
from dragoman.dialects.openai_completions.read import read_completion
from tests.dialects.answers import CONTEXT
from tests.dialects.wire import captures, post

PATH = "/v1/completions"


def call(**body: Any) -> GenerateCall:
    return read_completion(post(PATH, {"prompt": "Once"} | body))


@pytest.mark.parametrize(
    ("prompt", "pieces"),
    [
        ("Once", ["Once"]),
        ("", [""]),
        (["a", "b"], ["a", "b"]),
        ([1, 2], [(1, 2)]),
        ([[1, 2], [3]], [(1, 2), (3,)]),
        (["a", [3]], ["a", (3,)]),
    ],
)
def test_prompts(prompt: Any, pieces: list[Any]) -> None:
    found = call(prompt=prompt)
    assert [request.input for request in found.requests] == [RawInput((piece,)) for piece in pieces]


@pytest.mark.parametrize(
    ("prompt", "field"),
    [
        ([], "prompt"),
        ([[]], "prompt[0]"),
        ([1, "a"], "prompt[1]"),
        (["a", 1], "prompt[1]"),
        ([-1], "prompt[0]"),
        ([[1], [2, -3]], "prompt[1][1]"),
        (5, "prompt"),
        ({"a": 1}, "prompt"),
        ([True], "prompt[0]"),
        ([[1.5]], "prompt[0][0]"),
        (["x"] * 2049, "prompt"),
    ],
)
def test_bad_prompts(prompt: Any, field: str) -> None:
    with pytest.raises(InvalidField) as caught:
        call(prompt=prompt)
    assert caught.value.field == field


@pytest.mark.parametrize("body", [{}, {"prompt": None}])
def test_prompt_is_required(body: dict[str, Any]) -> None:
    with pytest.raises(MissingField) as caught:
        read_completion(post(PATH, body))
    assert caught.value.field == "prompt"


def test_shared_fields() -> None:
    found = call(prompt=["a", "b"], model="m", n=2, max_tokens=5, stop="x", seed=1, temperature=0, stream=True, zebra=1)
    assert found.stream
    assert found.ignored == ("zebra",)
    for request in found.requests:
        assert (request.model, request.n, request.max_tokens, request.stop) == ("m", 2, 5, ("x",))
        assert request.sampling == SamplingSpec(seed=1, temperature=0.0)


def test_omitted_limit_is_the_room_left() -> None:
    assert call().requests[0].max_tokens is None


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ({}, None),
        ({"logprobs": 0}, 0),
        ({"logprobs": 5}, 5),
        ({"logprobs": -1}, None),
        ({"logprobs": True}, 0),
        ({"logprobs": True, "top_logprobs": 3}, 3),
        ({"logprobs": False}, None),
        ({"top_logprobs": 3}, 3),
    ],
)
def test_logprobs(body: dict[str, Any], wanted: int | None) -> None:
    assert call(**body).requests[0].logprobs == wanted


@pytest.mark.parametrize("body", [{"logprobs": 21}, {"logprobs": -2}, {"logprobs": "5"}])
def test_bad_logprobs(body: dict[str, Any]) -> None:
    with pytest.raises(InvalidField) as caught:
        call(**body)
    assert caught.value.field == "logprobs"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"best_of": 1, "n": 2}, "best_of"),
        ({"best_of": 17}, "best_of"),
        ({"best_of": 2, "stream": True}, "best_of"),
        ({"suffix": "x", "echo": True, "logprobs": 1}, "echo"),
        ({"suffix": "x", "echo": True, "prompt": [1, 2]}, "echo"),
        ({"options": {"temperature": 5}}, "options.temperature"),
        ({"metadata": {"a": 1}}, "metadata.a"),
    ],
)
def test_what_cannot_be_honoured(body: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        call(**body)
    assert caught.value.field == field


def entry(logprob: float) -> LogprobEntry:
    return LogprobEntry(1, "a", b"a", "a", logprob)


def test_the_best_of_several() -> None:
    found = call(prompt=["x", "y"], best_of=3, n=2)
    [first, second] = found.requests
    assert (first.n, first.logprobs, second.n) == (3, 0, 3)
    worth = [(-2.0, -2.0), (-1.0,), (), (-3.0, -5.0), (-4.5,), (-0.5, -0.5)]
    choices = tuple(
        Choice(
            index=index,
            parts=(AnswerPart("text", str(index)),),
            finish=Finish(FinishReason.EOS),
            usage=Usage(5, len(values)),
            logprobs=tuple(entry(value) for value in values),
        )
        for index, values in enumerate(worth)
    )
    body = json.loads(found.writer(CONTEXT).whole(Answer(choices)))
    assert [(choice["index"], choice["text"]) for choice in body["choices"]] == [(0, "1"), (1, "0"), (2, "5"), (3, "3")]
    assert all(choice["logprobs"] is None for choice in body["choices"])
    assert (body["usage"]["prompt_tokens"], body["usage"]["completion_tokens"]) == (10, 8)


def test_a_suffix_makes_a_gap() -> None:
    [text, ids] = call(prompt=["def f(", [1, 2]], suffix="return x").requests
    assert isinstance(text.input, InfillInput)
    assert isinstance(ids.input, InfillInput)
    assert (text.input.prompt.pieces, text.input.suffix) == (("def f(",), "return x")
    assert ids.input.prompt.pieces == ((1, 2),)
    assert text.input.field == "suffix"


def test_what_asks_for_nothing() -> None:
    found = call(suffix="", best_of=2, n=2, echo=False, user="u")
    assert found.ignored == ()


def test_echo_repeats_the_prompt_of_each_choice() -> None:
    found = call(prompt=["Once ", "Twice "], echo=True, n=2)
    finish = Finish(FinishReason.EOS)
    choices = tuple(
        Choice(index=i, parts=(AnswerPart("text", str(i)),), finish=finish, usage=Usage(1, 1)) for i in range(4)
    )
    body = found.writer(CONTEXT).whole(Answer(choices))
    assert [text in body for text in (b'"Once 0"', b'"Once 1"', b'"Twice 2"', b'"Twice 3"')] == [True] * 4


def test_echo_of_token_ids_uses_the_text_of_the_prompt() -> None:
    found = call(prompt=["Once ", [1, 2]], echo=True)
    finish = Finish(FinishReason.EOS)
    choices = tuple(Choice(index=i, parts=(), finish=finish, usage=Usage(1, 1), prompt_text="<s>x") for i in range(2))
    texts = [choice["text"] for choice in json.loads(found.writer(CONTEXT).whole(Answer(choices)))["choices"]]
    assert texts == ["Once ", "<s>x"]
    writer = found.writer(CONTEXT)
    frames = [frame for i in range(2) for frame in writer.frames(Started(i, 1, prompt_text="<s>x"))]
    assert [json.loads(frame.data)["choices"][0]["text"] for frame in frames] == texts


@pytest.mark.parametrize("name", captures(PATH))
def test_recorded_evaluations(name: str) -> None:
    """All are read; those that echo want log probabilities of the prompt, too."""
    wire = captures(PATH)[name]
    found = read_completion(wire)
    assert len(found.requests) in (1, 2)
    assert found.ignored == ()
    scoring = b'"echo": true' in wire.body
    assert all((request.prompt_logprobs is not None) is scoring for request in found.requests)


def test_recordings_hold_both_kinds() -> None:
    bodies = [wire.body for wire in captures(PATH).values()]
    assert {b'"echo": true' in body for body in bodies} == {True, False}


def test_endpoints() -> None:
    assert [(row.method, row.path) for row in DIALECT.endpoints] == [("POST", PATH)]
