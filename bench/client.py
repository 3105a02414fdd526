"""A streaming HTTP client that costs little: it keeps what came and when, and reads it only after the last byte."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit


@dataclass
class Run:
    """What one streamed request did. Times in seconds of the monotonic clock; `arrivals` are (time, bytes).

    `tokens` and `prompt_tokens` are what the server counted, 0 where it was not asked to.
    """

    sent: float = 0.0
    ended: float = 0.0
    arrivals: list[tuple[float, bytes]] = field(default_factory=list)
    texts: list[tuple[float, str]] = field(default_factory=list)
    tokens: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0

    @property
    def frames(self) -> int:
        """`data:` frames of any kind."""
        return sum(data.count(b"data: ") for _, data in self.arrivals)

    @property
    def text(self) -> str:
        """The whole answer."""
        return "".join(text for _, text in self.texts)

    @property
    def seconds(self) -> float:
        """From the first byte sent to the last byte read."""
        return self.ended - self.sent

    @property
    def first(self) -> float:
        """Seconds until text came; until the end where none did."""
        return (self.texts[0][0] if self.texts else self.ended) - self.sent

    @property
    def decode_rate(self) -> float:
        """Tokens a second from the first text to the last; 0 where there is no interval."""
        if self.tokens < 2 or len(self.texts) < 2:
            return 0.0
        elapsed = self.texts[-1][0] - self.texts[0][0]
        return (self.tokens - 1) / elapsed if elapsed > 0 else 0.0

    def gaps(self, begin: float = 0.0, end: float = float("inf")) -> list[float]:
        """Seconds between neighbouring texts, for all gaps that overlap the time from `begin` to `end`."""
        times = [at for at, _ in self.texts]
        return [later - earlier for earlier, later in itertools.pairwise(times) if later >= begin and earlier <= end]


Heard = Callable[[int], None]


async def stream_once(url: str, path: str, body: dict[str, Any], heard: Heard | None = None) -> Run:
    """POST `body` and keep the frames of the answer; `heard` is told how many have come so far.

    Raises RuntimeError on any status but 200, and when the answer has an error frame or breaks off.
    """
    address = urlsplit(url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port, limit=1 << 20)
    data = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: {address.netloc}\r\nConnection: close\r\nContent-Length: {len(data)}\r\n\r\n"
    run = Run(sent=time.perf_counter())
    try:
        writer.write(head.encode() + data)
        status = await reader.readline()
        if b" 200 " not in status:
            said = (await reader.read()).decode(errors="replace")[-300:]
            raise RuntimeError(f"{path}: {status.decode(errors='replace').strip()} {said}")
        await _listen(reader, run, heard)
    finally:
        writer.close()
    run.ended = time.perf_counter()
    return run


async def _listen(reader: asyncio.StreamReader, run: Run, heard: Heard | None) -> None:
    count = 0
    while chunk := await reader.read(1 << 16):
        run.arrivals.append((time.perf_counter(), chunk))
        if heard is not None:
            count += chunk.count(b"data: ")
            heard(count)


async def stream_many(url: str, path: str, bodies: list[dict[str, Any]]) -> tuple[list[Run], float]:
    """All bodies at once; the runs and the seconds until the last one ended."""
    began = time.perf_counter()
    runs = await asyncio.gather(*(stream_once(url, path, body) for body in bodies))
    return list(runs), time.perf_counter() - began


async def chat(url: str, body: dict[str, Any], heard: Heard | None = None) -> Run:
    """One streamed Chat Completions request, with the texts and counts of its answer read."""
    asked = {"stream": True, "stream_options": {"include_usage": True}, **body}
    return read_chat(await stream_once(url, "/v1/chat/completions", asked, heard))


def read_chat(run: Run) -> Run:
    """Fill in texts and counts. Raises RuntimeError for an error frame and for an answer without its end mark."""
    over = False
    for at, data in events(run.arrivals):
        if data == b"[DONE]":
            over = True
            continue
        frame = json.loads(data)
        if "error" in frame:
            raise RuntimeError(f"the stream failed: {frame['error']}")
        text = "".join(_texts(frame))
        if text:
            run.texts.append((at, text))
        if usage := frame.get("usage"):
            run.tokens, run.prompt_tokens = usage["completion_tokens"], usage["prompt_tokens"]
            run.cached_tokens = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
    if not over:
        raise RuntimeError("the stream broke off before its end mark")
    return run


def _texts(frame: dict[str, Any]) -> Iterator[str]:
    for choice in frame.get("choices") or ():
        delta = choice.get("delta") or {}
        yield delta.get("content") or delta.get("reasoning_content") or delta.get("reasoning") or ""


def events(arrivals: list[tuple[float, bytes]]) -> Iterator[tuple[float, bytes]]:
    """The data of each server-sent event and when its last byte came.

    Response headers, chunk sizes and comments stand on lines of their own, so lines that do not begin with `data:` are
    passed over. A chunk boundary inside an event (`transfer-encoding: chunked`) would break its line in two; both
    servers write whole events per chunk.
    """
    rest = b""
    for at, chunk in arrivals:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            if line.startswith(b"data: "):
                yield at, line[6:].strip()
