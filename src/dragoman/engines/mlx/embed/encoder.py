"""An embedding model or cross-encoder as an `engines.base.Encoder`. Importable without MLX, which only `load` needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

from dragoman.core.errors import EngineFailure, NotSupported
from dragoman.core.model import Capabilities
from dragoman.core.vectors import Pooling, Vector
from dragoman.engines.base import Pair
from dragoman.engines.mlx.embed.layout import ENCODERS, EmbedLayout, read_layout

if TYPE_CHECKING:
    from dragoman.engines.mlx.embed.network import Network

_TOKENS_PER_PASS = 8192
"""Padded tokens computed together."""

_UNKNOWN_CONTEXT = 512


class EncoderOptions(Struct, frozen=True, kw_only=True):
    """What to load and how. `path` is a checkpoint folder; `pooling` '' takes what its files say, else the mean;
    `context_length` in tokens, 0 for what its files say."""

    path: str
    pooling: Pooling | Literal[""] = ""
    context_length: int = 0
    dtype: Literal["auto", "float32", "bfloat16", "float16", "quantized"] = "auto"


class MlxEncoder:
    """Implements `engines.base.Encoder` for BERT and its relatives, and for decoders of mlx-lm."""

    def __init__(self, options: EncoderOptions) -> None:
        self._options = options
        self._layout: EmbedLayout = read_layout(Path(options.path))
        self._network: Network | None = None

    @property
    def pooling(self) -> Pooling:
        """As told, as the files say, or the mean."""
        if self._layout.ranks:
            return "rank"
        return self._options.pooling or self._layout.pooling or "mean"

    def load(self) -> None:
        """Load the model and run it once."""
        if self._options.pooling == "rank" and not self._layout.ranks:
            raise EngineFailure(f"{self._options.path} has no head for --pooling rank, so it cannot rerank.")
        try:
            from dragoman.engines.mlx.embed.network import load_bert, load_decoder
        except ImportError as error:
            raise EngineFailure(
                f"The MLX engine is not installed: {error}.", remedy="Run pip install 'dragoman[mlx]'."
            ) from error
        folder = Path(self._options.path)
        if self._layout.model_type in ENCODERS:
            self._network = load_bert(folder, self._layout.config, self._options.dtype, ranks=self._layout.ranks)
        else:
            self._network = load_decoder(folder, self._options.dtype)
        self._ready.warm(self.pooling)

    @property
    def capabilities(self) -> Capabilities:
        """Embeddings or relevance, nothing else."""
        ranks = self._layout.ranks
        return Capabilities(
            sampling=frozenset(),
            generation=False,
            embeddings=not ranks,
            rerank=ranks,
            embedding_tokens=self.context_length,
            pooling=self.pooling,
        )

    @property
    def context_length(self) -> int:
        """The option, at most the positions the model has; without it what the files recommend."""
        most = self._ready.positions or self._options.context_length or _UNKNOWN_CONTEXT
        return min(self._options.context_length or self._layout.longest or most, most)

    @property
    def build(self) -> str:
        """E.g. 'mlx 0.32.4 (cpu)'."""
        return self._ready.build

    @property
    def facts(self) -> dict[str, Any]:
        """Figures for the model card. Known after `load`."""
        return {
            "embedding_length": self._ready.width,
            "parameters": self._ready.parameters,
            "trained_context": self._ready.positions,
        }

    def embed(self, inputs: Sequence[tuple[int, ...]]) -> list[tuple[Vector, ...]]:
        """Inputs of about the same length are computed together. Raises NotSupported on a cross-encoder."""
        if self._layout.ranks:
            raise NotSupported("This model ranks documents; it makes no embeddings.")
        network, pooling = self._ready, self.pooling
        return _in_order(inputs, len, lambda group: network.embed(group, pooling))

    def score(self, pairs: Sequence[Pair]) -> list[float]:
        """Raw numbers of the head. Raises NotSupported on an embedding model."""
        if not self._layout.ranks:
            raise NotSupported("This model makes embeddings; it has no head for relevance.")
        return _in_order(pairs, lambda pair: len(pair.ids), self._ready.score)

    def unload(self) -> None:
        """Free the model."""
        self._network = None

    @property
    def _ready(self) -> Network:
        if self._network is None:
            raise EngineFailure("The MLX engine has no model loaded.")
        return self._network


def _in_order(items: Sequence[Any], length: Callable[[Any], int], run: Callable[[list[Any]], list[Any]]) -> list[Any]:
    """`run` on groups of about the same length; results in the order of `items`."""
    order = sorted(range(len(items)), key=lambda index: length(items[index]))
    found: dict[int, Any] = {}
    for group in _groups(order, [length(item) for item in items]):
        for index, result in zip(group, run([items[index] for index in group]), strict=True):
            found[index] = result
    return [found[index] for index in range(len(items))]


def _groups(order: Sequence[int], lengths: Sequence[int]) -> Iterator[list[int]]:
    group: list[int] = []
    for index in order:
        if group and (len(group) + 1) * lengths[index] > _TOKENS_PER_PASS:
            yield group
            group = []
        group.append(index)
    if group:
        yield group
