"""A loaded model and its open rows. Made on the engine thread; knows no options and no scheduler."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import mlx.core as mx
from msgspec.structs import replace

from dragoman.core.errors import EngineFailure
from dragoman.core.logprobs import TokenLogprobs
from dragoman.core.snapshot import Snapshot
from dragoman.engines.base import RowSpec, RowStep
from dragoman.engines.mlx.arrays import finish
from dragoman.engines.mlx.batch import LanguageModel
from dragoman.engines.mlx.caches import is_known
from dragoman.engines.mlx.constraint import Constraint
from dragoman.engines.mlx.decoder import Decoder
from dragoman.engines.mlx.gguf import load_gguf
from dragoman.engines.mlx.lanes import can_batch
from dragoman.engines.mlx.load import import_mlx_lm, load_checkpoint
from dragoman.engines.mlx.packing import Packing
from dragoman.engines.mlx.pages import on_large_pages, settle_allocator
from dragoman.engines.mlx.precision import Dtype, on_cpu, weights_of
from dragoman.engines.mlx.prefill import Part, can_join, can_read_together, grouped, read_together
from dragoman.engines.mlx.prompt_logprobs import SLICE, prompt_logprobs
from dragoman.engines.mlx.row import LayerCaches, Row
from dragoman.engines.mlx.sizes import Layer, bytes_of, measured
from dragoman.engines.mlx.snapshots import RowSnapshot, snapshot_of
from dragoman.engines.mlx.statefile import read_caches, write_caches
from dragoman.sampling.breakers import BreakerResolver

log = logging.getLogger(__name__)

_STEPS_BETWEEN_CLEARS = 256
# Attention scores of a piece stay in the processor's cache: pieces of 128 are read 10 to 25 % faster than of 512.
_CPU_PIECE = 128
_FAULTS = (RuntimeError, ValueError, TypeError, AttributeError, KeyError, IndexError)
_UNPACKED = "Load it with kv_bits 0."


class Runtime:
    """Loads on construction: the model, a trial token, and a trial of two rows when several are wanted."""

    def __init__(
        self,
        path: Path,
        dtype: Dtype,
        lanes: int,
        context: Callable[[int], int],
        packing: Packing | None = None,
        breakers: BreakerResolver | None = None,
    ) -> None:
        self._wired = _raise_wired_limit()
        self._packing = packing or Packing()
        if on_cpu():
            settle_allocator()
        loaded = load_gguf(path, dtype) if path.is_file() else load_checkpoint(path, dtype)
        if on_cpu():
            on_large_pages(weight for _, weight in weights_of(loaded.model))
        self._model: LanguageModel = loaded.model
        self._make_caches: Callable[[Any], LayerCaches] = import_mlx_lm("models.cache").make_prompt_cache
        self.context_length = context(loaded.facts.trained_context)
        self._sizes: tuple[list[Layer], list[Layer]] = ([], [])
        self.vocab_size = self._try_out(path)
        self.facts = replace(loaded.facts, vocab_size=loaded.facts.vocab_size or self.vocab_size)
        self.lanes = lanes if lanes > 1 and self._all_ways(can_batch) else 1
        self._joins = self.lanes > 1 and self._all_ways(can_read_together)
        self.build = f"mlx {version('mlx')} ({'cpu' if on_cpu() else 'gpu'})"
        later = self._packing.later
        self._on_cpu = lazy = on_cpu()
        self._decoder = Decoder(self._model, self.vocab_size, self.context_length, later, breakers, lazy=lazy)
        self._packed = Decoder(self._model, self.vocab_size, self.context_length, breakers=breakers, lazy=lazy)
        self._rows: dict[int, Row] = {}
        self._steps = 0
        mx.clear_cache()

    def open(self, number: int, spec: RowSpec, snapshot: Snapshot | None = None, cached: int = 0) -> None:
        """Begin a row; a row of that number still open is forgotten."""
        self.close(number)
        constraint = None if spec.mask is None else Constraint(spec.mask, self.vocab_size)
        if snapshot is None or cached == 0:
            row = Row(spec, self._new_caches(), constraint=constraint)
        else:
            row = Row(spec, _begun(spec, snapshot, cached), cached, constraint)
        row.packed = self._packing.is_packed(row.caches or [])
        self._rows[number] = row

    def prefill(self, number: int, count: int) -> list[TokenLogprobs]:
        """Feed the next `count` prompt tokens. Raises EngineFailure when that reaches the last one."""
        reported = self._read(number, count)
        # Chunks differ in size, so buffers of one are rarely of use to the next.
        mx.clear_cache()
        return reported

    def prefill_many(self, work: Sequence[tuple[int, int]]) -> list[Sequence[TokenLogprobs] | Exception]:
        """Feed several rows, together where they can be; each one's outcome. Raises EngineFailure when a row is given
        twice."""
        if len({number for number, _ in work}) < len(work):
            raise EngineFailure(f"A row was given twice: {list(work)}.")
        joint = self._read_together(work) if self._joins else set[int]()
        nothing = list[TokenLogprobs]()
        outcomes = [nothing if number in joint else self._outcome(number, count) for number, count in work]
        mx.clear_cache()
        return outcomes

    def _read_together(self, work: Sequence[tuple[int, int]]) -> set[int]:
        """Read what can be read in shared passes; the numbers of those rows. A pass that fails leaves its rows to be
        read alone, which will tell whose fault it was."""
        parts = {number: self._part(number, count) for number, count in work}
        done = set[int]()
        for group in grouped([part for part in parts.values() if part is not None]):
            try:
                read_together(self._model, group)
            except Exception:
                log.exception("%d rows could not be read together", len(group))
            else:
                done |= {number for number, part in parts.items() if part in group}
        return done

    def _part(self, number: int, count: int) -> Part | None:
        """These tokens as part of a shared pass; None when they have to be read alone."""
        row = self._rows.get(number)
        if row is None or not _can_prefill(row, count):
            return None
        if self._packing.is_due(row):
            self._packing.convert(row)
        part, in_one_piece = Part(row, count), self._packing.piece(row, count) == count
        if not in_one_piece or (self._on_cpu and count > _CPU_PIECE):
            return None
        return part if can_join(part) else None

    def _outcome(self, number: int, count: int) -> Sequence[TokenLogprobs] | Exception:
        try:
            return self._read(number, count)
        except Exception as fault:
            return fault

    def _read(self, number: int, count: int) -> list[TokenLogprobs]:
        row = self._row(number)
        if not _can_prefill(row, count):
            raise EngineFailure(f"Row {number} cannot prefill {count} tokens at {row.fed} of {len(row.spec.prompt)}.")
        reported = list[TokenLogprobs]()
        end = row.fed + count
        while row.fed < end:
            reported += self._feed(row, end - row.fed)
        return reported

    def _feed(self, row: Row, count: int) -> list[TokenLogprobs]:
        """Feed some of the next `count` prompt tokens: as many as can be fed in one piece."""
        if self._packing.is_due(row):
            self._packing.convert(row)
        count = self._packing.piece(row, count)
        wanted = row.spec.prompt_logprobs
        if wanted is not None:
            count = min(count, SLICE)
        if self._on_cpu:
            count = min(count, _CPU_PIECE)
        chunk = row.spec.prompt[row.fed : row.fed + count]
        logits = self._model(mx.array([list(chunk)]), cache=row.caches or [])
        reported = list[TokenLogprobs]()
        if wanted is not None:
            reported = prompt_logprobs(logits[0], row.spec.prompt[row.fed + 1 : row.fed + count + 1], wanted)
        finish([cache.state for cache in row.caches or []])
        row.fed += count
        return reported

    def snapshot(self, number: int) -> RowSnapshot | None:
        """The row's state after all it was fed; None when its caches are of a class that cannot be copied."""
        row = self._row(number)
        caches = row.caches
        for decoder in (self._decoder, self._packed):
            caches = decoder.caches_of(row) if caches is None else caches
        return None if caches is None else snapshot_of(caches, row.fed)

    def write_state(self, snapshot: Snapshot, length: int, file: Path) -> None:
        """The first `length` tokens of a snapshot of this model, as safetensors."""
        if not isinstance(snapshot, RowSnapshot):
            raise EngineFailure("The snapshot is another engine's.")
        write_caches(snapshot.begin(length), file)

    def read_state(self, file: Path, length: int) -> RowSnapshot:
        """Raises ValueError for a file that is no state, or one of layers this model does not have."""
        caches = read_caches(file)
        if not any(_kinds(caches) == _kinds(way()) for way in self._ways()):
            raise ValueError("not the state of a row: its layers are another model's")
        return RowSnapshot(caches, length)

    def row_bytes(self, length: int) -> int:
        """Bytes of storage, 0 for caches of unknown classes."""
        later = self._packing.later
        plain = later is not None and length < later
        return bytes_of(self._sizes[0 if plain else 1], length)

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
        return self._stepped(rows)

    def close(self, number: int) -> None:
        """Forget the row; memory goes back to the system when no row is left in the batch."""
        row = self._rows.pop(number, None)
        if row is None:
            return
        emptied = [decoder.forget(row) for decoder in (self._decoder, self._packed)]
        if any(emptied) or not self._rows:
            mx.clear_cache()

    def unload(self) -> None:
        """Drop rows and weights, wait for what is still running, and give the memory back."""
        self._rows.clear()
        del self._decoder, self._packed, self._model
        mx.synchronize()
        mx.clear_cache()
        if self._wired is not None:
            mx.set_wired_limit(self._wired)

    def _new_caches(self) -> LayerCaches:
        return self._packing.new(self._make_caches(self._model))

    def _ways(self) -> list[Callable[[], LayerCaches]]:
        """What makes the caches rows begin with, and those they change to."""
        ways: list[Callable[[], LayerCaches]] = [self._new_caches]
        if self._packing.later is not None:
            ways.append(lambda: self._packing.pack(self._make_caches(self._model)))
        return ways

    def _all_ways(self, can: Callable[[LanguageModel, Callable[[], LayerCaches]], bool]) -> bool:
        return all(can(self._model, way) for way in self._ways())

    def _stepped(self, rows: Sequence[Row]) -> list[RowStep]:
        """Quantised rows have a batch of their own where rows begin plain."""
        if self._packing.later is None:
            return self._decoder.step(rows)
        due = [row for row in rows if self._packing.is_due(row)]
        if due:
            self._decoder.part_with(due)
            for row in due:
                self._packing.convert(row)
        results = dict[int, RowStep]()
        for decoder, packed in ((self._decoder, False), (self._packed, True)):
            mine = [i for i, row in enumerate(rows) if row.packed is packed]
            if mine:
                results |= zip(mine, decoder.step([rows[i] for i in mine]), strict=True)
        return [results[i] for i in range(len(rows))]

    def _row(self, number: int) -> Row:
        row = self._rows.get(number)
        if row is None:
            raise EngineFailure(f"Row {number} is not open.")
        return row

    def _try_out(self, path: Path) -> int:
        """Run one token: proves that the model runs, and tells how many logits it really has."""
        plain = self._make_caches(self._model)
        logits = self._tried(path, plain)
        self._sizes = (_sizes(plain), _sizes(plain))
        if self._packing.on:
            self._sizes = (_sizes(plain), _sizes(self._tried_packed()))
        return int(logits.shape[-1])

    def _tried(self, path: Path, caches: LayerCaches) -> mx.array:
        try:
            logits = self._model(mx.array([[0]]), cache=caches)
            finish(logits)
        except _FAULTS as error:
            raise EngineFailure(f"The model in {path} was loaded but does not run: {error}") from error
        return logits

    def _tried_packed(self) -> LayerCaches:
        """Two tokens with quantised caches, which not every attention takes."""
        caches = self._packing.pack(self._make_caches(self._model))
        if not self._packing.is_packed(caches):
            raise EngineFailure(f"This model has no key-value cache that can be quantised. {_UNPACKED}")
        try:
            finish(self._model(mx.array([[0, 0]]), cache=caches))
            finish(self._model(mx.array([[0]]), cache=caches))
        except _FAULTS as error:
            raise EngineFailure(
                f"This model does not run with a quantised key-value cache: {error}. {_UNPACKED}"
            ) from error
        return caches


def _can_prefill(row: Row, count: int) -> bool:
    return row.caches is not None and 0 < count < len(row.spec.prompt) - row.fed


def _begun(spec: RowSpec, snapshot: Snapshot, cached: int) -> LayerCaches:
    """Caches of a row with its first `cached` prompt tokens."""
    if not isinstance(snapshot, RowSnapshot):
        raise EngineFailure("The snapshot was not made by this engine.")
    cuttable = cached == snapshot.length or (snapshot.trimmable and cached < snapshot.length)
    if not cuttable or not 0 < cached < len(spec.prompt):
        raise EngineFailure(
            f"A snapshot of {snapshot.length} tokens cannot give the first {cached} of a prompt of {len(spec.prompt)}."
        )
    return snapshot.begin(cached)


def _sizes(caches: LayerCaches) -> list[Layer]:
    return measured(caches) if all(is_known(cache) for cache in caches) else []


def _raise_wired_limit() -> int | None:
    """Let Metal keep the weights resident, as far as it recommends; None where there is no such limit."""
    limit = mx.device_info().get("max_recommended_working_set_size")
    return mx.set_wired_limit(int(limit)) if limit else None


def _kinds(caches: LayerCaches) -> list[type]:
    return [type(cache) for cache in caches]
