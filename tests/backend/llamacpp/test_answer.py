"""Answers against a stub that withholds what llama.cpp withholds."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.backend.llamacpp.wire import MINUS_INFINITY
from dragoman.core.errors import EngineFailure, InvalidRequest, Overloaded
from dragoman.core.exchange import EngineFinish, Progress
from dragoman.core.sampling import SamplingSpec
from tests.backend.llamacpp.rig import ask, chunks_of, ids_of, serving
from tests.support.llama_stub import EOS, Stub, counting_plan, logprob_of, text_plan, token_plan

pytestmark = pytest.mark.anyio


async def test_streams_every_token_then_the_report() -> None:
    async with serving(Stub(plan=text_plan("Paris."))) as (backend, _):
        chunks = await chunks_of(backend, ask(max_tokens=20, stop_tokens=frozenset({EOS})))
    assert ids_of(chunks) == [*b"Paris.", EOS]
    assert chunks[0].started == 0
    assert [chunk.started for chunk in chunks[1:]] == [None] * (len(chunks) - 1)
    assert chunks[-1].finish is EngineFinish.EOS
    report = chunks[-1].report
    assert report is not None
    assert (report.prompt_tokens, report.completion_tokens, report.slot) == (1, 7, 1)
    assert (report.prompt_ms, report.predicted_ms) == (12.5, 34.5)


async def test_limit_and_full_window_end_differently() -> None:
    async with serving(Stub(plan=counting_plan, n_ctx=32)) as (backend, _):
        limited = await chunks_of(backend, ask(max_tokens=3))
        full = await chunks_of(backend, ask(prompt=[1] * 30, max_tokens=9))
    assert (len(ids_of(limited)), limited[-1].finish) == (3, EngineFinish.LENGTH)
    assert (len(ids_of(full)), full[-1].finish) == (2, EngineFinish.CONTEXT)


async def test_progress_is_told_only_when_asked_for() -> None:
    async with serving() as (backend, _):
        silent = await chunks_of(backend, ask(prompt=[1, 2, 3]))
        told = await chunks_of(backend, ask(prompt=[1, 2, 3], progress=True))
    assert [chunk.progress for chunk in silent] == [None] * len(silent)
    assert [chunk.progress for chunk in told if chunk.progress] == [Progress(3, 0, 0, 0.5), Progress(3, 0, 3, 0.5)]
    assert all(not chunk.tokens for chunk in told if chunk.progress)


async def test_a_stop_token_the_engine_does_not_know_ends_the_answer() -> None:
    stub = Stub(plan=token_plan(list(b"abcdef")))
    async with serving(stub) as (backend, _):
        chunks = await chunks_of(backend, ask(max_tokens=6, stop_tokens=frozenset(b"c")))
    assert ids_of(chunks) == list(b"abc")
    assert chunks[-1].finish is EngineFinish.EOS
    assert chunks[-1].report is not None
    assert chunks[-1].report.completion_tokens == 3


async def test_a_stop_token_as_the_last_one_allowed() -> None:
    async with serving(Stub(plan=token_plan(list(b"abcdef")))) as (backend, _):
        chunks = await chunks_of(backend, ask(max_tokens=3, stop_tokens=frozenset(b"c")))
    assert (ids_of(chunks), chunks[-1].finish) == (list(b"abc"), EngineFinish.EOS)


async def test_ignore_eos_makes_stop_tokens_plain_tokens() -> None:
    sampling = SamplingSpec(temperature=0.0, ignore_eos=True)
    async with serving(Stub(plan=token_plan(list(b"abcdef")))) as (backend, _):
        chunks = await chunks_of(backend, ask(max_tokens=5, stop_tokens=frozenset(b"c"), sampling=sampling))
    assert (ids_of(chunks), chunks[-1].finish) == (list(b"abcde"), EngineFinish.LENGTH)


async def test_withheld_ids_come_with_the_token_that_completes_the_character() -> None:
    stub = Stub(plan=text_plan("a😀é"))
    async with serving(stub) as (backend, _):
        chunks = await chunks_of(backend, ask(max_tokens=50))
    assert [bytes(chunk.tokens).decode() for chunk in chunks if chunk.tokens and EOS not in chunk.tokens] == [
        "a",
        "😀",
        "é",
    ]
    assert len(stub.received) == 1


async def test_an_unfinished_character_at_the_limit_keeps_its_tokens() -> None:
    async with serving(Stub(plan=text_plan("ab😀"))) as (backend, _):
        chunks = await chunks_of(backend, ask(max_tokens=4))
    assert ids_of(chunks) == list("ab😀".encode()[:4])
    assert chunks[-1].finish is EngineFinish.LENGTH
    assert chunks[-1].report is not None
    assert chunks[-1].report.completion_tokens == 4


async def test_an_answer_that_withholds_without_end_is_taken_up_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.backend.llamacpp.answer._PATIENCE", 0.05)
    text = b"ab\xf0\x9fcd" + b"e" * 60
    stub = Stub(plan=text_plan(text), step=0.002)
    stub.never_final = True
    async with serving(stub) as (backend, _):
        tokens: list[int] = []
        stream = await backend.submit(ask(max_tokens=500))
        async for chunk in stream:
            tokens += chunk.tokens
            if len(tokens) >= len(text):
                await stream.aclose()
    assert bytes(tokens[: len(text)]) == text
    assert stub.dropped >= 1


async def test_silence_is_put_up_with_where_slots_are_hidden_or_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.backend.llamacpp.answer._PATIENCE", 0.01)
    for show in (True, False):
        stub = Stub(plan=text_plan("abc"), step=0.05, show_slots=show)
        async with serving(stub) as (backend, _):
            chunks = await chunks_of(backend, ask(max_tokens=9))
        assert ids_of(chunks) == [*b"abc", EOS]
        assert len(stub.received) == 1, "a slow answer must not be taken for a withheld one"


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.one_of(st.text(max_size=4).map(str.encode), st.binary(min_size=1, max_size=3)), max_size=6).map(
        b"".join
    ),
    st.integers(1, 24),
    st.sampled_from([None, 0, 2]),
    st.sampled_from([None, 1, 7]),
)
def test_every_id_arrives_whatever_the_bytes(text: bytes, limit: int, logprobs: int | None, split: int | None) -> None:
    async def run() -> None:
        stub = Stub(plan=text_plan(text), split=split)
        async with serving(stub) as (backend, _):
            chunks = await chunks_of(backend, ask(max_tokens=limit, logprobs=logprobs))
        everything = [*text, EOS]
        assert ids_of(chunks) == everything[:limit]
        ended = EngineFinish.EOS if limit >= len(everything) else EngineFinish.LENGTH
        assert chunks[-1].finish is ended
        assert [chunk.finish for chunk in chunks[:-1]] == [None] * (len(chunks) - 1)
        entries = [entry for chunk in chunks for entry in chunk.logprobs]
        if logprobs is None:
            assert entries == []
        else:
            assert [entry.chosen.id for entry in entries] == ids_of(chunks)
            assert {entry.chosen.logprob for entry in entries} == {logprob_of(0)}
            assert all(len(entry.top) == logprobs for entry in entries)

    asyncio.run(run())


async def test_legs_after_the_first_get_seeds_of_their_own() -> None:
    stub = Stub(plan=text_plan(b"a\xf0\x9fb"))
    async with serving(stub) as (backend, _):
        chunks = await chunks_of(backend, ask(max_tokens=4, sampling=SamplingSpec(seed=7)))
    assert ids_of(chunks) == list(b"a\xf0\x9fb")
    seeds = [body["seed"] for body in stub.received]
    assert seeds[0] == 7
    assert len(set(seeds)) == len(seeds) > 1


async def test_refusals_become_errors_of_core() -> None:
    stub = Stub()
    async with serving(stub) as (backend, _):
        stub.status["/completion"] = (400, {"error": {"message": "Prompt contains invalid tokens", "code": 400}})
        with pytest.raises(InvalidRequest, match="Prompt contains invalid tokens"):
            await chunks_of(backend, ask())
        assert backend.stats().failed == 1


async def test_error_frames_in_the_middle_are_failures() -> None:
    async with serving(Stub(error_after=2)) as (backend, _):
        stream = await backend.submit(ask())
        with pytest.raises(EngineFailure, match=r"Compute error\.$"):
            async for _chunk in stream:
                pass
        assert backend.stats().failed == 1
        assert [chunk async for chunk in stream] == []


async def test_a_repeated_call_after_a_cancelled_one_loses_nothing() -> None:
    stub = Stub(plan=text_plan("abc😀def"), step=0.004)
    async with serving(stub) as (backend, _):
        stream = await backend.submit(ask(max_tokens=30, stop_tokens=frozenset({EOS})))
        tokens: list[int] = []
        while True:
            try:
                chunk = await asyncio.wait_for(anext(stream), 0.001)
            except TimeoutError:
                continue
            tokens += chunk.tokens
            if chunk.finish:
                break
    assert tokens == [*"abc😀def".encode(), EOS]


async def test_the_least_length_is_a_leg_in_which_nothing_ends_the_answer() -> None:
    def plan(prompt: list[int], body: dict[str, Any]) -> list[int]:
        text = [*b"abcdef"][len(prompt) - 1 :]
        return text if body["ignore_eos"] else [EOS]

    stub = Stub(plan=plan)
    sampling = SamplingSpec(temperature=0.0, min_tokens=3, seed=5, logit_bias={7: 1.0})
    async with serving(stub) as (backend, _):
        chunks = await chunks_of(backend, ask(max_tokens=9, stop_tokens=frozenset({EOS}), sampling=sampling))
    assert (ids_of(chunks), chunks[-1].finish) == ([*b"abc", EOS], EngineFinish.EOS)
    first, second = stub.received
    assert (first["n_predict"], first["logit_bias"]) == (3, [[7, 1.0], [EOS, False]])
    assert (second["n_predict"], second["ignore_eos"], second["logit_bias"]) == (6, False, [[7, 1.0]])
    assert second["prompt"] == [1, *b"abc"]
    assert second["seed"] != first["seed"] == 5
    assert [chunk.started for chunk in chunks if chunk.started is not None] == [0]


@pytest.mark.parametrize(("least", "most"), [(4, 4), (9, 4), (0, 4)])
async def test_a_least_length_that_is_the_limit_ends_there(least: int, most: int) -> None:
    stub = Stub(plan=token_plan(list(b"abcdefghij")))
    sampling = SamplingSpec(temperature=0.0, min_tokens=least)
    async with serving(stub) as (backend, _):
        chunks = await chunks_of(backend, ask(max_tokens=most, sampling=sampling))
    assert (ids_of(chunks), chunks[-1].finish) == (list(b"abcd"), EngineFinish.LENGTH)
    assert len(stub.received) == 1


async def test_a_least_length_inside_a_character_loses_nothing() -> None:
    text = "a😀b"
    stub = Stub(plan=text_plan(text))
    sampling = SamplingSpec(temperature=0.0, min_tokens=3)
    async with serving(stub) as (backend, _):
        chunks = await chunks_of(backend, ask(max_tokens=20, stop_tokens=frozenset({EOS}), sampling=sampling))
    assert (ids_of(chunks), chunks[-1].finish) == ([*text.encode(), EOS], EngineFinish.EOS)


GRAMMAR = "%llguidance {}\nstart: /(.|\\n)*/\n"


async def test_a_constrained_answer_stays_in_its_leg() -> None:
    stub = Stub(plan=text_plan("a😀é"), guidance=True)
    async with serving(stub) as (backend, _):
        whole = await chunks_of(backend, ask(max_tokens=50, grammar=GRAMMAR, logprobs=1))
        cut = await chunks_of(backend, ask(max_tokens=3, grammar=GRAMMAR))
    assert ids_of(whole) == [*"a😀é".encode(), EOS]
    assert [entry.chosen.id for chunk in whole for entry in chunk.logprobs] == ids_of(whole)
    assert (ids_of(cut), cut[-1].finish) == (list(b"a"), EngineFinish.LENGTH)
    assert len([body for body in stub.received if body.get("stream")]) == 2


async def test_a_constrained_answer_that_is_kept_back_is_an_error_not_a_wrong_text(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dragoman.backend.llamacpp.answer._PATIENCE", 0.05)
    stub = Stub(plan=text_plan(b"ab\xf0\x9fcd" + b"e" * 60), step=0.002, guidance=True, never_final=True)
    async with serving(stub) as (backend, _):
        with pytest.raises(EngineFailure, match="constrained"):
            await chunks_of(backend, ask(max_tokens=500, grammar=GRAMMAR))


async def test_what_sampling_left_is_not_asked_for_token_by_token() -> None:
    stub = Stub(plan=text_plan("é"))
    async with serving(stub) as (backend, _):
        chunks = await chunks_of(backend, ask(max_tokens=2, logprobs=1, post_sampling=True))
    entries = [entry for chunk in chunks for entry in chunk.logprobs]
    assert [entry.chosen.logprob for entry in entries] == [MINUS_INFINITY, pytest.approx(logprob_of(0))]
    assert stub.received[0]["post_sampling_probs"] is True


FULL = {"code": 500, "message": "Context size has been exceeded.", "type": "server_error"}


async def test_a_window_that_slots_filled_together_ends_an_answer_that_has_begun() -> None:
    async with serving(Stub(error=FULL, error_after=3)) as (backend, _):
        chunks = await chunks_of(backend, ask(max_tokens=20))
    assert (len(ids_of(chunks)), chunks[-1].finish) == (3, EngineFinish.CONTEXT)
    assert chunks[-1].report is not None


async def test_a_window_that_slots_filled_together_refuses_an_answer_that_has_not() -> None:
    async with serving(Stub(error=FULL, error_after=0)) as (backend, _):
        with pytest.raises(Overloaded) as caught:
            await chunks_of(backend, ask(max_tokens=20))
    assert caught.value.retry_after


async def test_drafts_are_reported() -> None:
    async with serving(Stub(timings={"draft_n": 12, "draft_n_accepted": 7})) as (backend, _):
        chunks = await chunks_of(backend, ask())
    report = chunks[-1].report
    assert report is not None
    assert (report.drafted, report.accepted) == (12, 7)
