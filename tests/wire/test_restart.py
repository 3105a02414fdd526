"""Servers that are killed without notice: nothing half-written is seen afterwards, what was done is kept."""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import openai
import pytest

from tests.support.server_process import ServerProcess, server_process
from tests.wire.clients import openai_client

pytestmark = pytest.mark.slow

CHAT = "/v1/chat/completions"
SCRIPT = {
    "lanes": 2,
    "rules": [
        {"match": "SLOW", "pieces": ["slow", " answer"], "delay": 0.15},
        {"match": "WORDS", "pieces": ["one", " two"]},
    ],
}


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "script.json"
    path.write_text(json.dumps(SCRIPT))
    return path


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


def until(condition: Callable[[], Any]) -> Any:
    end = time.monotonic() + 60
    while not (found := condition()):
        assert time.monotonic() < end
        time.sleep(0.02)
    return found


def files_under(folder: Path, part: str) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and part in path.relative_to(folder).parts]


def half_an_upload(server: ServerProcess, state: Path) -> socket.socket:
    """Sends the first megabytes of a file and waits until they are on disk."""
    address = urlsplit(server.url)
    assert address.hostname is not None
    line = socket.create_connection((address.hostname, address.port or 80))
    head = b'--b\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nuser_data\r\n--b\r\n'
    head += b'Content-Disposition: form-data; name="file"; filename="half.bin"\r\n\r\n'
    line.sendall(
        b"POST /v1/files HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=b\r\n"
        b"Content-Length: 9000000\r\n\r\n" + head + b"x" * 4_000_000
    )
    until(lambda: sum(path.stat().st_size for path in files_under(state, "servers")) > 1_000_000)
    return line


def test_killed_while_a_file_arrives(script: Path, state: Path) -> None:
    with server_process(script, state) as server, openai_client(server.url) as client:
        whole = client.files.create(file=("whole.txt", b"w" * 100_000), purpose="user_data")
        with half_an_upload(server, state):
            server.kill()
    with server_process(script, state) as server, openai_client(server.url) as client:
        assert list(client.files.list()) == [whole]
        assert client.files.content(whole.id).read() == b"w" * 100_000
        assert [path.name for path in files_under(state, "blobs")] == [whole.id]
        arriving = [path for path in files_under(state, "servers") if path.suffix != ".lock"]
        assert arriving == []


def start_batch(client: openai.OpenAI, rows: int) -> str:
    lines = [
        {
            "custom_id": f"r{n}",
            "method": "POST",
            "url": CHAT,
            "body": {"messages": [{"role": "user", "content": "SLOW"}]},
        }
        for n in range(rows)
    ]
    content = "\n".join(json.dumps(line) for line in lines).encode()
    file = client.files.create(file=("rows.jsonl", content), purpose="batch")
    return client.batches.create(input_file_id=file.id, endpoint=CHAT, completion_window="24h").id


def answers(client: openai.OpenAI, file_id: str | None) -> list[dict[str, Any]]:
    assert file_id is not None
    return [json.loads(line) for line in client.files.content(file_id).text.splitlines()]


def kill_amid_a_batch(script: Path, state: Path, *flags: str) -> tuple[str, int]:
    """The batch's id, and how many rows were done by then at least."""
    with server_process(script, state, *flags) as server, openai_client(server.url) as client:
        batch = start_batch(client, 12)
        until(lambda: client.batches.retrieve(batch).request_counts.completed >= 3)
        done = client.batches.retrieve(batch).request_counts.completed
        assert done < 12
        server.kill()
    return batch, done


def test_killed_amid_a_batch(script: Path, state: Path) -> None:
    batch, done = kill_amid_a_batch(script, state)
    with server_process(script, state) as server, openai_client(server.url) as client:
        assert client.batches.retrieve(batch).request_counts.completed >= done
        ended = until(lambda: (now := client.batches.retrieve(batch)).status == "completed" and now)
        assert (ended.request_counts.total, ended.request_counts.completed, ended.error_file_id) == (12, 12, None)
        rows = answers(client, ended.output_file_id)
        assert [row["custom_id"] for row in rows] == [f"r{n}" for n in range(12)]
        texts = {row["response"]["body"]["choices"][0]["message"]["content"] for row in rows}
        assert texts == {"slow answer"}
        assert chats_of(server) <= 12 - done  # none was run again


