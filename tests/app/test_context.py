"""The default window fits the model and the machine."""

from __future__ import annotations

import pytest

from dragoman.app.context import fit_context, kv_bytes_per_token
from dragoman.catalog.gguf import GgufHeader

GIB = 2**30


def test_kv_bytes_of_smollm2() -> None:
    keys = {
        "general.architecture": "llama",
        "llama.block_count": 30,
        "llama.attention.head_count": 9,
        "llama.attention.head_count_kv": 3,
        "llama.embedding_length": 576,
    }
    assert kv_bytes_per_token(GgufHeader(keys, ())) == 2 * 2 * 30 * 3 * 64
    assert kv_bytes_per_token(GgufHeader({}, ())) == 0


@pytest.mark.parametrize(
    ("trained", "per_token", "lanes", "memory", "wanted"),
    [
        (8192, 23040, 4, 24 * GIB, 8192),
        (131072, 131072, 4, 16 * GIB, 8192),
        (131072, 131072, 4, GIB, 2048),
        (1024, 131072, 4, GIB, 1024),
        (0, 0, 4, GIB, 4096),
        (131072, 0, 1, GIB, 131072),
    ],
)
def test_fit(trained: int, per_token: int, lanes: int, memory: int, wanted: int) -> None:
    assert fit_context(trained, per_token, lanes, memory) == wanted
