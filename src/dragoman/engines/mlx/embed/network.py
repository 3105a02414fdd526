"""Models on MLX that give one vector per token, loaded and run. Knows no pooling rule of a folder and no queue."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import mlx.core as mx
import numpy as np

from dragoman.core.errors import EngineFailure, InvalidRequest
from dragoman.core.vectors import Pooling, Vector
from dragoman.engines.base import Pair
from dragoman.engines.mlx.arrays import to_mlx, to_numpy
from dragoman.engines.mlx.embed.bert import BertEncoder
from dragoman.engines.mlx.embed.pooling import pool
from dragoman.engines.mlx.load import load_checkpoint
from dragoman.engines.mlx.precision import Dtype, on_cpu, target_of

Hidden = Callable[[mx.array, mx.array, mx.array], mx.array]
"""(ids, types, lengths) of right-padded inputs -> (inputs, tokens, width)."""


class Network:
    """A loaded model. `positions` 0 where there is no limit known; `scores` the head of a cross-encoder."""

    def __init__(
        self,
        hidden: Hidden,
        *,
        width: int,
        vocabulary: int,
        positions: int,
        parameters: int,
        scores: Callable[[mx.array], mx.array] | None = None,
    ) -> None:
        self._hidden = hidden
        self._scores = scores
        self.width = width
        self.vocabulary = vocabulary
        self.positions = positions
        self.parameters = parameters
        place = "cpu" if on_cpu() else "gpu"
        self.build = f"mlx {cast('Any', mx).__version__} ({place})"

    def warm(self, pooling: Pooling) -> None:
        """One pass over one token: what is broken shows now."""
        try:
            if self._scores is not None:
                self.score([Pair((0, 0), (0, 0))])
            else:
                self.embed([(0, 0)], pooling)
        except (RuntimeError, ValueError, IndexError, KeyError) as error:
            raise EngineFailure(f"The model cannot be run: {error}") from error

    def embed(self, inputs: Sequence[tuple[int, ...]], pooling: Pooling) -> list[tuple[Vector, ...]]:
        """Vectors of each input."""
        lengths = self._lengths(inputs)
        hidden = self._hidden(_padded(inputs), _padded([(0,) * len(ids) for ids in inputs]), lengths)
        if pooling == "none":
            rows = to_numpy(hidden.astype(mx.float32)).astype("<f4")
            return [tuple(row.tobytes() for row in rows[index, : len(ids)]) for index, ids in enumerate(inputs)]
        rows = to_numpy(pool(hidden.astype(mx.float32), lengths, pooling)).astype("<f4")
        return [(row.tobytes(),) for row in rows]

    def score(self, pairs: Sequence[Pair]) -> list[float]:
        """The head's number of each pair."""
        if self._scores is None:
            raise EngineFailure("The model has no head for relevance.")
        ids = [pair.ids for pair in pairs]
        hidden = self._hidden(_padded(ids), _padded([pair.types for pair in pairs]), self._lengths(ids))
        return to_numpy(self._scores(hidden).astype(mx.float32)).tolist()

    def _lengths(self, inputs: Sequence[tuple[int, ...]]) -> mx.array:
        if any(not ids or max(ids) >= self.vocabulary or min(ids) < 0 for ids in inputs):
            raise InvalidRequest(f"Inputs must be token ids between 0 and {self.vocabulary - 1}, at least one.")
        return mx.array([len(ids) for ids in inputs])


def load_bert(folder: Path, config: Mapping[str, Any], dtype: Dtype, *, ranks: bool) -> Network:
    """BERT, RoBERTa or XLM-R. Raises EngineFailure when something is missing, broken or not supported."""
    target = target_of(dtype)
    weights = {
        name: value if target is None or not mx.issubdtype(value.dtype, mx.floating) else value.astype(target)
        for name, value in _read_weights(folder).items()
    }
    try:
        model = BertEncoder(config, weights)
    except (KeyError, ValueError, TypeError) as error:
        raise EngineFailure(f"{folder}/config.json does not describe a BERT model: {error}") from error
    return Network(
        model,
        width=model.width,
        vocabulary=model.vocabulary,
        positions=model.positions,
        parameters=sum(value.size for value in weights.values()),
        scores=model.scores if ranks else None,
    )


def load_decoder(folder: Path, dtype: Dtype) -> Network:
    """A decoder of mlx-lm without its output layer. Padding at the right is harmless: no token sees what follows it."""
    loaded = load_checkpoint(folder, dtype)
    inner: Callable[[mx.array], mx.array] | None = getattr(loaded.model, "model", None)
    if inner is None:
        raise EngineFailure(f"A model of type '{loaded.facts.architecture}' cannot be used for embeddings here.")
    return Network(
        lambda ids, _types, _lengths: inner(ids),
        width=loaded.facts.embedding_length,
        vocabulary=loaded.facts.vocab_size,
        positions=loaded.facts.trained_context,
        parameters=loaded.facts.parameters,
    )


def _read_weights(folder: Path) -> dict[str, mx.array]:
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise EngineFailure(f"{folder} has no weights: no file is named *.safetensors.")
    weights: dict[str, mx.array] = {}
    for file in files:
        try:
            weights |= cast("dict[str, mx.array]", mx.load(str(file)))
        except (RuntimeError, ValueError) as error:
            raise EngineFailure(f"{file} is damaged or incomplete: {error}", remedy="Download it again.") from error
    return weights


def _padded(rows: Sequence[tuple[int, ...]]) -> mx.array:
    longest = max(map(len, rows))
    filled = np.zeros((len(rows), longest), np.int32)
    for index, row in enumerate(rows):
        filled[index, : len(row)] = row
    return to_mlx(filled)
