"""A llama-server without a model: speaks the native wire, answers from a plan, fails on demand.

Its vocabulary has one token per byte (ids 0..255), 256 is the end token and has no text. Like llama.cpp it streams
nothing while the text it has made is not valid UTF-8. As a program it understands the arguments we give a binary:
`python llama_stub.py -m MODEL --host SOCKET|127.0.0.1 [--port N] …`.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import ssl
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

EOS = 256
BOS = 1
MARKER = "<__media_7f3a__>"
VOCABULARY = 257
FLOAT_MIN = -3.4028234663852886e38

Plan = Callable[[list[int], dict[str, Any]], Sequence[int]]
"""From a prompt and the body to the tokens that would follow without end."""


def piece(token: int) -> bytes:
    return bytes([token]) if token < 256 else b""


def text_plan(text: str | bytes, *, after: int = 1) -> Plan:
    """A model that always says `text` after the first `after` prompt tokens, then ends."""
    tokens = [*(text.encode() if isinstance(text, str) else text), EOS]
    return lambda prompt, body: tokens[len(prompt) - after :]


def token_plan(tokens: Sequence[int], *, after: int = 1) -> Plan:
    return lambda prompt, body: list(tokens)[len(prompt) - after :]


def counting_plan(prompt: list[int], body: dict[str, Any]) -> Sequence[int]:
    return [65 + at % 26 for at in range(len(prompt), len(prompt) + 5000)]


@dataclass
class Stub:
    """The server. Tests set the fields; `received` and `dropped` tell what happened."""

    plan: Plan = counting_plan
    n_ctx: int = 2048
    slots: int = 2
    step: float = 0.0
    """Seconds between tokens."""
    withhold: bool = True
    show_slots: bool = True
    status: dict[str, tuple[int, dict[str, Any]]] = field(default_factory=dict)
    """Path to a refusal."""
    break_after: int | None = None
    """Cut the connection after so many frames."""
    error_after: int | None = None
    """Send an error frame after so many token frames, then end the stream."""
    error: dict[str, Any] = field(
        default_factory=lambda: {"code": 500, "message": "Compute error.", "type": "server_error"}
    )
    guidance: bool = False
    """Built with llguidance: takes such grammars, and does not mind them."""
    timings: dict[str, float] = field(default_factory=dict)
    vision: bool = False
    silent: set[str] = field(default_factory=set)
    """Paths that are never answered."""
    never_final: bool = False
    split: int | None = None
    """Send streams in pieces of so many bytes."""
    healthy: bool = True
    received: list[dict[str, Any]] = field(default_factory=list)
    dropped: int = 0
    running: dict[int, dict[str, Any]] = field(default_factory=dict)
    _server: asyncio.Server | None = None
    _writers: set[asyncio.StreamWriter] = field(default_factory=set)
    _handlers: set[asyncio.Task[None]] = field(default_factory=set)
    _count: int = 0

    async def listen(self, *, socket: str | None = None, port: int = 0, tls: ssl.SSLContext | None = None) -> int:
        if socket is not None:
            self._server = await asyncio.start_unix_server(self._serve, socket)
            return 0
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", port, ssl=tls)
        return self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Die: every connection breaks."""
        if self._server is not None:
            self._server.close()
        for writer in list(self._writers):
            writer.transport.abort()
        await asyncio.gather(*self._handlers, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        task = asyncio.current_task()
        assert task is not None
        self._handlers.add(task)
        task.add_done_callback(self._handlers.discard)
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            method, path, _ = head.split(" ", 2)
            headers = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if ": " in line)
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            await self._answer(f"{method} {path}", json.loads(body) if body else {}, headers, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            self.dropped += 1
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()
            self._writers.discard(writer)

    async def _answer(
        self, route: str, body: dict[str, Any], headers: dict[str, str], writer: asyncio.StreamWriter
    ) -> None:
        path = route.split(" ")[1]
        key = os.environ.get("LLAMA_API_KEY")
        if key and path != "/health" and headers.get("authorization") != f"bearer {key}".lower():
            return await self._json(writer, 401, {"error": {"message": "Invalid API Key", "code": 401}})
        if path in self.status:
            return await self._json(writer, *self.status[path])
        if path in self.silent:
            await asyncio.Event().wait()
        if path == "/health":
            status = 200 if self.healthy else 503
            return await self._json(writer, status, {"status": "ok"} if self.healthy else _loading())
        if path == "/props":
            settings = {"n_ctx": self.n_ctx, "params": {}}
            props = {"default_generation_settings": settings, "total_slots": self.slots, "build_info": "b0-stub"}
            props |= {"modalities": {"vision": self.vision}, "media_marker": MARKER}
            return await self._json(writer, 200, props)
        if path == "/tokenize":
            return await self._json(writer, 200, {"tokens": [BOS] if self.vision else []})
        if path == "/v1/models":
            return await self._json(writer, 200, {"data": [{"meta": {"n_vocab": VOCABULARY}}]})
        if path == "/slots":
            if not self.show_slots:
                return await self._json(writer, 501, {"error": {"message": "no slots", "code": 501}})
            return await self._json(writer, 200, list(self.running.values()))
        if path == "/completion":
            return await self._complete(body, writer)
        return await self._json(writer, 404, {"error": {"message": "File Not Found", "code": 404}})

    async def _complete(self, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        if body.get("grammar", "").startswith("%llguidance"):
            if not self.guidance:
                refusal = {"code": 400, "message": "failed to parse grammar", "type": "invalid_request_error"}
                return await self._json(writer, 400, {"error": refusal})
            if body["prompt"] == [0]:
                return await self._json(writer, 200, {"content": "a", "stop": True})
        elif "grammar" in body:
            return await self._json(writer, 200, self._distribution(body))
        self.received.append(body)
        if isinstance(body["prompt"], dict):  # with images
            body = body | {"prompt": list(body["prompt"]["prompt_string"].encode())}
        if len(body["prompt"]) >= self.n_ctx:
            return await self._json(writer, 400, _overflow(len(body["prompt"]), self.n_ctx))
        if not body.get("stream"):
            return await self._json(writer, 200, self._whole(body))
        self._count += 1
        number = self._count
        try:
            await self._stream(body, writer, number)
        finally:
            self.running.pop(number, None)
        return None

    def _tokens(self, body: dict[str, Any]) -> tuple[list[int], str, bool]:
        """What is sampled, why it ends, and whether the window was full."""
        prompt = body["prompt"]
        room = self.n_ctx - len(prompt)
        limit = min(body["n_predict"], room)
        tokens = list(self.plan(prompt, body))[:limit]
        if EOS in tokens:
            return tokens[: tokens.index(EOS) + 1], "eos", False
        return tokens, "limit", len(tokens) == room

    def _distribution(self, body: dict[str, Any]) -> dict[str, Any]:
        prompt, count = body["prompt"], body["n_probs"]
        following = list(self.plan(prompt, body))[:1] if prompt != [0] else []
        order = [*following, *(token for token in range(VOCABULARY) if token not in following)]
        top = [_candidate(token, rank) for rank, token in enumerate(order)][:count]
        return {"stop": True, "tokens": [], "completion_probabilities": [{**top[0], "top_logprobs": top}]}

    def _whole(self, body: dict[str, Any]) -> dict[str, Any]:
        tokens, why, full = self._tokens(body)
        return _final(body, tokens, why, full) | {"tokens": tokens if body.get("return_tokens") else []}

    async def _stream(self, body: dict[str, Any], writer: asyncio.StreamWriter, number: int) -> None:
        await self._send(
            writer,
            b"HTTP/1.1 200 OK\r\nServer: llama.cpp\r\nContent-Type: text/event-stream\r\n"
            b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n",
        )
        tokens, why, full = self._tokens(body)
        sent = 0
        async for frame in self._frames(body, tokens, number):
            if self.break_after is not None and sent >= self.break_after:
                writer.transport.abort()
                return
            if self.error_after is not None and frame["tokens_predicted"] > self.error_after:
                await self._event(writer, {"error": self.error})
                await self._send(writer, b"0\r\n\r\n")
                return
            await self._event(writer, frame)
            sent += 1
        while self.never_final:
            await self._send(writer, b"3\r\n:\n\n\r\n")
            await asyncio.sleep(0.02)
        final = _final(body, tokens, why, full)
        await self._event(writer, final | {"timings": final["timings"] | self.timings})
        await self._send(writer, b"0\r\n\r\n")

    async def _frames(self, body: dict[str, Any], tokens: list[int], number: int) -> AsyncIterator[dict[str, Any]]:
        prompt = len(body["prompt"])
        base = {"index": 0, "content": "", "tokens": [0], "stop": False, "id_slot": -1, "tokens_evaluated": prompt}
        for processed in (0, prompt) if body.get("return_progress") else ():
            progress = {"total": prompt, "cache": 0, "processed": processed, "time_ms": 0.5}
            yield base | {"tokens_predicted": 0, "prompt_progress": progress}
        text, shown = b"", 0
        for at, token in enumerate(tokens, 1):
            await asyncio.sleep(self.step)
            next_token = [{"n_decoded": at, "n_remain": 0}]
            self.running[number] = {
                "id": 0, "is_processing": True, "n_prompt_tokens": prompt + at, "next_token": next_token,
            }  # fmt: skip
            text += piece(token)
            if self.withhold and not _valid(text):
                continue
            frame = base | {
                "tokens": [token],
                "tokens_predicted": at,
                "content": text[shown:].decode("utf-8", "replace"),
            }
            if body.get("n_probs"):
                top = [_candidate(token, 0)] + [_candidate(rank, rank + 1) for rank in range(body["n_probs"] - 1)]
                frame["completion_probabilities"] = [{**_candidate(token, 0), "top_logprobs": top}]
            shown = len(text)
            yield frame

    async def _event(self, writer: asyncio.StreamWriter, data: dict[str, Any]) -> None:
        block = b"data: " + json.dumps(data, ensure_ascii=False).encode() + b"\n\n"
        await self._send(writer, b"%x\r\n%s\r\n" % (len(block), block))

    async def _send(self, writer: asyncio.StreamWriter, data: bytes) -> None:
        size = self.split or len(data)
        for at in range(0, len(data), size):
            writer.write(data[at : at + size])
            await writer.drain()
            if self.split:
                await asyncio.sleep(0)
        if writer.transport.is_closing():
            raise ConnectionResetError

    async def _json(self, writer: asyncio.StreamWriter, status: int, body: Any) -> None:
        data = json.dumps(body).encode()
        head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
        writer.write(head.encode() + data)
        await writer.drain()


def _valid(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def logprob_of(rank: int) -> float:
    return FLOAT_MIN if rank > 200 else -0.125 - rank


def _candidate(token: int, rank: int) -> dict[str, Any]:
    raw = piece(token)
    return {
        "id": token,
        "token": raw.decode("utf-8", "ignore"),
        "bytes": list(raw),
        "logprob": logprob_of(rank),
    }


def _final(body: dict[str, Any], tokens: list[int], why: str, full: bool) -> dict[str, Any]:
    prompt = len(body["prompt"])
    return {
        "stop": True,
        "tokens": [],
        "tokens_predicted": len(tokens),
        "tokens_evaluated": prompt,
        "id_slot": 1,
        "stop_type": why,
        "truncated": full,
        "timings": {"cache_n": 0, "prompt_n": prompt, "prompt_ms": 12.5, "predicted_ms": 34.5},
    }


def _overflow(prompt: int, window: int) -> dict[str, Any]:
    error = {"code": 400, "message": "too long", "type": "exceed_context_size_error"}
    return {"error": error | {"n_prompt_tokens": prompt, "n_ctx": window}}


def _loading() -> dict[str, Any]:
    return {"error": {"message": "Loading model", "type": "unavailable_error", "code": 503}}


async def _program(arguments: list[str]) -> None:
    given = dict(itertools.pairwise(arguments))
    if "--fail" in arguments:
        print(
            "0.00.001.000 E gguf_init_from_reader: invalid magic characters: 'hell', expected 'GGUF'", file=sys.stderr
        )
        sys.exit(1)
    await asyncio.sleep(float(given.get("--load", "0")))
    print("stub is loading", file=sys.stderr, flush=True)
    stub = Stub(n_ctx=int(given["-c"]) // int(given["-np"]), slots=int(given["-np"]), step=0.01)
    host = given["--host"]
    await stub.listen(**({"socket": host} if host.endswith(".sock") else {"port": int(given["--port"])}))
    print(f"listening since {time.monotonic()}", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_program(sys.argv[1:]))
