"""How large a context window to serve when nobody says."""

from __future__ import annotations

from dragoman.catalog.gguf import GgufHeader

# The key/value cache of all lanes may take this share of memory.
_MEMORY_SHARE = 0.25
_LEAST, _FALLBACK = 2048, 4096


def kv_bytes_per_token(header: GgufHeader) -> int:
    """Bytes of a 16-bit key/value cache for one token of one lane; 0 when the header does not tell."""
    layers, heads = header.number("block_count"), header.number("attention.head_count")
    kv_heads = header.number("attention.head_count_kv") or heads
    if not layers or not heads:
        return 0
    width = header.number("attention.key_length") or header.number("embedding_length") // heads
    return 2 * 2 * layers * kv_heads * width


def fit_context(trained: int, bytes_per_token: int, lanes: int, memory: int) -> int:
    """Tokens per lane: what the model was trained with, unless the caches of all lanes would take more than a
    quarter of memory."""
    wanted = trained or _FALLBACK
    if not bytes_per_token:
        return wanted
    room = int(_MEMORY_SHARE * memory) // (bytes_per_token * max(1, lanes))
    return max(min(wanted, _LEAST), min(wanted, room - room % 256))
