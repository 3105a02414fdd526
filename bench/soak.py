"""`make soak`: streams of random length against the MLX engine, a third of them left early; memory and errors watched.

Exit status 1 when a request failed, when rows or cached bytes are left over, or when memory went on growing.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import re
import sys
import time
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from bench.servers import dragoman
from bench.weights import small_checkpoint

STREAMS = 8
LEFT_EARLY = 1 / 3
CACHE_BYTES = 64 * 1024 * 1024
GROWTH = 1.25
"""Memory at the end may be this much of what it was after the first quarter."""


_MUST_BE_ZERO = ("dragoman_engine_running", "dragoman_engine_waiting")


@dataclass
class Watch:
    """What was seen: requests by how they ended, and (seconds, resident MiB, cached MiB)."""

    finished: int = 0
    left: int = 0
    failed: list[str] = field(default_factory=list)
    samples: list[tuple[float, float, float]] = field(default_factory=list)


def main() -> None:
    """Run for the minutes asked for and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    options = parser.parse_args()
    model = small_checkpoint("float32")
    with dragoman(str(model), "--max-lanes", str(STREAMS), "--prompt-cache-bytes", str(CACHE_BYTES)) as server:
        watch = asyncio.run(_soak(server.url, server.pid, options.minutes * 60))
        time.sleep(1)
        idle = _gauges(asyncio.run(_get(server.url, "/metrics")))
    faults = _faults(watch, idle)
    print(f"{watch.finished} finished, {watch.left} left early, {len(watch.failed)} failed")
    print("\n".join(faults) or "memory stable, nothing left over")
    sys.exit(bool(faults))


async def _soak(url: str, pid: int, seconds: float) -> Watch:
    watch, end = Watch(), time.monotonic() + seconds
    watching = asyncio.create_task(_watch(watch, url, pid, end))
    await asyncio.gather(*(_client(watch, url, random.Random(number), end) for number in range(STREAMS)))
    await watching
    return watch


async def _client(watch: Watch, url: str, dice: random.Random, end: float) -> None:
    """One request after the other: some share a prefix, some go on a conversation, some are left at a random place."""
    while time.monotonic() < end:
        prompt = " ".join(dice.choice(("red", "green", "blue")) for _ in range(dice.choice((3, 40, 200))))
        body = {"messages": [{"role": "user", "content": prompt}], "stream": True, "max_tokens": dice.randint(1, 60)}
        patience = dice.randint(0, 20) if dice.random() < LEFT_EARLY else None
        try:
            whole = await _stream(url, body, patience)
        except (OSError, RuntimeError) as error:
            watch.failed.append(str(error))
            continue
        watch.finished += whole
        watch.left += not whole


async def _stream(url: str, body: dict, patience: int | None) -> bool:
    """Read a stream, or leave after `patience` reads; whether it was read to its end."""
    address = urlsplit(url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    data = msgspec.json.encode(body)
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: {address.netloc}\r\nConnection: close\r\n"
    writer.write(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
    received = b""
    try:
        async with aclosing(_pieces(reader)) as pieces:
            reads = 0
            async for piece in pieces:
                received += piece
                reads += 1
                if patience is not None and reads > patience:
                    return False
    finally:
        writer.close()
    if not received.startswith(b"HTTP/1.1 200 ") or b"data: [DONE]" not in received or b'data: {"error"' in received:
        raise RuntimeError(f"{received[:80]!r} … {received[-200:]!r}")
    return True


async def _pieces(reader: asyncio.StreamReader):
    while piece := await reader.read(1 << 16):
        yield piece


async def _watch(watch: Watch, url: str, pid: int, end: float) -> None:
    began = time.monotonic()
    while time.monotonic() < end:
        gauges = _gauges(await _get(url, "/metrics"))
        resident = _resident(pid)
        cached = gauges["dragoman_engine_cache_bytes"] / 2**20
        watch.samples.append((time.monotonic() - began, resident, cached))
        print(f"{watch.samples[-1][0]:7.0f} s  {resident:7.0f} MiB  cache {cached:5.1f} MiB  {watch.finished} finished")
        await asyncio.sleep(min(15, max(0.1, end - time.monotonic())))


def _resident(pid: int) -> float:
    """Resident memory in MiB."""
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) / 1024 if found else 0.0


async def _get(url: str, path: str) -> str:
    address = urlsplit(url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: {address.netloc}\r\nConnection: close\r\n\r\n".encode())
    text = (await reader.read()).decode()
    writer.close()
    return text


def _gauges(text: str) -> dict[str, float]:
    return {name: float(value) for name, value in re.findall(r"^(\w+)\{model=[^}]*\} ([\d.e+-]+)", text, re.MULTILINE)}


def _faults(watch: Watch, idle: dict[str, float]) -> list[str]:
    found = [f"failed: {text}" for text in watch.failed[:5]]
    found += [f"{name} is {idle[name]:.0f}" for name in _MUST_BE_ZERO if idle[name]]
    if max(cached for _, _, cached in watch.samples) * 2**20 > CACHE_BYTES:
        found.append("the cache was over its budget")
    early = watch.samples[len(watch.samples) // 4][1]
    if watch.samples[-1][1] > GROWTH * early:
        found.append(f"memory grew from {early:.0f} to {watch.samples[-1][1]:.0f} MiB")
    return found


if __name__ == "__main__":
    main()
