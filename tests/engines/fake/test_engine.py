"""The scripted engine, driven by hand."""

from __future__ import annotations

import math
import subprocess
import sys
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.core.errors import EngineFailure, InvalidRequest
from dragoman.core.logprobs import TokenLogprobs
from dragoman.core.sampling import SamplingSpec
from dragoman.engines.base import Engine, RowSpec, RowStep
from dragoman.engines.fake import FakeEngine, FakeRule, FakeScript, ScriptedPiece

TOY = FakeEngine(FakeScript(default="logits"), lanes=1024)


def conforms(engine: Engine) -> Engine:
    return engine


def run(
    engine: FakeEngine, prompt: str, count: int, *, row: int = 0, logprobs: int | None = None, **sampling: object
) -> list[RowStep]:
    """`count` steps of one row, the prompt prefilled in one go."""
    ids = tuple(engine.tokenizer.encode(prompt, add_special=True, parse_special=True))
    spec = SamplingSpec(**{"seed": 1, **sampling})  # type: ignore[arg-type]
    engine.open(row, RowSpec(prompt=ids, sampling=spec, stop_tokens=engine.tokenizer.stop_tokens, logprobs=logprobs))
    try:
        if len(ids) > 1:
            engine.prefill(row, len(ids) - 1)
        return [engine.step([row])[0] for _ in range(count)]
    finally:
        engine.close(row)


def text_of(engine: FakeEngine, steps: list[RowStep]) -> str:
    return engine.tokenizer.decode([step.token for step in steps])


def tokens(steps: list[RowStep]) -> list[int]:
    return [step.token for step in steps]


def test_it_is_an_engine() -> None:
    assert conforms(TOY) is TOY
    assert TOY.build.startswith("fake ")


def test_pieces_come_one_a_step_and_then_the_end() -> None:
    engine = FakeEngine(FakeScript(rules=(FakeRule(match="hi", pieces=("Hel", "lo"), then="im_end"),)))
    assert text_of(engine, run(engine, "hi", 4)) == "Hello<|im_end|><|im_end|>"


@pytest.mark.parametrize(("rule", "text"), [("eos", "ab<|eos|>"), ("length", "ab.")])
def test_what_follows_the_pieces(rule: str, text: str) -> None:
    engine = FakeEngine(FakeScript(rules=(FakeRule(pieces=("a", "b"), then=rule),)))  # type: ignore[arg-type]
    assert text_of(engine, run(engine, "x", 3)) == text


def test_repeat_loops_the_pieces() -> None:
    engine = FakeEngine(FakeScript(rules=(FakeRule(pieces=("a", "b"), repeat=True),)))
    assert text_of(engine, run(engine, "x", 5)) == "ababa"


@pytest.mark.parametrize(
    ("prompt", "echo"),
    [
        (
            "<|im_start|>user\nfirst<|im_end|>\n<|im_start|>user\nGrüße 🎈<|im_end|>\n<|im_start|>assistant\n",
            "Grüße 🎈",
        ),
        ("plain words", "plain words"),
        ("<|im_start|>", ""),
    ],
)
def test_without_a_rule_the_last_user_turn_is_echoed(prompt: str, echo: str) -> None:
    engine = FakeEngine(FakeScript())
    count = len(echo.encode()) + 1
    assert text_of(engine, run(engine, prompt, count)) == echo + "<|eos|>"


@pytest.mark.parametrize(
    "sampling",
    [{"ignore_eos": True}, {"min_tokens": 3}, {"logit_bias": {257: -math.inf}}],
    ids=lambda value: str(value),
)
def test_a_forbidden_end_is_not_emitted(sampling: dict[str, object]) -> None:
    engine = FakeEngine(FakeScript(rules=(FakeRule(pieces=("a",)),)))
    assert engine.tokenizer.special("<|eos|>") == 257
    assert text_of(engine, run(engine, "x", 3, **sampling)) == "a.."


def test_faults_come_when_the_script_says() -> None:
    rules = (
        FakeRule(match="row", pieces=("a",), repeat=True, fail_after=2, error="lamp broke"),
        FakeRule(match="step", pieces=("a",), repeat=True, raise_after=1),
        FakeRule(match="open", open_error=True),
        FakeRule(match="read", prefill_error=True),
    )
    engine = FakeEngine(FakeScript(rules=rules))
    assert [step.error for step in run(engine, "row", 3)] == [None, None, "lamp broke"]
    with pytest.raises(RuntimeError, match="scripted failure"):
        run(engine, "step", 2)
    with pytest.raises(RuntimeError, match="scripted failure"):
        run(engine, "open", 0)
    with pytest.raises(RuntimeError, match="scripted failure"):
        run(engine, "read", 0)
    assert engine.open_rows == frozenset()


