"""Scores as lm-evaluation-harness asks for them, of 200 prompts of token ids, against a direct computation."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("mlx.core")

import mlx.core as mx

from dragoman.engines.mlx.gguf import load_gguf
from tests.support.running import RunningServer
from tests.wire.clients import MODEL, openai_client

pytestmark = [pytest.mark.mlx, pytest.mark.long]

PROMPTS = 200
BATCH = 20


def prompts(size: int) -> list[list[int]]:
    draw = random.Random(11)
    return [[draw.randrange(5, size) for _ in range(draw.randrange(2, 24))] for _ in range(PROMPTS)]


def direct(model: Any, ids: list[int]) -> list[float]:
    logits = np.array(model(mx.array([ids]))[0].astype(mx.float32)).astype(np.float64)[:-1]
    scores = logits - np.log(np.exp(logits - logits.max(-1, keepdims=True)).sum(-1, keepdims=True))
    scores -= logits.max(-1, keepdims=True)
    return [float(line[token]) for line, token in zip(scores, ids[1:], strict=True)]


def test_scores_equal_a_direct_computation(mlx: RunningServer, starter_gguf: Path) -> None:
    model: Any = load_gguf(starter_gguf).model
    asked = prompts(mlx.room.model.card.vocab_size)
    with openai_client(mlx.url, timeout=300) as client:
        for start in range(0, PROMPTS, BATCH):
            batch = asked[start : start + BATCH]
            answer = client.completions.create(
                model=MODEL, prompt=batch, echo=True, logprobs=1, max_tokens=1, temperature=0
            )
            for ids, choice in zip(batch, answer.choices, strict=True):
                figures = choice.logprobs.token_logprobs
                assert figures[0] is None
                assert figures[1 : len(ids)] == pytest.approx(direct(model, ids), abs=1e-3)
                assert len(figures) == len(ids) + 1
