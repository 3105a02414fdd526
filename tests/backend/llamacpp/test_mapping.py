"""Every native field of a request, seen by llama.cpp itself: echoed in its settings, and felt in its answers."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman.backend.llamacpp.backend import LlamaCppBackend, LlamaCppOptions
from dragoman.backend.llamacpp.sampling import HONOURED
from dragoman.backend.llamacpp.wire import work_of
from dragoman.core.errors import EngineFailure, InvalidRequest
from dragoman.core.exchange import EngineFinish, EngineRequest, TokenChunk
from dragoman.core.logprobs import TokenLogprobs
from dragoman.core.sampling import SamplingSpec
from tests.backend.llamacpp.rig import ask, chunks_of, ids_of

pytestmark = [pytest.mark.anyio, pytest.mark.llamacpp]

CONTEXT = 1024
EOS = 2
FRANCE = (504, 3575, 282, 4649, 314)
PARIS = 7042
GREEDY = SamplingSpec(temperature=0.0)
DRAWN = SamplingSpec(temperature=1.0, seed=7)


@pytest.fixture(scope="module")
async def backend(starter_gguf: Path) -> AsyncIterator[LlamaCppBackend]:
    made = LlamaCppBackend(LlamaCppOptions(model=str(starter_gguf), lanes=1, context=CONTEXT, threads=1))
    await made.start()
    try:
        yield made
    finally:
        await made.stop()


async def settings_of(backend: LlamaCppBackend, request: EngineRequest) -> dict[str, Any]:
    """What llama.cpp says it does."""
    client = backend._client
    assert client is not None
    body = msgspec.json.decode(work_of(request, CONTEXT).whole((), 0, 1))
    body["response_fields"] = ["generation_settings"]
    status, answer = await client.request("POST", "/completion", msgspec.json.encode(body), patience=60)
    assert status == 200, answer
    return msgspec.json.decode(answer)["generation_settings"]


async def answer_of(backend: LlamaCppBackend, spec: SamplingSpec, count: int = 12, **fields: Any) -> list[int]:
    return ids_of(await chunks_of(backend, ask(FRANCE, count, sampling=spec, **fields)))


ECHOED: dict[str, tuple[dict[str, Any], str, Any]] = {
    "temperature": ({"temperature": 0.7}, "temperature", 0.7),
    "top_k": ({"top_k": 11}, "top_k", 11),
    "top_p": ({"top_p": 0.8}, "top_p", 0.8),
    "min_p": ({"min_p": 0.02}, "min_p", 0.02),
    "typical_p": ({"typical_p": 0.6}, "typical_p", 0.6),
    "top_n_sigma": ({"top_n_sigma": 1.5}, "top_n_sigma", 1.5),
    "xtc_probability": ({"xtc_probability": 0.4}, "xtc_probability", 0.4),
    "xtc_threshold": ({"xtc_threshold": 0.2}, "xtc_threshold", 0.2),
    "dynatemp_range": ({"dynatemp_range": 0.3}, "dynatemp_range", 0.3),
    "dynatemp_exponent": ({"dynatemp_exponent": 1.2}, "dynatemp_exponent", 1.2),
    "repetition_penalty": ({"repetition_penalty": 1.3}, "repeat_penalty", 1.3),
    "presence_penalty": ({"presence_penalty": 0.5}, "presence_penalty", 0.5),
    "frequency_penalty": ({"frequency_penalty": 0.6}, "frequency_penalty", 0.6),
    "penalty_window": ({"penalty_window": 33}, "repeat_last_n", 33),
    "dry_multiplier": ({"dry_multiplier": 0.8}, "dry_multiplier", 0.8),
    "dry_base": ({"dry_base": 2.5}, "dry_base", 2.5),
    "dry_allowed_length": ({"dry_allowed_length": 5}, "dry_allowed_length", 5),
    "dry_penalty_window": ({"dry_penalty_window": -1}, "dry_penalty_last_n", CONTEXT),
    "dry_sequence_breakers": ({"dry_sequence_breakers": ("x", "\n")}, "dry_sequence_breakers", ["x", "\n"]),
    "mirostat": ({"mirostat": 2}, "mirostat", 2),
    "mirostat_tau": ({"mirostat_tau": 3.0}, "mirostat_tau", 3.0),
    "mirostat_eta": ({"mirostat_eta": 0.3}, "mirostat_eta", 0.3),
    "adaptive_target": ({"adaptive_target": 0.4}, "adaptive_target", 0.4),
    "adaptive_decay": ({"adaptive_decay": 0.5}, "adaptive_decay", 0.5),
    "min_keep": ({"min_keep": 3}, "min_keep", 3),
    "samplers": ({"samplers": ("min_p", "top_k")}, "samplers", ["min_p", "top_k"]),
    "seed": ({"seed": 42}, "seed", 42),
    "logit_bias": (
        {"logit_bias": {5: 1.5, 6: -math.inf}},
        "logit_bias",
        [{"bias": 1.5, "token": 5}, {"bias": None, "token": 6}],
    ),
    "ignore_eos": ({"ignore_eos": True}, "ignore_eos", True),
    "min_tokens": ({"min_tokens": 4}, "ignore_eos", True),
}
"""Field of ours to a spec with it, the name it is echoed under, and what llama.cpp echoes."""


def test_no_field_is_left_out() -> None:
    assert set(ECHOED) == HONOURED


@pytest.mark.parametrize("field", sorted(ECHOED))
async def test_every_field_is_echoed_by_the_engine(backend: LlamaCppBackend, field: str) -> None:
    given, name, echoed = ECHOED[field]
    told = (await settings_of(backend, ask(FRANCE, 8, sampling=SamplingSpec(**given))))[name]
    assert told == (pytest.approx(echoed, rel=1e-6) if isinstance(echoed, float) else echoed)


async def test_unset_fields_are_off_for_the_engine_too(backend: LlamaCppBackend) -> None:
    told = await settings_of(backend, ask(FRANCE, 8, sampling=SamplingSpec()))
    neutral = {
        "temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "typical_p": 1.0, "top_n_sigma": -1.0,
        "xtc_probability": 0.0, "dynatemp_range": 0.0, "repeat_penalty": 1.0, "presence_penalty": 0.0,
        "frequency_penalty": 0.0, "dry_multiplier": 0.0, "mirostat": 0, "adaptive_target": -1.0, "min_keep": 0,
        "ignore_eos": False, "logit_bias": [], "grammar": "", "stop": [], "n_probs": 0, "post_sampling_probs": False,
        "seed": 0xFFFFFFFF, "n_keep": 0, "grammar_lazy": False,
    }  # fmt: skip
    assert {name: told[name] for name in neutral} == neutral


async def test_fields_of_the_request_are_echoed(backend: LlamaCppBackend) -> None:
    grammar = '%llguidance {}\nstart: "a"\n'
    told = await settings_of(backend, ask(FRANCE, 8, logprobs=3, post_sampling=True, grammar=grammar))
    assert told["post_sampling_probs"] is True
    assert told["grammar"] == grammar


LIKE_GREEDY: dict[str, dict[str, Any]] = {
    "temperature": {"temperature": 0.0},
    "top_k": {"top_k": 1},
    "top_p": {"top_p": 1e-6},
    "min_p": {"min_p": 1.0},
    "top_n_sigma": {"top_n_sigma": 1e-6},
    "dynatemp_range": {"temperature": 0.01, "dynatemp_range": 0.005},
}
"""Stages at a setting that leaves one token."""


@pytest.mark.parametrize("stage", sorted(LIKE_GREEDY))
async def test_a_stage_at_its_narrowest_leaves_the_best_token(backend: LlamaCppBackend, stage: str) -> None:
    assert await answer_of(backend, SamplingSpec(**({"temperature": 1.0, "seed": 3} | LIKE_GREEDY[stage]))) == (
        await answer_of(backend, GREEDY)
    )


CHANGES_A_DRAW: dict[str, dict[str, Any]] = {
    "temperature": {"temperature": 1.7},
    "top_k": {"top_k": 2},
    "top_p": {"top_p": 0.3},
    "min_p": {"min_p": 0.4},
    "typical_p": {"typical_p": 0.2},
    "top_n_sigma": {"top_n_sigma": 0.3},
    "xtc": {"xtc_probability": 1.0, "xtc_threshold": 0.01},
    "dynatemp": {"dynatemp_range": 0.9, "dynatemp_exponent": 0.5},
    "mirostat": {"mirostat": 2, "mirostat_tau": 0.5},
    "mirostat 1": {"mirostat": 1, "mirostat_tau": 0.5},
    "adaptive": {"adaptive_target": 0.1},
    "seed": {"seed": 8},
}
CHANGES_THE_BEST: dict[str, dict[str, Any]] = {
    "repetition_penalty": {"repetition_penalty": 3.0},
    "presence_penalty": {"presence_penalty": 2.0},
    "frequency_penalty": {"frequency_penalty": 2.0},
    "dry": {"dry_multiplier": 5.0, "dry_allowed_length": 1},
    "logit_bias": {"logit_bias": {PARIS: -math.inf}},
    "logit_bias for": {"logit_bias": {99: 100.0}},
}


@pytest.mark.parametrize("stage", sorted(CHANGES_A_DRAW))
async def test_a_stage_changes_a_seeded_draw_in_the_same_way_every_time(backend: LlamaCppBackend, stage: str) -> None:
    spec = SamplingSpec(**({"temperature": 1.0, "seed": 7} | CHANGES_A_DRAW[stage]))
    answer = await answer_of(backend, spec, 24)
    assert answer != await answer_of(backend, DRAWN, 24)
    assert answer == await answer_of(backend, spec, 24)


@pytest.mark.parametrize("stage", sorted(CHANGES_THE_BEST))
async def test_a_stage_changes_the_best_token(backend: LlamaCppBackend, stage: str) -> None:
    spec = SamplingSpec(temperature=0.0, **CHANGES_THE_BEST[stage])
    assert await answer_of(backend, spec, 40) != await answer_of(backend, GREEDY, 40)


async def test_windows_bound_what_is_penalised(backend: LlamaCppBackend) -> None:
    for off in ({"presence_penalty": 2.0, "penalty_window": 0}, {"dry_multiplier": 5.0, "dry_penalty_window": 0}):
        assert await answer_of(backend, SamplingSpec(temperature=0.0, **off), 40) == await answer_of(
            backend, GREEDY, 40
        )


async def test_the_order_of_stages_counts(backend: LlamaCppBackend) -> None:
    fields: dict[str, Any] = {"temperature": 3.0, "min_p": 0.3, "seed": 11}
    hot_first = SamplingSpec(samplers=("temperature", "min_p"), **fields)
    hot_last = SamplingSpec(samplers=("min_p", "temperature"), **fields)
    first, last = [await kept(backend, spec) for spec in (hot_first, hot_last)]
    assert first > last, "a higher temperature leaves more tokens above the same share of the best"


async def kept(backend: LlamaCppBackend, spec: SamplingSpec) -> int:
    """Tokens that could have been drawn."""
    chunks = await chunks_of(backend, ask(FRANCE, 1, sampling=spec, logprobs=50, post_sampling=True))
    return len(entries_of(chunks)[0].top)


def entries_of(chunks: list[TokenChunk]) -> list[TokenLogprobs]:
    return [entry for chunk in chunks for entry in chunk.logprobs]


async def test_min_keep_saves_tokens_from_a_filter(backend: LlamaCppBackend) -> None:
    narrow: dict[str, Any] = {"temperature": 1.0, "top_p": 1e-6, "seed": 1}
    assert await kept(backend, SamplingSpec(**narrow)) == 1
    assert await kept(backend, SamplingSpec(**narrow, min_keep=4)) == 4


async def test_the_least_length_holds_though_the_model_would_end(backend: LlamaCppBackend) -> None:
    # The end token is the best one from the first step on, until it is banned.
    ends = {"temperature": 0.0, "logit_bias": {EOS: 100.0}}
    stops = frozenset({EOS})
    short = await chunks_of(backend, ask(FRANCE, 12, sampling=SamplingSpec(**ends), stop_tokens=stops))
    assert (ids_of(short), short[-1].finish) == ([EOS], EngineFinish.EOS)
    held = await chunks_of(backend, ask(FRANCE, 12, sampling=SamplingSpec(**ends, min_tokens=5), stop_tokens=stops))
    assert ids_of(held) == [*(await answer_of(backend, GREEDY, 5)), EOS]
    assert held[-1].finish is EngineFinish.EOS
    report = held[-1].report
    assert report is not None
    assert (report.completion_tokens, report.prompt_tokens) == (6, 5)
    free = await answer_of(backend, SamplingSpec(**ends, ignore_eos=True), 6, stop_tokens=stops)
    assert EOS not in free


async def test_log_probabilities_before_and_after_sampling(backend: LlamaCppBackend) -> None:
    spec = SamplingSpec(temperature=0.5, top_k=3, seed=5)
    before = entries_of(await chunks_of(backend, ask(FRANCE, 4, sampling=spec, logprobs=6)))
    after = entries_of(await chunks_of(backend, ask(FRANCE, 4, sampling=spec, logprobs=6, post_sampling=True)))
    assert [entry.chosen.id for entry in before] == [entry.chosen.id for entry in after]
    assert {len(entry.top) for entry in before} == {6}
    assert {len(entry.top) for entry in after} == {3}
    for raw, left in zip(before, after, strict=True):
        assert sum(math.exp(rival.logprob) for rival in left.top) == pytest.approx(1.0, abs=1e-4)
        # Temperature 0.5 squares probabilities; what is left of them is made to add up to one.
        squares = [math.exp(2 * rival.logprob) for rival in raw.top[:3]]
        expected = [square / sum(squares) for square in squares]
        assert [math.exp(rival.logprob) for rival in left.top] == pytest.approx(expected, abs=2e-3)


async def test_log_probabilities_ignore_bias_and_grammar(backend: LlamaCppBackend) -> None:
    plain = entries_of(await chunks_of(backend, ask(FRANCE, 1, logprobs=3)))[0]
    banned = SamplingSpec(temperature=0.0, logit_bias={PARIS: -math.inf})
    biased = entries_of(await chunks_of(backend, ask(FRANCE, 1, sampling=banned, logprobs=3)))[0]
    assert biased.chosen.id != PARIS
    assert [rival.id for rival in biased.top] == [rival.id for rival in plain.top]
    assert biased.top[0].logprob == pytest.approx(plain.top[0].logprob, abs=1e-3)


GRAMMARS = {
    "choice": ('%llguidance {}\nstart: "yes" | "no"\n', ("yes", "no")),
    "regex": ("%llguidance {}\nstart: /[0-9]{4}-[0-9]{2}/\n", None),
    "schema": ('%llguidance {}\nstart: %json {"type": "object", "properties": {"n": {"type": "integer"}}, '
               '"required": ["n"], "additionalProperties": false}\n', None),
}  # fmt: skip


@pytest.mark.parametrize("kind", sorted(GRAMMARS))
async def test_a_grammar_holds_and_ends_the_answer(backend: LlamaCppBackend, kind: str) -> None:
    assert backend.capabilities.grammar
    grammar, choices = GRAMMARS[kind]
    spec = SamplingSpec(temperature=1.0, seed=4)
    chunks = await chunks_of(backend, ask(FRANCE, 64, sampling=spec, grammar=grammar, stop_tokens=frozenset({EOS})))
    assert chunks[-1].finish is EngineFinish.EOS
    text = await text_of(backend, ids_of(chunks)[:-1])
    if choices is not None:
        assert text in choices
    elif kind == "regex":
        assert len(text) == 7
        assert text[4] == "-"
    else:
        assert isinstance(msgspec.json.decode(text)["n"], int)


async def text_of(backend: LlamaCppBackend, tokens: list[int]) -> str:
    pieces = backend._pieces
    assert pieces is not None
    return b"".join(map(pieces.__getitem__, tokens)).decode()


async def test_a_grammar_the_engine_gives_up_is_an_error_not_a_free_answer(backend: LlamaCppBackend) -> None:
    with pytest.raises(InvalidRequest, match="grammar"):
        await chunks_of(backend, ask(FRANCE, 4, grammar="root ::= nothing"))
    # Of llguidance's grammars llama.cpp says so in its log only, and goes on without.
    with pytest.raises(EngineFailure, match="grammar"):
        await chunks_of(backend, ask(FRANCE, 200, grammar="%llguidance {}\nstart: nothing\n"))


REPEATED = (*FRANCE, PARIS, 30, 198) * 8
SPECULATION = ("--spec-type", "ngram-simple", "--spec-ngram-simple-size-n", "3", "--spec-ngram-simple-size-m", "8")


async def test_speculation_changes_nothing_but_the_report(backend: LlamaCppBackend, starter_gguf: Path) -> None:
    options = LlamaCppOptions(model=str(starter_gguf), lanes=1, context=CONTEXT, threads=1, engine_args=SPECULATION)
    made = LlamaCppBackend(options)
    await made.start()
    try:
        drafted = await chunks_of(made, ask(REPEATED, 40))
    finally:
        await made.stop()
    plain = await chunks_of(backend, ask(REPEATED, 40))
    assert ids_of(drafted) == ids_of(plain)
    reports = drafted[-1].report, plain[-1].report
    assert reports[0] is not None
    assert reports[1] is not None
    assert reports[0].drafted >= reports[0].accepted > 0
    assert (reports[1].drafted, reports[1].accepted) == (0, 0)
