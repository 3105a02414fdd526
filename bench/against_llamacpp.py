"""Dragoman beside llama.cpp's own server: same wheel, model, slots and threads. What we add to a decode step shows."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from bench.client import stream_many
from bench.compare import Measure, alternate
from bench.part import Options, Outcome
from bench.servers import bare_llamacpp, dragoman
from dragoman.backend.llamacpp.threads import usable_cores

NATIVE = "/completion"
CONTEXT = 2048
PART = "llamacpp"


def against_llamacpp(options: Options) -> Outcome:
    """Tokens a second at 1 and 4 streams over the native wire of llama-server."""
    model, threads, tokens = options.gguf(), usable_cores(), 24 if options.quick else 96
    flags = ("--engine", "llamacpp", "--max-lanes", "4", "--ctx", str(CONTEXT), "--threads", str(threads))
    outcome = Outcome()
    with dragoman(str(model), *flags) as ours, bare_llamacpp(model, 4, CONTEXT, threads) as bare:
        outcome.servers |= {f"{PART}, ours": ours.command, f"{PART}, peer": bare.command}
        for streams in (1, 4):
            sides = [(server.name, _decoding(server.url, streams, tokens)) for server in (ours, bare)]
            rows, troubles = alternate(PART, f"{streams} stream{'s' * (streams > 1)}", sides, options.rounds)
            outcome.rows += rows
            outcome.troubles += troubles
    return outcome


def _decoding(url: str, streams: int, tokens: int) -> Measure:
    def measure(turn: int) -> Mapping[str, float]:
        bodies = [
            {
                "prompt": f"Story {turn}, number {stream}: once upon a time",
                "n_predict": tokens,
                "temperature": 0,
                "ignore_eos": True,
                "stream": True,
                "cache_prompt": False,
            }
            for stream in range(streams)
        ]
        runs, seconds = asyncio.run(stream_many(url, NATIVE, bodies))
        return {"throughput": sum(run.frames for run in runs) / seconds}

    return measure
