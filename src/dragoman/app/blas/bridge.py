"""A shared object, made in memory, that gives a BLAS the names and integers its callers expect. Knows no MLX.

OpenBLAS as shipped in Python wheels names its functions apart (`scipy_cblas_sgemm64_`), so that several copies can live
in one process, and NumPy's copy takes 64-bit integers. A caller linked against `cblas_sgemm` with 32-bit integers, as
MLX is, cannot use it. The bridge exports the standard names; each widens the integers where that is needed and jumps
to an address kept in a slot, another one for a product of one row, which gemm is slow at. A symbol in the global scope
wins over the same symbol in a library that is loaded later (dlopen(3), RTLD_GLOBAL), so the bridge must be shared
before MLX is imported.

Sources: the System V ABI for ELF (dynamic section, hash table), its AMD64 supplement and AAPCS64 for the arguments.
`void cblas_Xgemm(order, transa, transb, int m, int n, int k, alpha, *a, int lda, *b, int ldb, beta, *c, int ldc)`.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

# Real products only: MLX's few complex ones stay with the library it was linked with.
BRIDGED = ("cblas_sgemm", "cblas_dgemm")
# For each of these the function that multiplies a matrix by a vector: decoding one token does nothing else, and gemm
# copies the matrix first.
VECTORS = ("cblas_sgemv", "cblas_dgemv")

_SLOTS = "dragoman_blas_slots"
# The largest page size of Linux on the machines bridged, so that segments never share a page.
_PAGE = 0x10000
_HEADERS = 64 + 4 * 56


def _words(*words: int) -> bytes:
    return struct.pack(f"<{len(words)}I", *words)


class _Machine(Struct, frozen=True, kw_only=True):
    """`number` is ELF's e_machine; `landing` begins every function: an indirect call may only land there, where the
    processor checks that; `row` turns a product of one row into a call of gemv and falls through to a jump, or skips
    that jump, and is empty where OpenBLAS does the same by itself; `widen` widens m, n, k, lda, ldb and ldc in place;
    `jump` gives code that jumps to the address kept in a slot that many bytes after the code's first."""

    number: int
    landing: bytes
    row: bytes
    widen: bytes
    jump: Callable[[int], bytes]


_MACHINES = {
    "x86_64": _Machine(
        number=62,
        landing=bytes.fromhex("f30f1efa"),  # endbr64
        # If order is 101 (rows), transa 111 (no), transb 111 or 112 (yes), m 1 and k positive, then c = b a or bᵀ a:
        # gemv(order, 111 or 112, rows of b, columns of b, alpha, b, ldb, a, 1, beta, c, 1).
        row=bytes.fromhex(
            "83f901 755e 83ff65 7559 83fe6f 7554 4585c9 7e4f"  # cmp ecx, edi, esi; test r9d
            "4c8b542418 4c635c2420 488b442428"  # r10 = b, r11 = ldb, rax = c
            "83fa70 7412 83fa6f 7536 be70000000 4963d1 4963c8 eb06"  # b is k by n: transpose
            "4963d0 4963c9"  # b is n by k: do not
            "4d89d0 4d89d9 48c744241001000000 4889442418 48c744242001000000"
        ),
        # m, n, k are in ecx, r8d, r9d; on the stack, above the return address: a, lda, b, ldb, c, ldc. movsxd, and
        # back into place: the callee owns its argument area.
        widen=bytes.fromhex("4863c9 4d63c0 4d63c9")
        + b"".join(bytes.fromhex(f"48634424{offset:02x} 48894424{offset:02x}") for offset in (0x10, 0x20, 0x30)),
        # jmp [rip + distance], counted from the end of the six bytes.
        jump=lambda distance: b"\xff\x25" + struct.pack("<i", distance - 6),
    ),
    "aarch64": _Machine(
        number=183,
        landing=_words(0xD503245F),  # bti c
        row=b"",
        # m, n, k are in w3 to w5, lda in w7; on the stack: b, ldb, c, ldc. sxtw; then ldrsw and str through x16.
        widen=_words(0x93407C63, 0x93407C84, 0x93407CA5, 0x93407CE7)
        + _words(0xB9800BF0, 0xF90007F0, 0xB9801BF0, 0xF9000FF0),
        # ldr x16, slot; br x16
        jump=lambda distance: _words(0x58000010 | distance // 4 << 5, 0xD61F0200),
    ),
}


def bridgeable(machine: str | None = None) -> bool:
    """Whether bridges can be built for this kind of processor."""
    return (machine or platform.machine()) in _MACHINES


def share(targets: Mapping[str, int], vectors: Sequence[int] = (), *, wide: bool) -> ctypes.CDLL:
    """Export `targets` (standard name to address of the function to run) in the global scope of this process, for
    good. `vectors` are the addresses of their counterparts for a product of one row, for all or for none. `wide`: the
    functions take 64-bit integers. Raises OSError where the system forbids it."""
    names = tuple(targets)
    addresses = [*targets.values(), *vectors]
    # Stays open: the loader tells libraries apart by path, and a number used again would give it the same path.
    file = os.memfd_create("dragoman-blas")
    path = f"/proc/self/fd/{file}"
    try:
        os.write(file, build(names, wide=wide, rows=bool(vectors)))
        bridge = ctypes.CDLL(path)
    except OSError:
        os.close(file)
        raise
    slots = (ctypes.c_void_p * len(addresses)).in_dll(bridge, _SLOTS)
    slots[:] = addresses
    return ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)


