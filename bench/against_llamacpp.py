"""Dragoman beside llama.cpp's own server: same wheel, model, slots and threads, both over the native wire. What we add
to a decode step shows, and what sharing prefixes saves."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.client import Run, stream_many, stream_once
from bench.compare import FAULTS, Measure, alternate
from bench.part import Options, Outcome
from bench.row import Trouble, rows_of
from bench.servers import Server, bare_llamacpp, dragoman
from bench.workloads import words
from dragoman.backend.llamacpp.threads import usable_cores

NATIVE = "/completion"
CONTEXT = 2048
LANES = 8
STREAMS = (1, 4, 8)
PART = "llamacpp"
TURNS = 3
"""How often the servers take turns per round at what is quick: a neighbour's second must not decide."""

PREFIX, TAIL, SAID = 1200, 50, 16
"""Tokens of an agent's instructions, of its own task and of its answer; a word is a token."""
SETTLE = 2.0
"""Seconds a server gets to write down what it has computed."""


def against_llamacpp(options: Options) -> Outcome:
    """Tokens a second at 1, 4 and 8 streams, the time of 8 agents with one prefix, the first token after a restart."""
    model, threads = options.gguf(), usable_cores()
    outcome = Outcome()
    with _ours(model, threads) as ours, bare_llamacpp(model, LANES, CONTEXT, threads) as bare:
        outcome.servers |= {f"{PART}, ours": ours.command, f"{PART}, peer": bare.command}
        for streams in STREAMS:
            tokens = 24 if options.quick else 256 if streams == 1 else 96
            sides = [(server.name, _decoding(server.url, streams, tokens)) for server in (ours, bare)]
            _measure(outcome, _named(streams), sides, TURNS * options.rounds)
        sides = [(server.name, _agents(server.url, options.quick)) for server in (ours, bare)]
        _measure(outcome, "8 agents", sides, options.rounds)
    outcome.add(_restarted(model, threads, options))
    return outcome


def _named(streams: int) -> str:
    return f"{streams} stream{'s' * (streams > 1)}"


WORKLOADS = (*map(_named, STREAMS), "8 agents", "restart")


def _measure(outcome: Outcome, workload: str, sides: Sequence[tuple[str, Measure]], rounds: int) -> None:
    rows, troubles = alternate(PART, workload, sides, rounds)
    outcome.rows += rows
    outcome.troubles += troubles


@contextmanager
def _ours(model: Path, threads: int, *more: str) -> Iterator[Server]:
    flags = ("--engine", "llamacpp", "--max-lanes", str(LANES), "--ctx", str(CONTEXT), "--threads", str(threads))
    with dragoman(str(model), *flags, *more) as server:
        yield server


def _request(prompt: str, tokens: int, **fields: Any) -> dict[str, Any]:
    return {
        "prompt": prompt, "n_predict": tokens, "temperature": 0, "ignore_eos": True, "stream": True, **fields
    }  # fmt: skip


def _decoding(url: str, streams: int, tokens: int) -> Measure:
    def measure(turn: int) -> Mapping[str, float]:
        prompts = [f"Story {turn}, number {stream}: once upon a time" for stream in range(streams)]
        bodies = [_request(prompt, tokens, cache_prompt=False) for prompt in prompts]
        runs, seconds = asyncio.run(stream_many(url, NATIVE, bodies))
        return {"throughput": sum(run.frames for run in runs) / seconds}

    return measure


def _agents(url: str, quick: bool) -> Measure:
    """8 agents at once with instructions nobody has seen before, each with a task of its own."""
    share = 4 if quick else 1

    def measure(turn: int) -> Mapping[str, float]:
        prefix = words(PREFIX // share, "instructions", turn)
        tasks = [words(TAIL, "task", turn, agent) for agent in range(8)]
        bodies = [_request(f"{prefix}\n{task}", SAID) for task in tasks]
        _, seconds = asyncio.run(stream_many(url, NATIVE, bodies))
        return {"seconds": seconds}

    return measure


def _restarted(model: Path, threads: int, options: Options) -> Outcome:
    """The first token of a long prompt that the server before the restart has answered, beside its first token then."""
    cold: list[Mapping[str, float]] = []
    warm: list[Mapping[str, float]] = []
    outcome = Outcome()
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(options.rounds):
            prompt = words(PREFIX // (4 if options.quick else 1), "restart", turn)
            try:
                for firsts, settle in ((cold, SETTLE), (warm, 0.0)):
                    with _ours(model, threads, "--cache-dir", folder) as server:
                        outcome.servers[f"{PART}, restart"] = server.command
                        asyncio.run(stream_once(server.url, NATIVE, _request("Once", 1)))
                        firsts.append({"first": _first(server.url, prompt)})
                        time.sleep(settle)
            except FAULTS as error:
                outcome.troubles.append(Trouble(PART, "restart", f"{type(error).__name__}: {error}"))
                return outcome
    outcome.rows += rows_of(PART, "restart", warm, cold)
    return outcome


def _first(url: str, prompt: str) -> float:
    run: Run = asyncio.run(stream_once(url, NATIVE, _request(prompt, 1)))
    return run.seconds
