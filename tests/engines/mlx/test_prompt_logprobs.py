"""Log probabilities of prompt tokens are those of the model's raw logits, whatever the chunks."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("mlx.core")

import mlx.core as mx

from dragoman.core.logprobs import TokenLogprobs
from dragoman.core.sampling import SamplingSpec
from dragoman.engines.mlx.engine import MlxEngine
from dragoman.engines.mlx.load import load_checkpoint
from dragoman.engines.mlx.prompt_logprobs import prompt_logprobs
from tests.engines.mlx.driving import alone, loaded, spec_of

pytestmark = pytest.mark.mlx

PROMPT = [random.Random(2).randrange(3, 320) for _ in range(150)]
PENALISED = SamplingSpec(temperature=0.0, seed=0, repetition_penalty=2.0, logit_bias={5: 9.0})


def reported(engine: MlxEngine, count: int | None, chunk: int) -> list[TokenLogprobs]:
    engine.open(0, spec_of(PROMPT, PENALISED, prompt_logprobs=count))
    entries = list[TokenLogprobs]()
    left = len(PROMPT) - 1
    while left:
        piece = min(chunk, left)
        given = list(engine.prefill(0, piece))
        assert len(given) == (0 if count is None else piece)
        entries += given
        left -= piece
    engine.close(0)
    return entries


@pytest.mark.parametrize("family", ["llama", "qwen3_moe", "lfm2"])
def test_they_equal_a_direct_computation(checkpoint: Callable[[str], Path], family: str) -> None:
    engine = loaded(checkpoint(family))
    model: Any = load_checkpoint(checkpoint(family)).model
    logits = np.array(model(mx.array([PROMPT]))[0]).astype(np.float64)[:-1]
    want = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))

    for chunk in (1000, 70, 13):
        for entry, line, token in zip(reported(engine, 4, chunk), want, PROMPT[1:], strict=True):
            assert entry.chosen.id == token
            assert entry.chosen.logprob == pytest.approx(line[token], abs=1e-3)
            best = np.argsort(-line, kind="stable")[:4]
            assert [rival.logprob for rival in entry.top] == pytest.approx(line[best].tolist(), abs=1e-3)


def test_none_are_given_unasked_and_none_beside_the_token_for_zero(checkpoint: Callable[[str], Path]) -> None:
    engine = loaded(checkpoint("llama"))

    assert reported(engine, None, 40) == []
    assert {entry.top for entry in reported(engine, 0, 40)} == {()}
    assert len(reported(engine, 1000, 149)[0].top) == 320


def test_asking_for_them_changes_no_token(checkpoint: Callable[[str], Path]) -> None:
    engine = loaded(checkpoint("llama"))

    assert alone(engine, spec_of(PROMPT, prompt_logprobs=2), 8) == alone(engine, spec_of(PROMPT), 8)


def test_ranks_are_best_first_and_ties_by_id() -> None:
    logits = mx.array([[0.0, 2.0, 2.0, 1.0], [-np.inf, 0.0, -np.inf, -np.inf]], dtype=mx.float16)
    first, second = prompt_logprobs(logits, [3, 0], 3)

    assert [rival.id for rival in first.top] == [1, 2, 3]
    assert first.chosen == first.top[2]
    assert (second.chosen.logprob, second.top[0]) == (-9999.0, second.top[0])
    assert (second.top[0].id, second.top[0].logprob) == (1, 0.0)
