"""Reads the header of a GGUF file: scalar metadata and the table of tensors. Reads no tensor data, knows no model.

MLX's own loader does not say how a tensor was stored, silently rounds K-quants to float16, and trusts the offsets in
the file; so what it may be given is checked here first. Layout: GGUF specification (ggml repository), versions 2, 3.
"""

from __future__ import annotations

import mmap
import struct
from math import prod
from pathlib import Path

from msgspec import Struct

from dragoman.core.errors import EngineFailure

Scalar = int | float | bool | str | list[int] | list[float]

_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_SHORT_ARRAY = 4096

TENSOR_TYPES = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 6: "Q5_0", 7: "Q5_1", 8: "Q8_0", 9: "Q8_1", 10: "Q2_K", 11: "Q3_K",
    12: "Q4_K", 13: "Q5_K", 14: "Q6_K", 15: "Q8_K", 16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S",
    20: "IQ4_NL", 21: "IQ3_S", 22: "IQ2_S", 23: "IQ4_XS", 24: "I8", 25: "I16", 26: "I32", 27: "I64", 28: "F64",
    29: "IQ1_M", 30: "BF16", 34: "TQ1_0", 35: "TQ2_0", 39: "MXFP4", 40: "NVFP4", 41: "Q1_0",
}  # fmt: skip
"""Names of the tensor types by number."""

BLOCKS = {"F32": (1, 4), "F16": (1, 2), "Q4_0": (32, 18), "Q4_1": (32, 20), "Q8_0": (32, 34)}
"""Elements and bytes of one block, for the types MLX keeps exactly."""


class GgufTensor(Struct, frozen=True):
    """One entry of the table. `shape` is in NumPy order (rows first); `offset` counts from the start of the data."""

    name: str
    shape: tuple[int, ...]
    type: str
    offset: int

    @property
    def elements(self) -> int:
        """How many weights it stands for."""
        return prod(self.shape)


class GgufHeader(Struct, frozen=True):
    """`metadata` holds scalars, strings and short arrays of numbers; arrays of strings are skipped."""

    metadata: dict[str, Scalar]
    tensors: tuple[GgufTensor, ...]
    data_start: int


def read_header(path: Path) -> GgufHeader:
    """The header of `path`. Raises EngineFailure for what is no GGUF, too old, or cut short."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as view:
            header = _Reader(view, path).header()
            _check_extent(header, len(view), path)
            return header
    except (OSError, ValueError) as error:
        raise EngineFailure(f"{path} cannot be read as GGUF: {error}") from error


def _check_extent(header: GgufHeader, size: int, path: Path) -> None:
    """Every tensor of a known type lies inside the file; reading past its end would kill the process."""
    for tensor in header.tensors:
        if tensor.type not in BLOCKS:
            continue
        elements, width = BLOCKS[tensor.type]
        if not tensor.shape or tensor.shape[-1] % elements:
            raise EngineFailure(f"{path}: the shape of tensor {tensor.name} does not fit its type {tensor.type}.")
        if header.data_start + tensor.offset + tensor.elements // elements * width > size:
            raise EngineFailure(
                f"{path} is incomplete: it ends before tensor {tensor.name}.", remedy="Download it again."
            )


class _Reader:
    def __init__(self, view: mmap.mmap, path: Path) -> None:
        self._view = view
        self._path = path
        self._at = 0

    def header(self) -> GgufHeader:
        if self._take(4) != b"GGUF":
            raise EngineFailure(f"{self._path} is not a GGUF file.")
        version = self._number("I")
        if version not in (2, 3):
            raise EngineFailure(f"{self._path} is GGUF version {version}; versions 2 and 3 can be read.")
        n_tensors, n_entries = self._number("Q"), self._number("Q")
        metadata: dict[str, Scalar] = {}
        for _ in range(n_entries):
            key = self._string()
            value = self._value(self._number("I"))
            if value is not None:
                metadata[key] = value
        tensors = tuple(self._tensor() for _ in range(n_tensors))
        alignment = metadata.get("general.alignment", 32)
        if not isinstance(alignment, int) or alignment < 1:
            raise EngineFailure(f"{self._path} has an invalid alignment.")
        return GgufHeader(metadata, tensors, -(-self._at // alignment) * alignment)

    def _tensor(self) -> GgufTensor:
        name = self._string()
        dimensions = self._number("I")
        if dimensions > 8:
            raise EngineFailure(f"{self._path} is damaged: tensor {name} has {dimensions} dimensions.")
        shape = tuple(self._number("Q") for _ in range(dimensions))
        kind = self._number("I")
        return GgufTensor(name, shape[::-1], TENSOR_TYPES.get(kind, f"type {kind}"), self._number("Q"))

    def _value(self, kind: int) -> Scalar | None:
        if kind == _STRING:
            return self._string()
        if kind == _ARRAY:
            return self._array()
        if kind not in _SCALARS:
            raise EngineFailure(f"{self._path} is damaged: metadata of unknown type {kind}.")
        return self._number(_SCALARS[kind])

    def _array(self) -> list[int] | list[float] | None:
        kind, count = self._number("I"), self._number("Q")
        if kind == _STRING:
            for _ in range(count):
                self._take(self._number("Q"))
            return None
        if kind not in _SCALARS:
            raise EngineFailure(f"{self._path} is damaged: an array of unknown type {kind}.")
        raw = self._take(count * struct.calcsize(f"<{_SCALARS[kind]}"))
        return list(struct.unpack(f"<{count}{_SCALARS[kind]}", raw)) if count <= _SHORT_ARRAY else None

    def _number(self, code: str) -> int:
        """Floats and booleans come through here too; callers know which they asked for."""
        return struct.unpack(f"<{code}", self._take(struct.calcsize(f"<{code}")))[0]

    def _string(self) -> str:
        return self._take(self._number("Q")).decode("utf-8", "replace")

    def _take(self, count: int) -> bytes:
        end = self._at + count
        if end > len(self._view):
            raise EngineFailure(f"{self._path} is incomplete: its header is cut short.", remedy="Download it again.")
        piece = self._view[self._at : end]
        self._at = end
        return piece
