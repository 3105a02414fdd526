"""How large a context window to serve when nobody says."""

from __future__ import annotations

from msgspec import Struct

from dragoman.catalog.find import memory_bytes
from dragoman.catalog.gguf import GgufHeader
from dragoman.catalog.local import LocalModel
from dragoman.config import EngineSettings
from dragoman.core.errors import EngineFailure

# The key/value cache of all lanes may take this share of memory.
_MEMORY_SHARE = 0.25
_LEAST, _FALLBACK = 2048, 4096
_ENOUGH = 32768
"""Tokens a coding agent gets along with: its instructions and tools alone take up to 20,000."""
_BITS = {4: 4.5, 8: 8.5}
"""A block of 32 numbers has a 16-bit scale beside them."""


class Window(Struct, frozen=True):
    """Tokens of one lane. `shared`: all lanes have one window of that many times their number, of which a request may
    take what it needs."""

    tokens: int
    shared: bool = False


def plan_window(model: LocalModel, engine: EngineSettings, lanes: int) -> Window:
    """For so many lanes whose memory is taken at the start, needed or not. Raises EngineFailure for a `--ctx` the model
    was not trained for."""
    if engine.ctx:
        if model.trained_context and engine.ctx > model.trained_context:
            raise EngineFailure(
                f"--ctx {engine.ctx} is more than the {model.trained_context} tokens '{model.id}' was trained with.",
                remedy=f"Use at most {model.trained_context}.",
            )
        return Window(engine.ctx, shared=bool(engine.kv_unified))
    per_token = kv_bytes_per_token(model.header, engine.kv_bits) if model.header else 0
    window = fit_window(model.trained_context, per_token, lanes, memory_bytes())
    return window if engine.kv_unified is None else Window(window.tokens, engine.kv_unified)


def kv_bytes_per_token(header: GgufHeader, kv_bits: int = 0) -> float:
    """Bytes of the key/value cache for one token of one lane, where a number has so many bits (0: 16); 0 when the
    header does not tell."""
    layers = header.number("block_count")
    heads = header.per_layer("attention.head_count", layers)
    if not heads:
        return 0
    kv_heads = header.per_layer("attention.head_count_kv", layers) or heads
    keys = header.number("attention.key_length") or header.number("embedding_length") * layers // heads
    values = header.number("attention.value_length") or keys
    return kv_heads * (keys + values) * _BITS.get(kv_bits, 16) / 8


def fit_window(trained: int, bytes_per_token: float, lanes: int, memory: int) -> Window:
    """What the model was trained with for each lane, unless the caches of all lanes would take more than a quarter of
    memory. Lanes that then have too little for an agent share what there is."""
    wanted = trained or _FALLBACK
    if not bytes_per_token:
        return Window(wanted)
    room = int(_MEMORY_SHARE * memory / (bytes_per_token * lanes))
    tokens = max(min(wanted, _LEAST), min(wanted, room - room % 256))
    return Window(tokens, shared=lanes > 1 and tokens < min(wanted, _ENOUGH))
