"""The serving layer alone: streamed chat chunks a second and CPU time per chunk, with the scripted engine."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from bench.client import stream_many
from bench.part import Options, Outcome
from bench.row import Row, rows_of
from bench.servers import Server, scripted

CHAT = "/v1/chat/completions"
STREAMS = (1, 16)


def serving_layer(options: Options) -> Outcome:
    """Everything but a model: HTTP, gateway, output, dialect, and the scheduler around an engine that costs nothing."""
    pieces = 500 if options.quick else 2000
    with scripted(pieces) as server:
        return Outcome(rows=measured(server, pieces, options.rounds), servers={"serving": server.command})


def measured(server: Server, pieces: int, rounds: int) -> list[Row]:
    """Rows of a running server whose scripted answers have at least `pieces` tokens."""
    rows: list[Row] = []
    for streams in STREAMS:
        flood(server, pieces, 1)
        name = f"{streams} stream{'s' * (streams > 1)}"
        rows += rows_of("serving", name, [flood(server, pieces, streams) for _ in range(rounds)])
    return rows


def flood(server: Server, pieces: int, streams: int, prompt: str = "GO") -> Mapping[str, float]:
    """Answers to `prompt` of `pieces` tokens on all streams at once.

    The CPU time is the whole process's, engine thread included; it is left out where the system does not tell.
    """
    body = {"messages": [{"role": "user", "content": prompt}], "stream": True, "max_tokens": pieces}
    before = server.cpu_seconds()
    runs, seconds = asyncio.run(stream_many(server.url, CHAT, [body] * streams))
    chunks = sum(run.frames for run in runs)
    if chunks < pieces * streams:
        raise RuntimeError(f"{chunks} chunks came where {pieces * streams} tokens were streamed")
    rate = {"chunks": chunks / seconds}
    after = server.cpu_seconds()
    return rate if before is None or after is None else {**rate, "cpu": (after - before) / chunks * 1e6}
