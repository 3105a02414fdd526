"""Bodies that are files, and rows chosen by the keys of a body."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from dragoman.core.errors import StorageFailure
from dragoman.dialects.base import Endpoint
from dragoman.gateway.reply import Uploads
from dragoman.http.body import Unread
from dragoman.http.routes import RouteTable
from dragoman.http.upload import RawUpload
from tests.http.stub import ALPHA, BETA, row


async def pieces(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


def test_a_file_arrives_and_is_gone_when_nobody_took_it(tmp_path: Path) -> None:
    async def run() -> None:
        async with RawUpload(Uploads(tmp_path, 100)) as upload:
            form = await upload.read(pieces(b"ab", b"", b"c" * 600_000, b"d"))
            file = form.files[""]
            assert Path(file.path).read_bytes() == b"ab" + b"c" * 600_000 + b"d"
            assert file.size == 600_003
        assert list(tmp_path.iterdir()) == []

    asyncio.run(run())


def test_what_was_taken_stays(tmp_path: Path) -> None:
    async def run() -> None:
        async with RawUpload(Uploads(tmp_path, 100)) as upload:
            form = await upload.read(pieces(b"a"))
            Path(form.files[""].path).rename(tmp_path / "kept")

    asyncio.run(run())
    assert (tmp_path / "kept").read_bytes() == b"a"


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    async def run() -> None:
        async with RawUpload(Uploads(tmp_path / "none", 100)) as upload:
            await upload.read(pieces(b"a"))

    with pytest.raises(Unread) as caught:
        asyncio.run(run())
    assert isinstance(caught.value.error, StorageFailure)


@pytest.mark.parametrize(
    ("body", "taken"),
    [
        (b'{"prompt": 1}', True),
        (b'{"a": 1, "b": [2]}', True),
        (b'{"a": 1}', False),
        (b'{"prompt": ', False),
        (b'["prompt"]', False),
        (b"", False),
        (b"\xff", False),
        (b"[" * 100_000, False),
    ],
)
def test_the_keys_of_a_body_choose_the_row(body: bytes, taken: bool) -> None:
    rival: Endpoint = row("POST", "/v1/echo", keys=(frozenset({"prompt"}), frozenset({"a", "b"})))
    table = RouteTable((ALPHA, replace(BETA, endpoints=(*BETA.endpoints, rival))))
    match = table.find("POST", "/v1/echo", "/v1/echo").settled(body)
    assert match.dialect.name == ("beta" if taken else "alpha")
    assert table.find("GET", "/v1/items", "/v1/items").settled(body).dialect.name == "alpha"
