"""Rows for sampler tests, and what the reference says they draw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import mlx.core as mx
import numpy as np

from dragoman.core.sampling import SamplingSpec
from dragoman.engines.base import RowSpec
from dragoman.engines.mlx.row import Row
from dragoman.engines.mlx.sample import Sampler
from dragoman.sampling.breakers import Breakers
from dragoman.sampling.mask import unpacked
from dragoman.sampling.reference import Moment, RowSampler

STOP = frozenset({7, 8})


def breakers_of(words: tuple[str, ...]) -> Breakers:
    """Every word breaks at the token of its length."""
    return Breakers(frozenset(len(word) for word in words))


def row_of(spec: SamplingSpec, tokens: Sequence[int], drawn: int = 0, logprobs: int | None = None) -> Row:
    row = Row(RowSpec(prompt=tuple(tokens), sampling=spec, stop_tokens=STOP, logprobs=logprobs), [])
    row.drawn = drawn
    return row


def reference_of(row: Row, size: int) -> RowSampler:
    return RowSampler(row.spec.sampling, STOP, size, breakers_of)


def agree(
    rows: Sequence[Row],
    logits: Sequence[np.ndarray],
    masks: Sequence[Mapping[int, np.ndarray]] | None = None,
    filter_on_host: bool | None = None,
) -> None:
    """One step for each entry of `logits`, without reading tokens back before the last one is drawn, as when steps are
    computed ahead; every row draws what its reference draws."""
    size = logits[0].shape[-1]
    references = [reference_of(row, size) for row in rows]
    sampler = Sampler(rows, size, breakers_of, filter_on_host)
    for index, step in enumerate(logits):
        bits = masks[index] if masks else {}
        want = list[int]()
        for position, (row, reference, line) in enumerate(zip(rows, references, step, strict=True)):
            moment = Moment(row.tokens, row.drawn)
            allowed = unpacked(bits[position], size) if position in bits else None
            want.append(reference.draw(reference.processed(line, moment, allowed), moment))
        draw = sampler.draw(mx.array(step), bits or None)
        assert [draw.step_of(i).token for i in range(len(rows))] == want
        for row, token in zip(rows, want, strict=True):
            row.tokens.append(token)
            row.drawn += 1
