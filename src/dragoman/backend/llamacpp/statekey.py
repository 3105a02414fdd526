"""What a saved state depends on. Two engines with the same key read each other's states. Knows no engine."""

from __future__ import annotations

import os
from hashlib import blake2b
from typing import Any, cast

import msgspec

from dragoman.backend.llamacpp.options import LlamaCppOptions

_IRRELEVANT = frozenset({
    "context", "lanes", "threads", "batch", "ubatch", "prompt_cache_mib", "gpu_layers", "kv_unified", "draft_model",
    "drafter", "draft_max", "draft_min", "draft_p_min", "mmproj", "api_key", "pooling", "embed_context", "max_waiting",
    "load_timeout", "silence", "stall", "log_sink", "journal", "slot_folder", "prefix_bytes", "cache_folder",
    "cache_disk_bytes", "llama_server",
})  # fmt: skip
"""Options that change neither the numbers of a state nor their layout. What is not named here counts."""

_SAMPLES = 64
_SAMPLE_BYTES = 16 << 10
_HEAD_BYTES = 4 << 20


def state_key(options: LlamaCppOptions, build: str) -> str:
    """Names model, build, key/value type, adapters and whatever else was asked of the engine. Reads a few megabytes
    of each file; call it in a thread. Raises OSError."""
    relevant = {name: getattr(options, name) for name in options.__struct_fields__ if name not in _IRRELEVANT}
    plain = _with_contents(msgspec.to_builtins(relevant, enc_hook=str))
    return msgspec.json.encode([build, plain], order="deterministic").decode()


def contents_of(path: str) -> str:
    """A digest of a file's size, its first megabytes and samples of the rest: models that differ at all differ
    there, and reading all of a large one would take longer than loading it."""
    size = os.path.getsize(path)
    digest = blake2b(str(size).encode(), digest_size=16)
    with open(path, "rb") as file:
        digest.update(file.read(_HEAD_BYTES))
        for sample in range(1, _SAMPLES + 1):
            file.seek(max(0, size * sample // _SAMPLES - _SAMPLE_BYTES))
            digest.update(file.read(_SAMPLE_BYTES))
    return digest.hexdigest()


def _with_contents(value: object) -> object:
    """The same with the contents of files in place of their paths: either may change without the other."""
    match value:
        case str():
            return contents_of(value) if value and os.path.isfile(value) else value
        case dict():
            return {name: _with_contents(field) for name, field in cast("dict[str, Any]", value).items()}
        case list() | tuple():
            return [_with_contents(item) for item in cast("list[Any]", value)]
        case _:
            return value
