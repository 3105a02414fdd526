"""What the files of a checkpoint folder say of embeddings: how tokens are pooled, how long inputs may be, whether there
is a relevance head. Reads JSON, no weights.

Layout: sentence-transformers' modules.json with one folder per module, beside the files of transformers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, cast

from msgspec import Struct

from dragoman.core.errors import EngineFailure
from dragoman.core.vectors import Pooling

ENCODERS = frozenset({"bert", "camembert", "roberta", "xlm-roberta"})
"""`model_type` of the encoders this package computes itself."""

_POOLINGS: Mapping[str, Pooling] = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_lasttoken": "last",
}
_NAMED: Mapping[str, Pooling] = {"cls": "cls", "mean": "mean", "lasttoken": "last"}
_HARMLESS = ("Transformer", "Pooling", "Normalize")


class EmbedLayout(Struct, frozen=True, kw_only=True):
    """`pooling` '' where the files do not tell; `longest` tokens of one input, 0 where they do not tell; `ranks` for a
    cross-encoder with one score."""

    config: dict[str, Any]
    model_type: str
    pooling: Pooling | Literal[""] = ""
    longest: int = 0
    ranks: bool = False

    @property
    def embeds(self) -> bool:
        """Whether the folder is an embedding model or a reranker by its own account."""
        return bool(self.pooling) or self.model_type in ENCODERS


def read_layout(folder: Path) -> EmbedLayout:
    """The layout of a checkpoint folder. Raises EngineFailure for a module that is not known here, since leaving it out
    would give other vectors, and for broken JSON."""
    config = _object(folder / "config.json")
    architectures = cast("list[object]", config.get("architectures") or [])
    classifies = any(str(name).endswith("ForSequenceClassification") for name in architectures)
    longest = _object(folder / "sentence_bert_config.json").get("max_seq_length")
    return EmbedLayout(
        config=config,
        model_type=str(config.get("model_type", "")),
        pooling=_pooling(folder),
        longest=longest if isinstance(longest, int) else 0,
        ranks=classifies and _labels(config) == 1,
    )


def _labels(config: Mapping[str, Any]) -> int:
    labels = config.get("id2label")
    return len(cast("dict[str, Any]", labels)) if isinstance(labels, dict) else int(config.get("num_labels", 2))


def _pooling(folder: Path) -> Pooling | Literal[""]:
    file = folder / "modules.json"
    if not file.is_file():
        return ""
    modules = _json(file)
    if not isinstance(modules, list):
        raise EngineFailure(f"{file} is not a list of modules.")
    found: Pooling | Literal[""] = ""
    for module in cast("list[dict[str, Any]]", modules):
        kind = str(module.get("type", "")).rsplit(".", 1)[-1]
        if kind not in _HARMLESS:
            raise EngineFailure(f"{file} names a module '{kind}', which is not known here.")
        if kind == "Pooling":
            found = _pooling_of(_object(folder / str(module.get("path", "")) / "config.json"), file)
    return found


def _pooling_of(config: Mapping[str, Any], file: Path) -> Pooling:
    named = config.get("pooling_mode")
    if isinstance(named, str):
        modes = [named]
        known: Mapping[str, Pooling] = _NAMED
    else:
        modes = [name for name, value in config.items() if name.startswith("pooling_mode_") and value is True]
        known = _POOLINGS
    if len(modes) != 1 or modes[0] not in known:
        raise EngineFailure(f"The pooling {modes} beside {file} is not known here.", remedy="Tell one with --pooling.")
    return known[modes[0]]


def _object(file: Path) -> dict[str, Any]:
    value = _json(file) if file.is_file() else None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _json(file: Path) -> object:
    try:
        return json.loads(file.read_bytes())
    except (OSError, ValueError) as error:
        raise EngineFailure(f"{file} cannot be read as JSON: {error}") from error
