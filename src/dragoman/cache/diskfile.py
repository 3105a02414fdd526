"""One cached prefix as a file that describes itself. Knows its layout, and nothing of budgets or lookups.

Layout: magic, length of the header (4 bytes, little-endian), header (JSON), packed tokens, payload, digest (BLAKE2b of
all before it). A file is written under another name, synced and renamed: a name that ends in SUFFIX is always whole,
or damaged by someone else, which its size or its digest shows.
"""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO, Protocol, cast

import msgspec
from msgspec import Struct

from dragoman.cache.base import EntryKind
from dragoman.cache.packed import WIDTH

SUFFIX = ".prefix"
TEMPORARY = ".part"

_MAGIC = b"DRGPFX1\n"
_LENGTH_BYTES = 4
_DIGEST_BYTES = 16
_LONGEST_HEADER = 1 << 16
_PIECE = 1 << 20


class Header(Struct, frozen=True, kw_only=True):
    """What a file says of itself. `fingerprint` names everything the payload's meaning depends on; `tokens` is the
    number of tokens it stands for, `payload` its bytes; `order` the byte order of the packed tokens."""

    fingerprint: str
    namespace: str
    kind: EntryKind
    tokens: int
    trimmable: bool
    payload: int
    order: str = sys.byteorder


class Damaged(Exception):
    """The file is one of ours and not as it was written."""


class Foreign(Exception):
    """The file is none of ours."""


class _Digest(Protocol):
    def update(self, data: bytes, /) -> None: ...
    def digest(self) -> bytes: ...


def write_file(path: Path, header: Header, key: bytes, source: BinaryIO) -> None:
    """Write it whole or not at all. Raises OSError, also when `source` ends before `header.payload` bytes."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}{TEMPORARY}")
    try:
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb", buffering=0) as file:
            _write(cast("BinaryIO", file), header, key, source)
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def read_head(path: Path) -> tuple[Header, bytes]:
    """Header and packed tokens, without a look at the payload. Raises Foreign, Damaged, OSError."""
    with open(path, "rb") as file:
        return _read_head(file, _new_digest())


def copy_payload(path: Path, expected: Header, key: bytes, sink: BinaryIO) -> None:
    """Write the payload to `sink`, checked on the way. Raises Damaged (after which what `sink` got is worthless), also
    when the file is no longer the expected one; Foreign; OSError."""
    digest = _new_digest()
    with open(path, "rb") as file:
        if _read_head(file, digest) != (expected, key):
            raise Damaged("it is another entry now")
        for piece in _pieces(file, expected.payload):
            digest.update(piece)
            sink.write(piece)
        if file.read(_DIGEST_BYTES + 1) != digest.digest():
            raise Damaged("its digest does not match")


def _write(file: BinaryIO, header: Header, key: bytes, source: BinaryIO) -> None:
    digest = _new_digest()
    encoded = msgspec.json.encode(header)
    for part in (_MAGIC, len(encoded).to_bytes(_LENGTH_BYTES, "little"), encoded, key):
        digest.update(part)
        _write_all(file, part)
    try:
        for piece in _pieces(source, header.payload):
            digest.update(piece)
            _write_all(file, piece)
    except Damaged as error:
        raise OSError("the state to be written is shorter than it was") from error
    _write_all(file, digest.digest())


def _write_all(file: BinaryIO, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]


def _read_head(file: BinaryIO, digest: _Digest) -> tuple[Header, bytes]:
    start = file.read(len(_MAGIC) + _LENGTH_BYTES)
    if start[: len(_MAGIC)] != _MAGIC:
        raise Foreign
    length = int.from_bytes(start[len(_MAGIC) :], "little")
    encoded = file.read(min(length, _LONGEST_HEADER))
    try:
        header = msgspec.json.decode(encoded, type=Header)
    except msgspec.MsgspecError as error:
        raise Damaged("its header cannot be read") from error
    key_bytes = header.tokens * WIDTH
    size = len(start) + len(encoded) + key_bytes + header.payload + _DIGEST_BYTES
    if min(header.tokens, header.payload) < 0 or os.fstat(file.fileno()).st_size != size:
        raise Damaged("its size is wrong")
    key = file.read(key_bytes)
    for part in (start, encoded, key):
        digest.update(part)
    return header, key


def _pieces(file: BinaryIO, count: int) -> Iterator[bytes]:
    """The next `count` bytes. Raises Damaged when there are fewer."""
    while count > 0:
        piece = file.read(min(_PIECE, count))
        if not piece:
            raise Damaged("it ends too early")
        count -= len(piece)
        yield piece


def _new_digest() -> _Digest:
    return blake2b(digest_size=_DIGEST_BYTES)


def _sync_folder(folder: Path) -> None:
    """Make the renaming last; not every system can."""
    try:
        number = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(number)
    except OSError:
        return
    finally:
        os.close(number)
