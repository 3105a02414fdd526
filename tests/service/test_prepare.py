"""Requests checked against a model: limits, defaults, refusals."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from dragoman.core.errors import ContextLengthExceeded, DragomanError, InvalidField, UnsupportedField
from dragoman.core.messages import Message, TextPart
from dragoman.core.model import Capabilities
from dragoman.core.request import ChatInput, RawInput, Request
from dragoman.core.sampling import SamplingSpec
from dragoman.core.tools import Tool
from dragoman.service.prepare import AnswerLimits, check_bias, check_capabilities, prepare, token_limit
from tests.service.served import scripted

pytestmark = pytest.mark.anyio

RAW = Request(input=RawInput(("hello",)))
ABLE = Capabilities(sampling=frozenset({"temperature"}), logprobs=5)


@pytest.mark.parametrize(
    ("wanted", "n_prompt", "expected"), [(None, 10, 50), (None, 60, 40), (5, 10, 5), (500, 10, 90), (0, 10, 1)]
)
def test_case_27_token_limit(wanted: int | None, n_prompt: int, expected: int) -> None:
    request = Request(input=RAW.input, max_tokens=wanted)
    assert token_limit(request, n_prompt, 100, AnswerLimits(default_max_tokens=50)) == expected


@pytest.mark.parametrize("n_prompt", [100, 101, 5000])
def test_case_28_prompt_that_does_not_fit(n_prompt: int) -> None:
    with pytest.raises(ContextLengthExceeded) as caught:
        token_limit(RAW, n_prompt, 100, AnswerLimits())
    assert (caught.value.n_prompt, caught.value.n_ctx) == (n_prompt, 100)


def test_strict_limit_refuses_what_it_would_clamp() -> None:
    limits = AnswerLimits(strict_max_tokens=True)
    assert token_limit(Request(input=RAW.input, max_tokens=90), 10, 100, limits) == 90
    with pytest.raises(InvalidField, match="at most 90") as caught:
        token_limit(Request(input=RAW.input, max_tokens=91), 10, 100, limits)
    assert caught.value.field == "max_tokens"


CALL = ChatInput(messages=(Message("user", (TextPart("x"),)),), tools=(Tool("t"),))


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (Request(input=RAW.input, sampling=SamplingSpec(top_k=3)), "top_k"),
        (Request(input=RAW.input, logprobs=6), "logprobs"),
    ],
)
def test_what_the_engine_cannot_do_is_refused_by_name(request_: Request, field: str) -> None:
    with pytest.raises(UnsupportedField) as caught:
        check_capabilities(request_, ABLE)
    assert caught.value.field == field


def test_what_the_engine_can_do_passes() -> None:
    check_capabilities(Request(input=CALL, sampling=SamplingSpec(temperature=0.5), logprobs=5), ABLE)


@pytest.mark.parametrize("token", [-1, 10, 10**9])
def test_bias_outside_the_vocabulary(token: int) -> None:
    check_bias(SamplingSpec(logit_bias={0: 1.0, 9: -1.0}), 10)
    with pytest.raises(InvalidField):
        check_bias(SamplingSpec(logit_bias={token: 1.0}), 10)


async def test_defaults_in_order() -> None:
    async with scripted(sampling_defaults=SamplingSpec(temperature=0.1, top_k=1, penalty_window=64)) as model:
        limits = AnswerLimits(sampling=SamplingSpec(temperature=0.2, top_p=0.2))
        asked = Request(input=RAW.input, sampling=SamplingSpec(temperature=0.3))
        got = prepare(model, asked, limits).sampling
        assert got == SamplingSpec(temperature=0.3, top_p=0.2, top_k=1, penalty_window=64)


async def test_prompt_text_spells_out_special_tokens() -> None:
    async with scripted() as model:
        ids = model.tokenizer.encode("<|im_start|>hi", add_special=False, parse_special=True)
        assert prepare(model, Request(input=RawInput((tuple(ids),))), AnswerLimits()).prompt_text == "<|im_start|>hi"


async def test_seeds_count_up() -> None:
    async with scripted() as model:
        work = prepare(model, Request(input=RAW.input, sampling=SamplingSpec(seed=2**64 - 1), n=2), AnswerLimits())
        seeds = [work.engine_request(answer, frozenset()).sampling.seed for answer in range(2)]
        assert seeds == [2**64 - 1, 0]


async def test_refusals_of_the_prompt_station_pass_through() -> None:
    async with scripted() as model:
        with pytest.raises(DragomanError, match="outside the vocabulary"):
            prepare(model, Request(input=RawInput(((10**6,),))), AnswerLimits())


def test_a_window_that_shifts_does_not_bound_the_answer() -> None:
    limits = AnswerLimits(default_max_tokens=500, strict_max_tokens=True)
    assert token_limit(RAW, 90, 100, limits, shift=True) == 500
    assert token_limit(replace(RAW, max_tokens=200), 90, 100, limits, shift=True) == 200
    with pytest.raises(ContextLengthExceeded):
        token_limit(RAW, 100, 100, limits, shift=True)
