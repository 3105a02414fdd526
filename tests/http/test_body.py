from __future__ import annotations

import asyncio
import gzip
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.core.errors import InvalidRequest, PayloadTooLarge, RequestTimeout
from dragoman.http.body import BodyReader, Unread
from dragoman.http.disconnect import ClientGone
from dragoman.http.inflate import inflate
from tests.http.stub import StubGateway, ask, make_app

pytestmark = pytest.mark.anyio


def inbox(*pieces: bytes, end: bool = True) -> Any:
    """A receive that yields these pieces, then the end of the body, or waits for ever."""
    messages: list[dict[str, Any]] = [{"type": "http.request", "body": piece, "more_body": True} for piece in pieces]
    if end:
        messages.append({"type": "http.request", "body": b"", "more_body": False})

    async def receive() -> Any:
        if not messages:
            await asyncio.Event().wait()
        return messages.pop(0)

    return receive


async def read(receive: Any, limit: int = 10, seconds: float = 10, **headers: str) -> bytes:
    fields = {name.replace("_", "-"): value for name, value in headers.items()}
    return await BodyReader(limit, seconds).read(fields, receive)


async def test_pieces_are_joined() -> None:
    assert await read(inbox(b"ab", b"", b"c")) == b"abc"
    assert await read(inbox()) == b""
    assert await read(inbox(b"0123456789")) == b"0123456789"


async def test_content_length_is_refused_before_reading() -> None:
    async def receive() -> Any:
        raise AssertionError("read")

    with pytest.raises(Unread) as caught:
        await read(receive, content_length="11")
    assert isinstance(caught.value.error, PayloadTooLarge)
    assert caught.value.linger


async def test_chunked_bodies_are_counted_while_reading() -> None:
    with pytest.raises(Unread) as caught:
        await read(inbox(b"01234", b"56789", b"x", end=False))
    assert isinstance(caught.value.error, PayloadTooLarge)
    assert caught.value.error.remedy is not None
    assert "--max-body" in caught.value.error.remedy


async def test_a_stalled_body_times_out() -> None:
    with pytest.raises(Unread) as caught:
        await read(inbox(b"a", end=False), seconds=0.01)
    assert isinstance(caught.value.error, RequestTimeout)
    assert not caught.value.linger


async def test_a_client_that_leaves_while_uploading() -> None:
    async def receive() -> Any:
        return {"type": "http.disconnect"}

    with pytest.raises(ClientGone):
        await read(receive)


@pytest.mark.parametrize("encoding", ["gzip", "x-gzip", "GZIP", "deflate"])
async def test_encoded_bodies(encoding: str) -> None:
    packed = gzip.compress(b"hello") if "gzip" in encoding.lower() else zlib.compress(b"hello")
    assert await read(inbox(packed), limit=100, content_encoding=encoding) == b"hello"


async def test_identity_is_no_encoding() -> None:
    assert await read(inbox(b"hello"), content_encoding="identity") == b"hello"
    assert await read(inbox(), content_encoding="gzip") == b""


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, gzip", "x" * 1000])
async def test_unknown_encodings_name_the_header(encoding: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        await read(inbox(b"x"), content_encoding=encoding)
    assert caught.value.field == "content-encoding"


@pytest.mark.parametrize(
    "data", [b"plain", gzip.compress(b"hello")[:-3], gzip.compress(b"hello") + b"junk", b"\x1f\x8b"]
)
async def test_damaged_data(data: bytes) -> None:
    for encoding in ("gzip", "deflate"):
        with pytest.raises(InvalidRequest, match="not valid"):
            await read(inbox(data), limit=1000, content_encoding=encoding)


def test_raw_deflate_and_several_members() -> None:
    engine = zlib.compressobj(wbits=-15)
    assert inflate(engine.compress(b"hello") + engine.flush(), "deflate", 5) == b"hello"
    assert inflate(gzip.compress(b"hel") + gzip.compress(b"lo"), "gzip", 5) == b"hello"


def test_a_bomb_is_stopped_at_the_limit() -> None:
    bomb = gzip.compress(b"\0" * 50_000_000)
    with pytest.raises(PayloadTooLarge):
        inflate(bomb, "gzip", 1000)
    with pytest.raises(PayloadTooLarge):
        inflate(gzip.compress(b"12345") * 3, "gzip", 14)


@given(st.binary(max_size=2000), st.booleans())
def test_what_was_packed_comes_out(data: bytes, as_gzip: bool) -> None:
    packed = gzip.compress(data) if as_gzip else zlib.compress(data)
    assert inflate(packed, "gzip" if as_gzip else "deflate", len(data)) == data


async def test_a_bomb_at_the_door_is_413_and_answered_at_once() -> None:
    app = make_app(StubGateway(), max_body=1_000_000)
    packed = gzip.compress(b"\0" * 5_000_000)
    answer = await ask(app, "POST", "/v1/echo", {"content-encoding": "gzip"}, packed)
    assert answer.status == 413
    assert "connection" not in answer.headers
    assert answer.json["alpha"]["code"] == "payload_too_large"
