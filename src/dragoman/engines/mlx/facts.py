"""What a loaded model is: the figures a model card shows. Reads config dictionaries, no weights and no files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from msgspec import Struct

_CONTEXT_KEYS = (
    "max_position_embeddings",
    "max_sequence_length",
    "max_seq_len",
    "model_max_length",
    "seq_length",
    "n_positions",
    "n_ctx",
    "max_context_length",
)
_WIDTH_KEYS = ("hidden_size", "n_embd", "d_model", "dim", "model_dim")


class ModelFacts(Struct, frozen=True, kw_only=True):
    """`parameters` counts weights as trained, however they are packed; `trained_context` is 0 when the checkpoint
    names none (recurrent models often do not); `quantization` is the stored form, e.g. Q4_1, 4bit or BF16."""

    architecture: str
    parameters: int
    vocab_size: int
    embedding_length: int
    trained_context: int
    quantization: str


def context_of(config: Mapping[str, Any]) -> int:
    """Tokens the checkpoint was trained for, 0 when unknown."""
    return _first_integer(config, _CONTEXT_KEYS)


def width_of(config: Mapping[str, Any]) -> int:
    """Embedding length, 0 when unknown."""
    return _first_integer(config, _WIDTH_KEYS)


def quantization_of(config: Mapping[str, Any], stored: str) -> str:
    """`stored` is the type of the weights as saved; it is the answer unless the config tells how they are packed."""
    packing = config.get("quantization") or config.get("quantization_config")
    if not isinstance(packing, Mapping):
        return stored
    packed = cast("Mapping[str, Any]", packing)
    mode = packed.get("mode", "affine")
    if isinstance(mode, str) and mode != "affine":
        return mode
    bits = packed.get("bits")
    return f"{bits}bit" if isinstance(bits, int) else str(packed.get("quant_method", stored))


def _first_integer(config: Mapping[str, Any], keys: tuple[str, ...]) -> int:
    """Multimodal configs nest the language model under text_config."""
    nested = config.get("text_config")
    places = [config, cast("Mapping[str, Any]", nested)] if isinstance(nested, Mapping) else [config]
    found = [place[key] for place in places for key in keys if isinstance(place.get(key), int)]
    return found[0] if found else 0