def test_delays_are_those_of_piece_rule_and_script(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    slow = FakeRule(match="slow", pieces=("a", ScriptedPiece(text="b", delay=3.0), "c"), delay=2.0, prefill_delay=5.0)
    engine = FakeEngine(FakeScript(rules=(slow,), delay=1.0, prefill_delay=4.0, load_delay=6.0))
    engine.load()
    run(engine, "slow", 3)
    run(engine, "other", 1)
    assert slept == [6.0, 5.0, 2.0, 3.0, 2.0, 4.0, 1.0]


def test_a_step_takes_as_long_as_its_slowest_row(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    engine = FakeEngine(FakeScript(rules=(FakeRule(match="a", pieces=("a",), delay=2.0), FakeRule(pieces=("b",)))))
    for row, prompt in enumerate((b"a", b"b")):
        engine.open(row, RowSpec(prompt=tuple(prompt), sampling=SamplingSpec(seed=0)))
    engine.step([0, 1])
    assert slept == [2.0]


def test_load_fails_with_the_scripts_sentence() -> None:
    with pytest.raises(EngineFailure, match="no such weights"):
        FakeEngine(FakeScript(load_error="no such weights")).load()


def test_wrong_calls_are_refused() -> None:
    engine = FakeEngine(FakeScript(rules=(FakeRule(pieces=("a",)),)), lanes=2, context_length=4)
    spec = RowSpec(prompt=(1, 2, 3), sampling=SamplingSpec(seed=0))
    engine.open(0, spec)
    wrong = [
        lambda: engine.open(0, spec),
        lambda: engine.open(2, spec),
        lambda: engine.open(1, RowSpec(prompt=(1,), sampling=SamplingSpec())),
        lambda: engine.open(1, RowSpec(prompt=(), sampling=SamplingSpec(seed=0))),
        lambda: engine.prefill(0, 3),
        lambda: engine.prefill(0, 0),
        lambda: engine.prefill(1, 1),
        lambda: engine.step([0]),
        lambda: engine.step([]),
    ]
    for call in wrong:
        with pytest.raises(RuntimeError, match="against its contract"):
            call()
    engine.prefill(0, 2)
    engine.step([0])
    with pytest.raises(RuntimeError, match="a step of rows"):
        engine.step([0, 0])
    engine.step([0])
    with pytest.raises(RuntimeError, match="longer than the context window"):
        engine.step([0])
    engine.close(1)
    engine.unload()
    assert engine.open_rows == frozenset()


def test_ids_outside_the_vocabulary_are_refused() -> None:
    for outside in (-1, TOY.tokenizer.size):
        with pytest.raises(InvalidRequest, match="outside the vocabulary"):
            TOY.open(0, RowSpec(prompt=(65, outside), sampling=SamplingSpec(seed=0)))


# Toy logits


def test_greedy_toy_text_is_a_function_of_the_prompt() -> None:
    one, again, other = (run(TOY, prompt, 20, temperature=0.0) for prompt in ("a tree", "a tree", "a trea"))
    assert tokens(one) == tokens(again)
    assert tokens(one) != tokens(other)


@given(st.lists(st.integers(1, 5), max_size=6), st.integers(0, 2**64 - 1))
@settings(max_examples=25, deadline=None)
def test_prefill_chunks_do_not_change_what_follows(chunks: list[int], seed: int) -> None:
    prompt = tuple(range(65, 66 + sum(chunks)))
    spec = RowSpec(prompt=prompt, sampling=SamplingSpec(seed=seed, temperature=1.0), logprobs=2)
    TOY.open(1, spec)
    TOY.open(2, spec)
    try:
        for chunk in chunks:
            TOY.prefill(1, chunk)
        if chunks:
            TOY.prefill(2, sum(chunks))
        for _ in range(4):
            one, other = TOY.step([1, 2])
            assert one == other
    finally:
        TOY.close(1)
        TOY.close(2)


def test_seeds_decide_the_draws() -> None:
    one, again, other = (run(TOY, "x", 20, temperature=1.0, seed=seed) for seed in (5, 5, 6))
    assert tokens(one) == tokens(again)
    assert tokens(one) != tokens(other)


def test_draws_follow_the_distribution() -> None:
    """First tokens over many seeds have the frequencies the log probabilities tell (chi-square over the likeliest)."""
    reported = run(TOY, "x", 1, logprobs=12)[0].logprobs
    assert reported is not None
    draws = [run(TOY, "x", 1, temperature=1.0, seed=seed)[0].token for seed in range(1500)]
    expected = {entry.id: 1500 * math.exp(entry.logprob) for entry in reported.top}
    score = sum((draws.count(token) - count) ** 2 / count for token, count in expected.items())
    assert score < 33, "the 0.1 % bound of 12 degrees of freedom"


@pytest.mark.parametrize(
    ("filters", "least", "most"),
    [
        ({"top_k": 1}, 1, 1),
        ({"top_k": 3}, 2, 3),
        ({"top_p": 1e-9}, 1, 1),
        ({"min_p": 1.0}, 1, 1),
        ({"top_p": 0.5}, 2, 40),
    ],
    ids=lambda value: str(value),
)
def test_filters_keep_the_best(filters: dict[str, object], least: int, most: int) -> None:
    reported = run(TOY, "x", 1, logprobs=40)[0].logprobs
    assert reported is not None
    drawn = {run(TOY, "x", 1, temperature=2.0, seed=seed, **filters)[0].token for seed in range(60)}
    assert least <= len(drawn) <= most
    assert drawn <= {entry.id for entry in reported.top[:most]}


def test_bias_moves_and_bans() -> None:
    best = run(TOY, "x", 1)[0].token
    assert run(TOY, "x", 1, logit_bias={best: -math.inf})[0].token != best
    assert run(TOY, "x", 1, logit_bias={ord("%"): 100.0})[0].token == ord("%")
    everything = dict.fromkeys(range(TOY.tokenizer.size), -math.inf)
    assert run(TOY, "x", 1, logit_bias=everything)[0].error is not None


def test_penalties_work_within_their_window() -> None:
    best = run(TOY, "x", 1)[0]
    prompt = TOY.tokenizer.decode([best.token]) * 3

    def logprob(**sampling: object) -> float:
        reported = run(TOY, prompt, 1, logprobs=300, **sampling)[0].logprobs
        assert reported is not None
        return next(entry.logprob for entry in reported.top if entry.id == best.token)

    plain = logprob()
    assert logprob(presence_penalty=1.0) < plain
    assert logprob(frequency_penalty=1.0) < logprob(presence_penalty=1.0)
    assert logprob(repetition_penalty=1.5) < plain
    assert logprob(presence_penalty=1.0, penalty_window=0) == plain
    assert logprob(frequency_penalty=1.0, penalty_window=2) > logprob(frequency_penalty=1.0)


def test_min_tokens_and_ignore_eos_ban_the_ends() -> None:
    biased = {257: 1000.0}
    assert run(TOY, "x", 1, logit_bias=biased)[0].token == 257
    assert [token == 257 for token in tokens(run(TOY, "x", 3, logit_bias=biased, min_tokens=2))] == [False, False, True]
    assert 257 not in tokens(run(TOY, "x", 5, logit_bias=biased, ignore_eos=True))


# Log probabilities


def top_sum(logprobs: TokenLogprobs) -> float:
    return sum(math.exp(entry.logprob) for entry in logprobs.top)


def test_toy_logprobs_are_a_sorted_distribution() -> None:
    reported = run(TOY, "x", 1, logprobs=TOY.tokenizer.size)[0].logprobs
    assert reported is not None
    values = [entry.logprob for entry in reported.top]
    assert values == sorted(values, reverse=True)
    assert values[-1] == -9999.0
    assert top_sum(reported) == pytest.approx(1.0)
    assert reported.chosen == reported.top[0]


def test_zero_alternatives_still_report_the_chosen_token() -> None:
    reported = run(TOY, "x", 1, logprobs=0)[0].logprobs
    assert reported is not None
    assert reported.top == ()
    assert run(TOY, "x", 1)[0].logprobs is None


def test_scripted_logprobs_are_reported_as_they_are() -> None:
    pieces = (
        ScriptedPiece(text="Oslo", top=(("Oslo", -0.25), (" Rome", -2.0), ("Bern", -4.0))),
        ScriptedPiece(text="!", logprob=-7.0),
        "plain",
    )
    engine = FakeEngine(FakeScript(rules=(FakeRule(pieces=pieces),)))
    scripted, lone, derived = (step.logprobs for step in run(engine, "x", 3, logprobs=2))
    assert scripted is not None
    assert lone is not None
    assert derived is not None
    word = engine.tokenizer.token_of
    assert [(entry.id, entry.logprob) for entry in scripted.top] == [(word("Oslo"), -0.25), (word(" Rome"), -2.0)]
    assert scripted.chosen.logprob == -0.25
    assert (lone.chosen.id, lone.chosen.logprob, lone.top) == (ord("!"), -7.0, ())
    assert derived.chosen.id == word("plain")
    assert derived.top[0] == derived.chosen
    assert len(derived.top) == 2


def test_exit_after_ends_the_process() -> None:
    program = (
        "from dragoman.core.sampling import SamplingSpec\n"
        "from dragoman.engines.base import RowSpec\n"
        "from dragoman.engines.fake import FakeEngine, FakeRule, FakeScript\n"
        "engine = FakeEngine(FakeScript(rules=(FakeRule(pieces=('a',), repeat=True, exit_after=2),)))\n"
        "engine.open(0, RowSpec(prompt=(1,), sampling=SamplingSpec(seed=0)))\n"
        "for step in range(9):\n"
        "    print(step, flush=True)\n"
        "    engine.step([0])\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout.split(), ended.stderr) == (70, ["0", "1", "2"], "")
