"""One GGUF file, two engines: MLX and llama.cpp agree on greedy tokens."""

from __future__ import annotations

import httpx2
import pytest

from tests.support.running import RunningServer

PROMPTS = (
    "The capital of France is",
    "Once upon a time there was a",
    "def fibonacci(n):\n",
    "The three primary colours are",
    "Water boils at",
)
TOKENS = 20


def greedy(server: RunningServer, prompt: str) -> list[int]:
    asked = {"prompt": prompt, "n_predict": TOKENS, "temperature": 0, "return_tokens": True}
    reply = httpx2.post(f"{server.url}/completion", json=asked, timeout=300)
    return reply.json()["tokens"]


@pytest.mark.llamacpp
@pytest.mark.mlx
@pytest.mark.slow
@pytest.mark.parametrize("prompt", PROMPTS)
def test_first_tokens_agree(llamacpp: RunningServer, mlx: RunningServer, prompt: str) -> None:
    one, other = greedy(llamacpp, prompt), greedy(mlx, prompt)
    shared = min(len(one), len(other))
    assert shared > 0
    assert one[:shared] == other[:shared]