def build(names: Sequence[str], *, wide: bool, rows: bool = False, machine: str | None = None) -> bytes:
    """The shared object: one function for each name, jumping through its slot, or with `rows` for a product of one row
    through a slot as many further as there are names. Raises KeyError for a processor that is not `bridgeable`."""
    target = _MACHINES[machine or platform.machine()]
    strings, offsets = _strings((*names, _SLOTS))
    tables = 24 * (len(names) + 2)
    hashes = _HEADERS + tables + len(strings) + -len(strings) % 8
    code_at = hashes + 4 * (2 + 1 + len(names) + 2)
    code_at += -code_at % 16
    code, starts = _code(target, len(names), code_at, wide=wide, rows=rows)
    symbols = [_symbol(offset, 2, start, 0) for offset, start in zip(offsets, starts, strict=False)]
    slots = 2 * len(names)
    symbols = [bytes(24), *symbols, _symbol(offsets[-1], 1, _PAGE, 8 * slots)]
    text = b"".join([_header(target.number), _segments(code_at + len(code), slots), *symbols, strings])
    text = text.ljust(hashes, b"\0") + _hash_table(len(symbols))
    text = text.ljust(code_at, b"\0") + code
    dynamic = _dynamic(hashes, _HEADERS, _HEADERS + tables, len(strings))
    return text.ljust(_PAGE, b"\0") + bytes(8 * slots) + dynamic


def _strings(names: Sequence[str]) -> tuple[bytes, list[int]]:
    table, offsets = b"\0", list[int]()
    for name in names:
        offsets.append(len(table))
        table += name.encode() + b"\0"
    return table, offsets


def _code(target: _Machine, count: int, start: int, *, wide: bool, rows: bool) -> tuple[bytes, list[int]]:
    """The functions and their addresses; slot `i` is 8 * i bytes into the second segment."""
    code, starts = b"", list[int]()
    for index in range(count):
        code += bytes(-len(code) % 16)
        starts.append(start + len(code))
        code += target.landing
        if rows and target.row:
            code += target.row
            code += target.jump(_PAGE + 8 * (count + index) - start - len(code))
        code += target.widen if wide else b""
        code += target.jump(_PAGE + 8 * index - start - len(code))
    return code, starts


def _header(machine: int) -> bytes:
    ident = b"\x7fELF" + bytes([2, 1, 1]) + bytes(9)
    return ident + struct.pack("<HHIQQQIHHHHHH", 3, machine, 1, 0, 64, 0, 0, 64, 56, 4, 64, 0, 0)


def _segments(text: int, slots: int) -> bytes:
    """Program headers: text, data, dynamic section, and a stack that is not executable."""
    data, dynamic = 8 * slots, 16 * 6
    rows = (
        (1, 5, 0, 0, 0, text, text, _PAGE),
        (1, 6, _PAGE, _PAGE, _PAGE, data + dynamic, data + dynamic, _PAGE),
        (2, 6, _PAGE + data, _PAGE + data, _PAGE + data, dynamic, dynamic, 8),
        (0x6474E551, 6, 0, 0, 0, 0, 0, 16),
    )
    return b"".join(struct.pack("<IIQQQQQQ", *row) for row in rows)


def _symbol(name: int, kind: int, value: int, size: int) -> bytes:
    # Bound globally. Any section number but 0, which would mean "undefined", will do: there are no section headers.
    return struct.pack("<IBBHQQ", name, 1 << 4 | kind, 0, 1, value, size)


def _hash_table(count: int) -> bytes:
    """One bucket, a chain through all symbols."""
    return struct.pack(f"<{3 + count}I", 1, count, 1, 0, *range(2, count), 0)


def _dynamic(hashes: int, symbols: int, strings: int, size: int) -> bytes:
    entries = ((4, hashes), (5, strings), (6, symbols), (10, size), (11, 24), (0, 0))
    return b"".join(struct.pack("<QQ", *entry) for entry in entries)
