from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.core.errors import InvalidRequest, PayloadTooLarge, StorageFailure
from dragoman.dialects.base import Form
from dragoman.gateway.reply import Uploads
from dragoman.http.body import Unread
from dragoman.http.multipart import MAX_FIELD, FormReader

TYPE = "multipart/form-data; boundary=bound"
Part = tuple[str, str | None, bytes]


def encode(parts: Sequence[Part]) -> bytes:
    out = b""
    for name, filename, data in parts:
        named = f'; filename="{filename}"' if filename is not None else ""
        kind = "\r\nContent-Type: text/plain" if filename is not None else ""
        out += f'--bound\r\nContent-Disposition: form-data; name="{name}"{named}{kind}\r\n\r\n'.encode()
        out += data + b"\r\n"
    return out + b"--bound--\r\n"


async def pieces(body: bytes, sizes: Sequence[int]) -> AsyncIterator[bytes]:
    at = 0
    for size in sizes:
        yield body[at : at + size]
        at += size
    yield body[at:]


def read(folder: Path, body: bytes, sizes: Sequence[int] = (), limit: int = 10_000) -> tuple[Form, dict[str, bytes]]:
    """The form and the bytes of its files; afterwards nothing is left in the folder."""

    async def run() -> tuple[Form, dict[str, bytes]]:
        reader = FormReader(TYPE, Uploads(folder, limit))
        form = await reader.read(pieces(body, sizes))
        contents = {name: Path(file.path).read_bytes() for name, file in form.files.items()}
        reader.discard()
        return form, contents

    try:
        return asyncio.run(run())
    finally:
        assert list(folder.iterdir()) == [] if folder.is_dir() else True


def refusal(folder: Path, body: bytes, limit: int = 10_000) -> Exception:
    with pytest.raises((Unread, InvalidRequest)) as caught:
        read(folder, body, limit=limit)
    return caught.value.error if isinstance(caught.value, Unread) else caught.value


NASTY = st.sampled_from([b"", b"\r\n--bound", b"\r\n", b"--bound--", b"\r\n--boun", b"\r\n--bound\r", b"--", b"x"])


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.one_of(NASTY, st.binary(max_size=40)), max_size=6),
    st.text(st.characters(codec="utf-8", exclude_characters='\r\n"\\/%', exclude_categories=["C", "Z"]), max_size=20),
    st.lists(st.integers(1, 30), max_size=40),
)
def test_any_cutting_gives_the_same_form(data: list[bytes], text: str, sizes: list[int]) -> None:
    content = b"".join(data).replace(b"\r\n--bound", b"\r\n--boumd")
    if content.startswith(b"--bound"):
        content = b"x" + content
    body = encode([("purpose", None, text.encode()), ("file", f"n{text}.txt", content), ("empty", None, b"")])
    with tempfile.TemporaryDirectory() as folder:
        form, contents = read(Path(folder), body, sizes)
    assert form.fields == {"purpose": text, "empty": ""}
    assert contents == {"file": content}
    assert (form.files["file"].name, form.files["file"].size) == (f"n{text}.txt", len(content))
    assert form.files["file"].content_type == "text/plain"


def test_the_last_of_a_name_counts(tmp_path: Path) -> None:
    form, contents = read(tmp_path, encode([("a", None, b"1"), ("a", None, b"2"), ("f", "x", b"1"), ("f", "y", b"2")]))
    assert (form.fields, contents, form.files["f"].name) == ({"a": "2"}, {"f": b"2"}, "y")


def test_limits(tmp_path: Path) -> None:
    assert read(tmp_path, encode([("f", "x", b"1" * 100)]), limit=100)[1] == {"f": b"1" * 100}
    assert isinstance(refusal(tmp_path, encode([("f", "x", b"1" * 101)]), limit=100), PayloadTooLarge)
    assert isinstance(refusal(tmp_path, encode([("f", None, b"1" * (MAX_FIELD + 1))])), PayloadTooLarge)


@pytest.mark.parametrize("cut", [0, 1, 10, 30, 75, 90, 110])
def test_cut_forms_are_refused(tmp_path: Path, cut: int) -> None:
    body = encode([("f", "name", b"content of a file")])
    assert isinstance(refusal(tmp_path, body[:cut]), InvalidRequest)


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=200))
def test_noise_is_refused(noise: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        assert isinstance(refusal(Path(folder), noise), InvalidRequest)
        assert isinstance(refusal(Path(folder), b"--bound\r\n" + noise), InvalidRequest)


def test_a_folder_that_is_gone(tmp_path: Path) -> None:
    assert isinstance(refusal(tmp_path / "gone", encode([("f", "x", b"1")])), StorageFailure)


def test_a_client_that_leaves(tmp_path: Path) -> None:
    async def leaving() -> AsyncIterator[bytes]:
        yield encode([("f", "x", b"1" * 1000)])[:500]
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        asyncio.run(FormReader(TYPE, Uploads(tmp_path, 10_000)).read(leaving()))
    assert list(tmp_path.iterdir()) == []