def test_killed_again_and_again(script: Path, state: Path) -> None:
    batch, least = kill_amid_a_batch(script, state)
    for _ in range(2):
        with server_process(script, state) as server, openai_client(server.url) as client:
            now = client.batches.retrieve(batch)
            assert now.request_counts.completed >= least
            until(lambda: client.batches.retrieve(batch).request_counts.completed > least)  # noqa: B023
            least = client.batches.retrieve(batch).request_counts.completed
            server.kill()
    with server_process(script, state) as server, openai_client(server.url) as client:
        ended = until(lambda: (now := client.batches.retrieve(batch)).status == "completed" and now)
        assert len(answers(client, ended.output_file_id)) == 12


def test_failing_after_a_restart(script: Path, state: Path) -> None:
    batch, done = kill_amid_a_batch(script, state)
    with server_process(script, state, "--batch-restart", "fail") as server, openai_client(server.url) as client:
        ended = client.batches.retrieve(batch)
        assert (ended.status, ended.errors.data[0].code) == ("failed", "server_restarted")
        finished = answers(client, ended.output_file_id)
        assert len(finished) == ended.request_counts.completed >= done
        others = answers(client, ended.error_file_id)
        assert len(finished) + len(others) == 12
        assert {row["error"]["code"] for row in others} == {"server_restarted"}


def test_a_stored_response_survives(script: Path, state: Path) -> None:
    with server_process(script, state) as server, openai_client(server.url) as client:
        made = client.responses.create(model="x", input="WORDS")
        server.kill()
    with server_process(script, state) as server, openai_client(server.url) as client:
        assert client.responses.retrieve(made.id).output_text == "one two"
        following = client.responses.create(model="x", input="WORDS", previous_response_id=made.id)
        assert following.output_text == "one two"


def test_killed_while_responses_are_stored(script: Path, state: Path) -> None:
    """Whatever a client was told of is there, whole; what it was not told to be over is not there as if it were."""
    known: list[str] = []
    with server_process(script, state) as server, openai_client(server.url) as client:
        for _ in range(5):
            known.append(client.responses.create(model="x", input="WORDS").id)
        with client.responses.create(model="x", input="SLOW", stream=True) as stream:
            begun = next(iter(stream)).response.id  # type: ignore[union-attr]
            alone = client.responses.create(model="x", input="SLOW", background=True).id
            server.kill()
    with server_process(script, state) as server, openai_client(server.url) as client:
        for id in known:
            assert client.responses.retrieve(id).status == "completed"
            assert client.responses.input_items.list(id).data
        with pytest.raises(openai.NotFoundError):
            client.responses.retrieve(begun)
        broken = client.responses.retrieve(alone)
        assert (broken.status, broken.error and broken.error.code) == ("failed", "server_restarted")
        assert [event.type for event in client.responses.retrieve(alone, stream=True)][-1] == "response.failed"


def test_killed_again_and_again_while_responses_are_stored(script: Path, state: Path) -> None:
    """The kill falls anywhere between the beginning of an answer and its being durable."""
    known: list[str] = []
    for kill in range(2):
        with server_process(script, state) as server, openai_client(server.url) as client, ThreadPoolExecutor() as pool:
            told = [pool.submit(client.responses.create, model="x", input="WORDS") for _ in range(30)]
            until(lambda: sum(one.done() for one in told) > 3 + 6 * kill)  # noqa: B023
            server.kill()
        known += [one.result().id for one in told if one.exception() is None]
    assert len(known) > 10
    with server_process(script, state) as server, openai_client(server.url) as client:
        assert {client.responses.retrieve(id).output_text for id in known} == {"one two"}


def test_two_servers_share_a_folder(script: Path, state: Path) -> None:
    """What one keeps the other sees; a batch belongs to one of them, and may be cancelled through the other."""
    with (
        server_process(script, state) as one,
        server_process(script, state) as two,
        openai_client(one.url) as first,
        openai_client(two.url) as second,
    ):
        batch = start_batch(first, 30)
        until(lambda: second.batches.retrieve(batch).request_counts.completed >= 1)
        assert second.batches.cancel(batch).status == "cancelling"
        ended = until(lambda: (now := second.batches.retrieve(batch)).status == "cancelled" and now)
        assert 1 <= ended.request_counts.completed < 30
        assert len(answers(second, ended.output_file_id)) == ended.request_counts.completed
        assert chats_of(two) == 0


def chats_of(server: ServerProcess) -> float:
    """Chat requests this server has answered, also those that were broken off."""
    metrics = httpx2.get(f"{server.url}/metrics").text
    found = re.findall(r"^dragoman_requests_total\{([^}]*)\} ([\d.e+]+)$", metrics, flags=re.MULTILINE)
    return sum(float(count) for labels, count in found if f'path="{CHAT}"' in labels)
