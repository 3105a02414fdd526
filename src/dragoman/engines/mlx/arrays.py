"""The few crossings between NumPy and MLX arrays, typed once. Computes nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray


def to_mlx(values: NDArray[Any]) -> mx.array:
    """A copy on the device, same shape and type."""
    return mx.array(cast(Any, values))


def column(values: NDArray[Any]) -> mx.array:
    """One entry per row, shaped to broadcast against (rows, vocabulary)."""
    return to_mlx(values)[:, None]


def to_list(values: mx.array) -> list[Any]:
    """Nested Python lists; waits for the values."""
    return cast("list[Any]", np.array(values).tolist())


def to_numpy(values: mx.array) -> NDArray[Any]:
    """A copy on the host, same shape and type; waits for the values."""
    return np.array(cast(Any, values))


def put_rows(target: mx.array, lines: mx.array, values: mx.array) -> mx.array:
    """`target` with the rows `lines` replaced by `values`; a copy."""
    changed = mx.array(target)
    changed[lines] = values
    return changed


def add_at(target: mx.array, lines: mx.array, columns: mx.array, amount: int) -> mx.array:
    """`target` with `amount` added at every (line, column)."""
    place = cast(Any, target.at[lines, columns])
    return cast(mx.array, place.add(amount))


def start(*values: mx.array) -> None:
    """Begin computing without waiting."""
    begin: Callable[..., None] = cast("Any", mx).async_eval
    begin(*values)


def finish(values: Any) -> None:
    """Compute every array of a tree and wait for it."""
    cast("Any", mx).eval(values)
