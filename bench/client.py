"""A streaming HTTP client that costs little: it counts frames and notes when they came. Knows no dialect's fields."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass, field
from urllib.parse import urlsplit


@dataclass
class Run:
    """What one streamed request did. Times in seconds since the request was sent."""

    frames: int = 0
    first: float = 0.0
    last: float = 0.0
    gaps: list[float] = field(default_factory=list)


async def stream_once(url: str, path: str, body: dict) -> Run:
    """POST `body` and count the `data:` frames of the answer. Raises RuntimeError on any status but 200."""
    address = urlsplit(url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port, limit=1 << 20)
    data = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: {address.netloc}\r\nConnection: close\r\nContent-Length: {len(data)}\r\n\r\n"
    began = time.perf_counter()
    writer.write(head.encode() + data)
    status = await reader.readline()
    if b" 200 " not in status:
        raise RuntimeError(f"{path}: {status.decode().strip()} {(await reader.read()).decode(errors='replace')[-300:]}")
    run = Run()
    while chunk := await reader.read(1 << 16):
        count = chunk.count(b"data: ")
        if count:
            _note(run, count, time.perf_counter() - began)
    writer.close()
    return run


async def stream_many(url: str, path: str, bodies: list[dict]) -> tuple[list[Run], float]:
    """All bodies at once; the runs and the seconds until the last one ended."""
    began = time.perf_counter()
    runs = await asyncio.gather(*(stream_once(url, path, body) for body in bodies))
    return list(runs), time.perf_counter() - began


def _note(run: Run, count: int, now: float) -> None:
    if not run.frames:
        run.first = now
    else:
        run.gaps.append(now - run.last)
    run.frames += count
    run.last = now
