"""The default window fits the model and the machine."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.app.context import Window, fit_window, kv_bytes_per_token
from dragoman.catalog.gguf import GgufHeader

GIB = 2**30


def header(**keys: Any) -> GgufHeader:
    named = {f"llama.{key.replace('__', '.')}": value for key, value in keys.items()}
    return GgufHeader({"general.architecture": "llama", **named}, ())


SMOLLM2 = header(block_count=30, attention__head_count=9, attention__head_count_kv=3, embedding_length=576)
HYBRID = header(
    block_count=4,
    attention__head_count=[8, 8, 8, 8],
    attention__head_count_kv=[0, 2, 0, 2],
    attention__key_length=128,
    attention__value_length=64,
    embedding_length=1024,
)


def test_kv_bytes() -> None:
    assert kv_bytes_per_token(SMOLLM2) == 2 * 2 * 30 * 3 * 64
    assert kv_bytes_per_token(HYBRID) == 2 * (2 + 2) * (128 + 64)
    assert kv_bytes_per_token(header()) == 0
    assert kv_bytes_per_token(GgufHeader({}, ())) == 0


@pytest.mark.parametrize(("bits", "share"), [(8, 8.5 / 16), (4, 4.5 / 16)])
def test_fewer_bits_take_less(bits: int, share: float) -> None:
    assert kv_bytes_per_token(SMOLLM2, bits) == pytest.approx(share * kv_bytes_per_token(SMOLLM2))


@pytest.mark.parametrize(
    ("trained", "per_token", "lanes", "memory", "wanted"),
    [
        (8192, 23040, 4, 24 * GIB, Window(8192)),
        (131072, 131072, 4, 16 * GIB, Window(8192, shared=True)),  # an 8B model: one agent has 32,768
        (131072, 131072 * 4.5 / 16, 4, 16 * GIB, Window(28928, shared=True)),
        (131072, 131072, 4, 64 * GIB, Window(32768)),
        (131072, 131072, 1, 16 * GIB, Window(32768)),
        (131072, 131072, 1, 8 * GIB, Window(16384)),
        (131072, 131072, 4, GIB, Window(2048, shared=True)),
        (1024, 131072, 4, GIB, Window(1024)),
        (16384, 131072, 4, 16 * GIB, Window(8192, shared=True)),
        (0, 0, 4, GIB, Window(4096)),
        (131072, 0, 1, GIB, Window(131072)),
    ],
)
def test_fit(trained: int, per_token: float, lanes: int, memory: int, wanted: Window) -> None:
    assert fit_window(trained, per_token, lanes, memory) == wanted
