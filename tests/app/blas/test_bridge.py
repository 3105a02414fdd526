"""Bridges pass every argument on, widened."""

from __future__ import annotations

import ctypes
import platform
import struct
import sys
from typing import Any

import pytest

from dragoman.app.blas.bridge import BRIDGED, bridgeable, build, share

bridges = pytest.mark.skipif(sys.platform != "linux" or not bridgeable(), reason="no bridges on this machine")

RUBBISH = 0x5A5A_0000_0000
SIZES = (1, 2**31 - 1, -2, 70, -(2**31), 0)


def signature(integer: Any, real: Any) -> list[Any]:
    pointer = ctypes.c_void_p
    return [*[ctypes.c_int] * 3, *[integer] * 3, real, pointer, integer, pointer, integer, real, pointer, integer]


@bridges
@pytest.mark.parametrize("wide", [True, False])
@pytest.mark.parametrize("real", [ctypes.c_float, ctypes.c_double])
def test_arguments(wide: bool, real: Any) -> None:
    seen: list[tuple[Any, ...]] = []

    def record(*arguments: Any) -> None:
        seen.append(arguments)

    integer = ctypes.c_int64 if wide else ctypes.c_int
    target = ctypes.CFUNCTYPE(None, *signature(integer, real))(record)
    other = ctypes.CFUNCTYPE(None, *signature(integer, real))(lambda *_: seen.append(("other",)))
    first, second = (f"bridge_test_{wide}_{real.__name__}_{i}" for i in range(2))
    addresses = {name: ctypes.cast(function, ctypes.c_void_p).value or 0 for name, function in
                 ((first, target), (second, other))}  # fmt: skip
    library = share(addresses, wide=wide)
    m, n, k, lda, ldb, ldc = (ctypes.c_int64(size & 0xFFFFFFFF | RUBBISH) for size in SIZES)
    codes = [ctypes.c_int(code) for code in (101, 111, 112)]
    a, b, c = (ctypes.c_void_p(2**63 + place) for place in (8, 16, 24))
    for name in (first, second):
        library[name](*codes, m, n, k, real(0.5), a, lda, b, ldb, real(-2.0), c, ldc)
    assert seen[0] == (
        101, 111, 112, *SIZES[:3], 0.5, a.value, SIZES[3], b.value, SIZES[4], -2.0, c.value, SIZES[5],
    )  # fmt: skip
    assert seen[1] == ("other",)
    assert ctypes.CDLL(None)[first]


@bridges
@pytest.mark.skipif(platform.machine() != "x86_64", reason="elsewhere OpenBLAS does this by itself")
@pytest.mark.parametrize("wide", [True, False])
@pytest.mark.parametrize("real", [ctypes.c_float, ctypes.c_double])
def test_one_row_is_a_product_with_a_vector(wide: bool, real: Any) -> None:
    seen: list[Any] = []

    def vector(*arguments: Any) -> None:
        seen.append(arguments)

    pointer, integer = ctypes.c_void_p, ctypes.c_int64 if wide else ctypes.c_int
    kinds = [*[ctypes.c_int] * 2, *[integer] * 2, real, pointer, integer, pointer, integer, real, pointer, integer]
    gemm = ctypes.CFUNCTYPE(None, *signature(integer, real))(lambda *_: seen.append("gemm"))
    gemv = ctypes.CFUNCTYPE(None, *kinds)(vector)
    name = f"bridge_test_row_{wide}_{real.__name__}"
    addresses = [ctypes.cast(function, pointer).value or 0 for function in (gemm, gemv)]
    library = share({name: addresses[0]}, addresses[1:], wide=wide)

    def call(order: int, trans_a: int, trans_b: int, m: int, n: int, k: int, ldb: int) -> Any:
        codes = [ctypes.c_int64(code | RUBBISH) for code in (order, trans_a, trans_b)]
        m_, n_, k_, lda, ldb_, ldc = (ctypes.c_int64(size | RUBBISH) for size in (m, n, k, 99, ldb, 98))
        places = (ctypes.c_void_p(2**63 + place) for place in (8, 16, 24))
        a, b, c = places
        library[name](*codes, m_, n_, k_, real(0.5), a, lda, b, ldb_, real(-2.0), c, ldc)
        return seen.pop()

    a, b, c = (2**63 + place for place in (8, 16, 24))
    assert call(101, 111, 112, 1, 5, 7, 70) == (101, 111, 5, 7, 0.5, b, 70, a, 1, -2.0, c, 1)
    assert call(101, 111, 111, 1, 5, 7, 50) == (101, 112, 7, 5, 0.5, b, 50, a, 1, -2.0, c, 1)
    for others in ((102, 111, 112, 1, 5, 7, 7), (101, 112, 112, 1, 5, 7, 7), (101, 111, 113, 1, 5, 7, 7),
                   (101, 111, 112, 2, 5, 7, 7), (101, 111, 112, 1, 5, 0, 7), (101, 111, 112, 0, 5, 7, 7)):  # fmt: skip
        assert call(*others) == "gemm"
    assert not seen


@pytest.mark.parametrize(("machine", "number"), [("x86_64", 62), ("aarch64", 183)])
@pytest.mark.parametrize("wide", [True, False])
def test_structure(machine: str, number: int, wide: bool) -> None:
    image = build(BRIDGED, wide=wide, rows=not wide, machine=machine)
    assert image[:6] == b"\x7fELF\x02\x01"
    assert struct.unpack_from("<HH", image, 16) == (3, number)
    rows = [struct.unpack_from("<IIQQQQQQ", image, 64 + 56 * i) for i in range(4)]
    for kind, flags, offset, address, _, size, memory, alignment in rows:
        assert offset + size <= len(image)
        assert memory == size
        assert offset % alignment == address % alignment
        assert not (kind == 1 and flags & 3 == 3), "writable and executable"
    dynamic = dict(struct.iter_unpack("<QQ", image[rows[2][2] : rows[2][2] + rows[2][5]]))
    hashes, strings, symbols = dynamic[4], dynamic[5], dynamic[6]
    buckets, chains = struct.unpack_from("<II", image, hashes)
    assert (buckets, chains) == (1, len(BRIDGED) + 2)
    reached, chain = [], struct.unpack_from("<I", image, hashes + 8)[0]
    while chain:
        name, _, section, value, _ = struct.unpack_from("<IBxHQQ", image, symbols + 24 * chain)
        assert section
        end = image.index(b"\0", strings + name)
        reached.append((image[strings + name : end].decode(), value))
        chain = struct.unpack_from("<I", image, hashes + 12 + 4 * chain)[0]
    assert [name for name, _ in reached] == [*BRIDGED, "dragoman_blas_slots"]
    assert reached[-1][1] == rows[1][3]
    assert all(value < rows[0][5] for _, value in reached[:-1])


def test_other_machines() -> None:
    assert not bridgeable("riscv64")
    with pytest.raises(KeyError):
        build(BRIDGED, wide=True, machine="riscv64")
