"""Clients that leave: the work is cancelled and the next request starts at once (cases.md 22)."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from urllib.parse import urlsplit

import msgspec
import pytest

from tests.support.running import RunningServer
from tests.wire.clients import openai_chat

BODIES = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "FOREVER"}]},
    "/v1/messages": {"messages": [{"role": "user", "content": "FOREVER"}], "max_tokens": 2000},
    "/api/chat": {"model": "x", "messages": [{"role": "user", "content": "FOREVER"}]},
    "/completion": {"prompt": "FOREVER"},
}


def wait_for(condition: Callable[[], bool], seconds: float = 10) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)


def send(server: RunningServer, path: str, body: dict) -> socket.socket:
    address = urlsplit(server.url)
    sock = socket.create_connection((address.hostname, address.port), 10)
    data = msgspec.json.encode(body)
    head = f"POST {path} HTTP/1.1\r\nHost: {address.netloc}\r\nContent-Length: {len(data)}\r\n\r\n"
    sock.sendall(head.encode() + data)
    return sock


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("path", BODIES)
def test_case_22_leaving_while_it_decodes(fake: RunningServer, path: str, stream: bool) -> None:
    before = fake.stats()
    sock = send(fake, path, {**BODIES[path], "stream": stream})
    if stream:
        received = b""
        while received.count(b"la") < 3:
            received += sock.recv(4096)
    wait_for(lambda: fake.stats().running == 1)
    sock.close()
    wait_for(lambda: fake.stats().cancelled == before.cancelled + 1)
    assert fake.stats().running == 0
    assert openai_chat(fake.url, "WORDS", 64, False) == "one two three four five"


def test_case_22_leaving_during_the_prompt(fake: RunningServer) -> None:
    before = fake.stats()
    sock = send(fake, "/v1/chat/completions", {"messages": [{"role": "user", "content": "SLOWPROMPT " + "x" * 1500}]})
    wait_for(lambda: fake.stats().running == 1)
    sock.close()
    wait_for(lambda: fake.stats().cancelled == before.cancelled + 1)
    assert fake.stats().running == 0


def test_case_22_leaving_the_queue(fake: RunningServer) -> None:
    before = fake.stats()
    running = [send(fake, "/completion", {"prompt": "FOREVER"}) for _ in range(4)]
    wait_for(lambda: fake.stats().running == 4)
    queued = send(fake, "/completion", {"prompt": "FOREVER"})
    wait_for(lambda: fake.stats().waiting == 1)
    queued.close()
    wait_for(lambda: fake.stats().waiting == 0)
    for sock in running:
        sock.close()
    wait_for(lambda: fake.stats().cancelled == before.cancelled + 5)


def test_overload_is_429_and_passes(fake: RunningServer) -> None:
    socks = [send(fake, "/completion", {"prompt": "FOREVER"}) for _ in range(4 + 64)]
    wait_for(lambda: fake.stats().waiting == 64)
    extra = send(fake, "/v1/chat/completions", {"messages": [{"role": "user", "content": "WORDS"}]})
    reply = extra.recv(65536)
    assert b" 429 " in reply.splitlines()[0]
    assert b"retry-after" in reply.lower()
    threads = [threading.Thread(target=sock.close) for sock in [*socks, extra]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wait_for(lambda: fake.stats().waiting == 0 and fake.stats().running == 0)
    assert openai_chat(fake.url, "WORDS", 64, False) == "one two three four five"
