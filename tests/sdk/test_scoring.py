"""Scores as lm-evaluation-harness asks for them, of 200 prompts of token ids, against a direct computation."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support.server_process import ServerProcess, serving
from tests.wire.clients import MODEL, openai_client

# Both sides run in processes of their own: in this one, another test may have loaded MLX without a fast BLAS, with
# which a token of the starter costs a quarter of a second.
pytestmark = [
    pytest.mark.mlx,
    pytest.mark.long,
    pytest.mark.skipif(find_spec("mlx") is None, reason="MLX is not installed"),
]

PROMPTS = 200
BATCH = 20
VOCABULARY = 49152
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def prompts() -> list[list[int]]:
    draw = random.Random(11)
    return [[draw.randrange(5, VOCABULARY) for _ in range(draw.randrange(2, 24))] for _ in range(PROMPTS)]


@pytest.fixture(scope="module")
def direct(prompts: list[list[int]], starter_gguf: Path) -> list[list[float]]:
    command = [sys.executable, "-m", "tests.sdk.direct", str(starter_gguf)]
    done = subprocess.run(command, input=json.dumps(prompts), capture_output=True, text=True, check=True, cwd=ROOT)
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def server(starter_gguf: Path) -> Iterator[ServerProcess]:
    with serving(str(starter_gguf), "--engine", "mlx", "--ctx", "2048", "--ephemeral") as server:
        yield server


def test_scores_equal_a_direct_computation(
    prompts: list[list[int]], direct: list[list[float]], server: ServerProcess
) -> None:
    with openai_client(server.url, timeout=300) as client:
        for start in range(0, PROMPTS, BATCH):
            batch = prompts[start : start + BATCH]
            answer = client.completions.create(
                model=MODEL, prompt=batch, echo=True, logprobs=1, max_tokens=1, temperature=0
            )
            for ids, scores, choice in zip(batch, direct[start : start + BATCH], answer.choices, strict=True):
                figures = choice.logprobs.token_logprobs
                assert figures[0] is None
                assert figures[1 : len(ids)] == pytest.approx(scores, abs=1e-3)
                assert len(figures) == len(ids) + 1
