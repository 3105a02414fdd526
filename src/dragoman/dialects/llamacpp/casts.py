"""JSON values to C numbers, the way a C++ JSON library converts them. Knows no field."""

from __future__ import annotations

import ctypes

INT32_MIN, INT32_MAX = -(2**31), 2**31 - 1
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
FLOAT_MAX = 3.4028234663852886e38


def to_int32(value: float) -> int:
    """`value` as int32: fractions are cut, integers wrap, floats out of range become the smallest int32."""
    if isinstance(value, float) or not INT64_MIN <= value < 2**64:
        return int(value) if INT32_MIN - 1 < value < INT32_MAX + 1 else INT32_MIN
    return (int(value) - INT32_MIN) % 2**32 + INT32_MIN


def to_int64(value: float) -> int:
    """`value` as int64, by the same rules."""
    if isinstance(value, float) or not INT64_MIN <= value < 2**64:
        return int(value) if INT64_MIN <= value < 2**63 else INT64_MIN
    return (int(value) - INT64_MIN) % 2**64 + INT64_MIN


def to_uint32(value: float) -> int:
    """`value` as uint32: -1 becomes 4294967295."""
    return to_int64(value) % 2**32


def to_float(value: float) -> float:
    """`value` as a finite C float, still a Python float of the given precision."""
    return float(min(max(value, -FLOAT_MAX), FLOAT_MAX))


def as_float32(value: float) -> float:
    """`value` rounded to a C float and widened again: 0.8 -> 0.800000011920929."""
    return ctypes.c_float(value).value
