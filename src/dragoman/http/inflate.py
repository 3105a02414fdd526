"""Decompresses request bodies with a cap on what comes out. Knows no HTTP."""

from __future__ import annotations

import zlib

from dragoman.core.errors import InvalidRequest, PayloadTooLarge

# zlib window bits: 47 takes gzip and zlib by their headers; raw deflate has none (see `inflate`).
ENCODINGS: dict[str, int | None] = {"": None, "identity": None, "gzip": 47, "x-gzip": 47, "deflate": 47}
_RAW_DEFLATE = -15


def inflate(data: bytes, encoding: str, limit: int) -> bytes:
    """The decompressed data.

    `deflate` is zlib format (RFC 9110 8.4.1.2), but senders that leave the zlib header out are understood too.
    Raises PayloadTooLarge when more than `limit` bytes come out, InvalidRequest for damaged data.
    """
    try:
        return _members(data, ENCODINGS[encoding] or 0, limit)
    except zlib.error as error:
        if encoding == "deflate":
            return _raw(data, limit)
        raise _damaged(encoding) from error
    except EOFError:
        raise _damaged(encoding) from None


def _raw(data: bytes, limit: int) -> bytes:
    try:
        return _members(data, _RAW_DEFLATE, limit)
    except (zlib.error, EOFError):
        raise _damaged("deflate") from None


def _members(data: bytes, window: int, limit: int) -> bytes:
    """A gzip stream may have several members (RFC 1952 section 2.2)."""
    out = bytearray()
    while data:
        engine = zlib.decompressobj(window)
        out += engine.decompress(data, limit - len(out) + 1)
        if len(out) > limit:
            raise PayloadTooLarge(f"The decompressed request body is larger than {limit} bytes.")
        if not engine.eof:
            raise EOFError
        data = engine.unused_data
    return bytes(out)


def _damaged(encoding: str) -> InvalidRequest:
    return InvalidRequest(f"The request body is not valid {encoding} data.", field="content-encoding")
