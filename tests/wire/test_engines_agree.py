"""One GGUF file, two engines: MLX and llama.cpp agree on greedy tokens."""

from __future__ import annotations

import httpx2
import pytest

from tests.support.running import RunningServer

# Prompts whose continuation the model is sure of. Elsewhere near ties fall differently, because llama.cpp rounds
# activations to 8 bits for this file; tests/engines/mlx compares with llama.cpp on the same weights in float32.
PROMPTS = (
    "1, 2, 3, 4, 5, 6, 7,",
    "Monday, Tuesday, Wednesday,",
    "for i in range(10):\n    print(i)\n\nfor i in range(10):\n",
    "<|im_start|>user\nRepeat after me: red green blue red green blue<|im_end|>\n<|im_start|>assistant\n",
    "Q: What is 2+2? A: 4\nQ: What is 3+3? A: 6\nQ: What is 4+4? A:",
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
    assert len(one) == TOKENS
    assert one == other
