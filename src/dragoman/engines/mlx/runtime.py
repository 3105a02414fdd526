"""A loaded model and its open rows. Made on the engine thread; knows no options and no scheduler."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import mlx.core as mx
from msgspec.structs import replace

from dragoman.core.errors import EngineFailure
from dragoman.engines.base import RowSpec, RowStep
from dragoman.engines.mlx.arrays import finish
from dragoman.engines.mlx.batch import LanguageModel
from dragoman.engines.mlx.decoder import Decoder
from dragoman.engines.mlx.gguf import load_gguf
from dragoman.engines.mlx.lanes import can_batch
from dragoman.engines.mlx.load import import_mlx_lm, load_checkpoint
from dragoman.engines.mlx.precision import Dtype, on_cpu
from dragoman.engines.mlx.row import LayerCaches, Row

_STEPS_BETWEEN_CLEARS = 256


class Runtime:
    """Loads on construction: the model, a trial token, and a trial of two rows when several are wanted."""

    def __init__(self, path: Path, dtype: Dtype, lanes: int, context: Callable[[int], int]) -> None:
        self._wired = _raise_wired_limit()
        loaded = load_gguf(path, dtype) if path.is_file() else load_checkpoint(path, dtype)
        self._model: LanguageModel = loaded.model
        self._make_caches: Callable[[Any], LayerCaches] = import_mlx_lm("models.cache").make_prompt_cache
        self.context_length = context(loaded.facts.trained_context)
        self.vocab_size = self._try_out(path)
        self.facts = replace(loaded.facts, vocab_size=loaded.facts.vocab_size or self.vocab_size)
        self.lanes = lanes if lanes > 1 and can_batch(self._model, self._new_caches) else 1
        self.build = f"mlx {version('mlx')} ({'cpu' if on_cpu() else 'gpu'})"
        self._decoder = Decoder(self._model, self.vocab_size, self.context_length)
        self._rows: dict[int, Row] = {}
        self._steps = 0
        mx.clear_cache()

    def open(self, number: int, spec: RowSpec) -> None:
        """Begin a row; a row of that number still open is forgotten."""
        self.close(number)
        self._rows[number] = Row(spec, self._new_caches())

    def prefill(self, number: int, count: int) -> None:
        """Feed the next `count` prompt tokens. Raises EngineFailure when that reaches the last one."""
        row = self._row(number)
        chunk = row.spec.prompt[row.fed : row.fed + count]
        if row.caches is None or row.fed + count > len(row.spec.prompt) - 1 or count < 1:
            raise EngineFailure(f"Row {number} cannot prefill {count} tokens at {row.fed} of {len(row.spec.prompt)}.")
        self._model(mx.array([list(chunk)]), cache=row.caches)
        finish([cache.state for cache in row.caches])
        row.fed += count
        # Chunks differ in size, so buffers of one are rarely of use to the next.
        mx.clear_cache()

    def step(self, numbers: Sequence[int]) -> list[RowStep]:
        """One token for each row."""
        rows = [self._row(number) for number in numbers]
        for number, row in zip(numbers, rows, strict=True):
            if not row.prefilled:
                raise EngineFailure(f"Row {number} was stepped before its prompt was prefilled.")
        if not rows:
            return []
        self._steps += 1
        if self._steps % _STEPS_BETWEEN_CLEARS == 0:
            mx.clear_cache()
        return self._decoder.step(rows)

    def close(self, number: int) -> None:
        """Forget the row; memory goes back to the system when no row is left in the batch."""
        row = self._rows.pop(number, None)
        if row is not None and (self._decoder.forget(row) or not self._rows):
            mx.clear_cache()

    def unload(self) -> None:
        """Drop rows and weights, wait for what is still running, and give the memory back."""
        self._rows.clear()
        del self._decoder, self._model
        mx.synchronize()
        mx.clear_cache()
        if self._wired is not None:
            mx.set_wired_limit(self._wired)

    def _new_caches(self) -> LayerCaches:
        return self._make_caches(self._model)

    def _row(self, number: int) -> Row:
        row = self._rows.get(number)
        if row is None:
            raise EngineFailure(f"Row {number} is not open.")
        return row

    def _try_out(self, path: Path) -> int:
        """Run one token: proves that the model runs, and tells how many logits it really has."""
        try:
            logits = self._model(mx.array([[0]]), cache=self._new_caches())
            finish(logits)
        except (RuntimeError, ValueError, TypeError, AttributeError, KeyError, IndexError) as error:
            raise EngineFailure(f"The model in {path} was loaded but does not run: {error}") from error
        return int(logits.shape[-1])


def _raise_wired_limit() -> int | None:
    """Let Metal keep the weights resident, as far as it recommends; None where there is no such limit."""
    limit = mx.device_info().get("max_recommended_working_set_size")
    return mx.set_wired_limit(int(limit)) if limit else None
