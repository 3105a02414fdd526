"""The official OpenAI SDK on the Files API of a whole server."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import openai
import pytest

from dragoman.config import StoreSettings
from tests.support.running import RunningServer, running
from tests.wire.clients import openai_client
from tests.wire.conftest import SCRIPT, settings

MAX_FILE, MAX_ALL = 200_000, 500_000
TEXT = b'{"a": 1}\n{"b": "\xc3\xa9\r\n--"}\n'


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    config = dataclasses.replace(
        settings(engine="fake", script=SCRIPT),
        state_dir=tmp_path_factory.mktemp("state"),
        store=StoreSettings(max_file_bytes=MAX_FILE, files_bytes=MAX_ALL),
    )
    with running(config) as server:
        yield server


@pytest.fixture
def client(server: RunningServer) -> Iterator[openai.OpenAI]:
    with openai_client(server.url) as client:
        yield client
        for file in client.files.list():
            client.files.delete(file.id)


def test_a_life_of_a_file(client: openai.OpenAI) -> None:
    made = client.files.create(file=("träume.jsonl", TEXT), purpose="user_data")
    assert (made.object, made.bytes, made.filename) == ("file", len(TEXT), "träume.jsonl")
    assert (made.purpose, made.status, made.expires_at) == ("user_data", "processed", None)
    assert abs(made.created_at - time.time()) < 60
    assert made.id.startswith("file-")
    assert client.files.retrieve(made.id) == made
    assert client.files.content(made.id).read() == TEXT
    gone = client.files.delete(made.id)
    assert (gone.id, gone.deleted, gone.object) == (made.id, True, "file")
    for call in (client.files.retrieve, client.files.content, client.files.delete):
        with pytest.raises(openai.NotFoundError) as caught:
            call(made.id)
        assert caught.value.code == "not_found"
        assert made.id in caught.value.message


def test_streamed_content(client: openai.OpenAI, tmp_path: Path) -> None:
    data = bytes(range(256)) * 700
    made = client.files.create(file=("d.bin", data), purpose="assistants")
    with client.files.with_streaming_response.content(made.id) as answer:
        assert answer.headers["content-length"] == str(len(data))
        assert answer.headers["content-type"] == "application/octet-stream"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert b"".join(answer.iter_bytes(1000)) == data
    with client.files.with_streaming_response.content(made.id) as answer:
        answer.stream_to_file(tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == data


def test_head_of_a_content(client: openai.OpenAI, server: RunningServer) -> None:
    made = client.files.create(file=("d.txt", b"12345"), purpose="user_data")
    answer = httpx2.head(f"{server.url}/v1/files/{made.id}/content")
    assert (answer.status_code, answer.headers["content-length"], answer.content) == (200, "5", b"")


@pytest.mark.parametrize(
    ("name", "sent", "served"),
    [
        ("a.jsonl", None, "application/jsonl"),
        ("a.txt", "text/plain; charset=utf-8", "text/plain"),
        ("a.html", "text/html", "application/octet-stream"),
        ("a.svg", "image/svg+xml", "application/octet-stream"),
        ("a", None, "application/octet-stream"),
        ("a.json", "application/octet-stream", "application/json"),
    ],
)
def test_content_types(client: openai.OpenAI, name: str, sent: str | None, served: str) -> None:
    file = (name, b"<b>", sent) if sent else (name, b"<b>")
    made = client.files.create(file=file, purpose="user_data")
    answer = client.files.with_raw_response.content(made.id)
    assert answer.headers["content-type"].startswith(served)
    assert answer.headers["content-disposition"].startswith("attachment")


def test_names_lose_their_folders(client: openai.OpenAI) -> None:
    for name, kept in (("../../etc/passwd", "passwd"), ("C:\\x\\y.txt", "y.txt"), ('a"b.txt', 'a"b.txt')):
        made = client.files.create(file=(name, b"x"), purpose="user_data")
        assert made.filename == kept
        assert client.files.content(made.id).read() == b"x"


def test_pages(client: openai.OpenAI) -> None:
    ids = [
        client.files.create(file=(f"{n}.txt", b"x"), purpose="user_data" if n % 2 else "vision").id for n in range(5)
    ]
    assert [file.id for file in client.files.list()] == ids[::-1]
    assert [file.id for file in client.files.list(order="asc")] == ids
    assert [file.id for file in client.files.list(purpose="vision")] == [ids[4], ids[2], ids[0]]
    first = client.files.list(limit=2)
    assert ([file.id for file in first.data], first.has_more) == ([ids[4], ids[3]], True)
    assert [file.id for file in client.files.list(limit=2)] == ids[::-1]
    last = client.files.list(limit=2, after=ids[1])
    assert ([file.id for file in last.data], last.has_more) == ([ids[0]], False)
    assert client.files.list(limit=2, after=ids[0]).data == []


@pytest.mark.parametrize(
    ("query", "param"),
    [({"limit": 0}, "limit"), ({"limit": 10_001}, "limit"), ({"order": "up"}, "order"), ({"after": "file-x"}, "after")],
)
def test_bad_lists(client: openai.OpenAI, query: dict, param: str) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.files.list(**query)
    assert caught.value.param == param


def test_expiry(client: openai.OpenAI) -> None:
    policy = {"anchor": "created_at", "seconds": 3600}
    made = client.files.create(file=("a.txt", b"x"), purpose="user_data", expires_after=policy)
    assert made.expires_at == made.created_at + 3600
    batch = client.files.create(file=("a.jsonl", b"x"), purpose="batch")
    assert batch.expires_at == batch.created_at + 30 * 86400
    for wrong in ({"anchor": "now", "seconds": 3600}, {"anchor": "created_at", "seconds": 1}):
        with pytest.raises(openai.BadRequestError) as caught:
            client.files.create(file=("a.txt", b"x"), purpose="user_data", expires_after=wrong)
        assert caught.value.param.startswith("expires_after.")


def test_bad_uploads(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.files.create(file=("a.txt", b"x"), purpose="fun")
    assert (caught.value.param, caught.value.code) == ("purpose", "invalid_value")
    with pytest.raises(openai.BadRequestError) as caught:
        client.files.create(file=("a.txt", b""), purpose="batch")
    assert caught.value.param == "file"
    assert client.files.list().data == []


def test_caps(client: openai.OpenAI, server: RunningServer) -> None:
    with pytest.raises(openai.APIStatusError) as caught:
        client.files.create(file=("a", b"x" * (MAX_FILE + 1)), purpose="user_data")
    assert caught.value.status_code == 413
    assert "--max-file-bytes" in caught.value.message
    with pytest.raises(openai.APIStatusError) as caught:
        client.files.create(file=("a", b"x" * (MAX_FILE + 2_000_000)), purpose="user_data")
    assert caught.value.status_code == 413
    for _ in range(2):
        client.files.create(file=("a", b"x" * MAX_FILE), purpose="user_data")
    with pytest.raises(openai.APIStatusError) as caught:
        client.files.create(file=("a", b"x" * MAX_FILE), purpose="user_data")
    assert caught.value.status_code == 413
    assert "100000 are free" in caught.value.message
    client.files.create(file=("a", b"x" * 100_000), purpose="user_data")
    assert nothing_arriving(server)


@pytest.mark.parametrize(
    ("headers", "body", "said"),
    [
        ({"content-type": "application/json"}, b"{}", "multipart/form-data"),
        ({"content-type": "multipart/form-data"}, b"x", "boundary"),
        ({"content-type": "multipart/form-data; boundary=" + "b" * 200}, b"x", "boundary"),
        ({"content-type": "multipart/form-data; boundary=b"}, b"nonsense", "malformed"),
        ({"content-type": "multipart/form-data; boundary=b"}, b"", "malformed"),
        (
            {"content-type": "multipart/form-data; boundary=b"},
            b'--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\nhalf',
            "ends before",
        ),
        (
            {"content-type": "multipart/form-data; boundary=b"},
            b"--b\r\nContent-Disposition: form-data\r\n\r\nx\r\n--b--\r\n",
            "no name",
        ),
        (
            {"content-type": "multipart/form-data; boundary=b"},
            b'--b\r\nContent-Disposition: form-data; name="file"\r\n\r\nx\r\n--b--\r\n',
            "without a file name",
        ),
        ({"content-type": "multipart/form-data; boundary=b", "content-encoding": "gzip"}, b"x", "Content-Encoding"),
    ],
)
def test_malformed_forms(server: RunningServer, headers: dict, body: bytes, said: str) -> None:
    answer = httpx2.post(f"{server.url}/v1/files", headers=headers, content=body)
    assert answer.status_code == 400
    assert said in answer.json()["error"]["message"]
    assert nothing_arriving(server)


def test_too_many_parts(server: RunningServer) -> None:
    part = b'--b\r\nContent-Disposition: form-data; name="x"\r\n\r\ny\r\n'
    headers = {"content-type": "multipart/form-data; boundary=b"}
    answer = httpx2.post(f"{server.url}/v1/files", headers=headers, content=part * 100 + b"--b--\r\n")
    assert (answer.status_code, "parts" in answer.json()["error"]["message"]) == (400, True)


def test_ids_with_slashes_find_nothing(server: RunningServer) -> None:
    for path in ("x%2F..%2Fnope", "..%2F..%2Fdragoman.sqlite", "%00"):
        assert httpx2.get(f"{server.url}/v1/files/{path}/content").status_code == 404


def nothing_arriving(server: RunningServer) -> bool:
    return server.on_loop(lambda: list(server.room.gateway.uploads.folder.iterdir())) == []
