"""Requests as llama.cpp's fields, and recorded frames as core's structs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.backend.llamacpp.wire import (
    MINUS_INFINITY,
    Entry,
    Frame,
    SlotNow,
    distribution_body,
    finish_of,
    logprobs_of,
    progress_of,
    read_frame,
    read_props,
    work_of,
)
from dragoman.core.errors import EngineFailure
from dragoman.core.exchange import EngineFinish, EngineRequest, Progress, Shift
from dragoman.core.logprobs import TokenLogprob
from dragoman.core.request import CacheHints
from dragoman.core.sampling import SamplingSpec
from tests.backend.llamacpp.recorded import answer, frames


def request(**fields: Any) -> EngineRequest:
    return EngineRequest(**({"id": "r", "prompt": (5, 6), "max_tokens": 10} | fields))


def streamed(answered: tuple[int, ...] = (), leg: int = 0, **fields: Any) -> dict[str, Any]:
    return json.loads(work_of(request(**fields), 4096).streamed(answered, leg))


def test_a_stream_asks_for_ids_progress_and_the_limit() -> None:
    body = streamed()
    assert body["prompt"] == [5, 6]
    assert (body["n_predict"], body["stream"], body["return_progress"], body["cache_prompt"]) == (10, True, True, True)
    assert not {"stop", "n_probs", "seed", "logit_bias", "grammar"} & set(body)


def test_a_later_leg_continues_after_the_answered_tokens() -> None:
    body = streamed((7, 8, 9), 2, sampling=SamplingSpec(seed=1), cache=CacheHints(reuse=False))
    assert body["prompt"] == [5, 6, 7, 8, 9]
    assert body["n_predict"] == 7
    assert body["seed"] != 1
    assert body["cache_prompt"], "what the first leg left in the slot is the request's own"


def test_reuse_can_be_forbidden() -> None:
    assert streamed(cache=CacheHints(reuse=False))["cache_prompt"] is False


@pytest.mark.parametrize(("wanted", "sent"), [(0, 1), (1, 1), (5, 5)])
def test_logprobs_always_include_the_chosen_token(wanted: int, sent: int) -> None:
    assert streamed(logprobs=wanted)["n_probs"] == sent


def test_a_huge_limit_fits_the_wire() -> None:
    assert streamed(max_tokens=2**40)["n_predict"] == 2**31 - 1


def test_whole_answers_name_their_ids() -> None:
    body = json.loads(work_of(request(logprobs=3), 4096).whole((1, 2), 1, 20))
    assert (body["n_predict"], body["return_tokens"]) == (8, True)
    assert "n_probs" not in body
    assert "stream" not in body


def test_a_distribution_is_asked_for_with_a_whole_letter() -> None:
    body = json.loads(distribution_body([1, 2], 300))
    assert (body["n_probs"], body["n_predict"], body["grammar"]) == (300, 1, 'root ::= "a"')


def test_recorded_frames_are_read() -> None:
    read = [read_frame(frame) for frame in frames("stream_normal")]
    assert [frame.tokens for frame in read] == [(7042,), (30,), (198,), (198,), (504,), (1797,), (1918,), (553,), ()]
    assert "".join(frame.content for frame in read) == " Paris.\n\nThe United States has"
    assert [frame.stop for frame in read] == [False] * 8 + [True]
    assert finish_of(read[-1]) is EngineFinish.LENGTH
    timings = read[-1].timings
    assert timings is not None
    assert timings.prompt_ms > 0


def test_recorded_ends() -> None:
    assert finish_of(read_frame(frames("stream_eos")[-1])) is EngineFinish.EOS
    truncated = read_frame(json.dumps(answer("context_fill_truncated")["body"]).encode())
    assert finish_of(truncated) is EngineFinish.CONTEXT
    with pytest.raises(EngineFailure, match="word"):
        finish_of(read_frame(b'{"stop":true,"stop_type":"word"}'))


def test_recorded_withheld_tokens_show_in_the_count() -> None:
    read = [read_frame(frame) for frame in frames("stream_emoji_partial_utf8")]
    assert [(frame.tokens, frame.tokens_predicted) for frame in read] == [((218,), 3), ((218,), 6), ((), 8)]


def test_recorded_progress() -> None:
    first = read_frame(frames("stream_return_progress_with_cache")[0]).prompt_progress
    assert first is not None
    assert progress_of(first) == Progress(632, 630, 630, 0)


def test_recorded_logprobs() -> None:
    entry = read_frame(frames("n_probs_3_stream")[0]).completion_probabilities[0]
    told = logprobs_of(entry, 2)
    assert told.chosen == TokenLogprob(7042, pytest.approx(-0.2588999))  # type: ignore[arg-type]
    assert [rival.id for rival in told.top] == [7042, 260]
    assert logprobs_of(entry, 0).top == ()


def test_minus_infinity_is_finite() -> None:
    assert logprobs_of(Entry(4, -3.4028234663852886e38), 0).chosen == TokenLogprob(4, MINUS_INFINITY)


@pytest.mark.parametrize("broken", [b"", b"[]", b'{"tokens":["x"]}', b"{"])
def test_what_is_not_a_frame_is_a_failure(broken: bytes) -> None:
    with pytest.raises(EngineFailure):
        read_frame(broken)


def test_props_of_something_else_are_a_failure() -> None:
    assert read_props(b'{"default_generation_settings":{"n_ctx":64},"total_slots":2}').total_slots == 2
    with pytest.raises(EngineFailure, match="/props"):
        read_props(b'{"hello":1}')


def test_a_slot_is_recognised_by_the_length_of_its_prompt() -> None:
    slot = SlotNow(is_processing=True, n_prompt_tokens=36, next_token=[SlotNow.Next(33)])
    assert slot.runs(3)
    assert not slot.runs(9)
    assert not SlotNow(is_processing=False, n_prompt_tokens=36, next_token=[SlotNow.Next(33)]).runs(3)
    assert SlotNow().decoded == 0


def test_a_window_that_shifts_is_told_how_and_ends_nothing() -> None:
    body = streamed(shift=Shift(keep=-1, discard=3))
    assert (body["n_keep"], body["n_discard"]) == (-1, 3)
    assert not {"n_keep", "n_discard"} & set(streamed())
    frame = Frame(stop=True, stop_type="limit", truncated=True)
    assert (finish_of(frame), finish_of(frame, shifts=True)) == (EngineFinish.CONTEXT, EngineFinish.LENGTH)
