"""What clients do: each workload drives one server once and gives its metrics. Knows no engine.

Prompts are drawn from (round, stream), so both servers of a round get the same ones and no round finds the last one's
prefixes in a cache. Temperature is 0 unless said otherwise; token counts are the servers' own.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.client import Run, chat
from bench.row import percentile
from bench.weights import WORDS

Metrics = Mapping[str, float]


@dataclass(frozen=True)
class Scale:
    """Sizes in tokens, about: a word is a token. A slow model gets small ones.

    `alone` is the answer of a lone stream, which is cheap to make long and noisy when short; `repeats` is how often a
    long prompt is sent, one after the other; `turns` is how often the servers take turns per round at what is quick.
    """

    prompt: int = 16
    tokens: int = 64
    alone: int = 192
    long: int = 512
    repeats: int = 3
    turns: int = 3
    prefix: int = 512
    agent_tokens: int = 8
    turn: int = 48
    turn_tokens: int = 16


@dataclass(frozen=True)
class Workload:
    """`run` takes the server's URL, the sizes and the number of the round."""

    what: str
    run: Callable[[str, Scale, int], Awaitable[Metrics]]


def words(count: int, *key: object) -> str:
    """`count` words that are the same for the same key."""
    return " ".join(random.Random(repr(key)).choices(WORDS, k=count))


def body(prompt: str, tokens: int, **fields: Any) -> dict[str, Any]:
    """A Chat Completions request with one user message."""
    return {"messages": [{"role": "user", "content": prompt}], "max_tokens": tokens, "temperature": 0, **fields}


async def _together(url: str, bodies: Sequence[dict[str, Any]]) -> tuple[list[Run], float]:
    began = time.perf_counter()
    runs = await asyncio.gather(*(chat(url, one) for one in bodies))
    return runs, time.perf_counter() - began


async def _throughput(url: str, bodies: Sequence[dict[str, Any]]) -> Metrics:
    runs, seconds = await _together(url, bodies)
    return {"throughput": sum(run.tokens for run in runs) / seconds}


async def one_stream(url: str, scale: Scale, turn: int) -> Metrics:
    """Decode rate of one stream, from its first text to its last."""
    run = await chat(url, body(words(scale.prompt, "one", turn), scale.alone))
    return {"decode": run.decode_rate}


async def long_prompt(url: str, scale: Scale, turn: int) -> Metrics:
    """Prompt tokens a second, from the first byte sent to the end of an answer of one token."""
    bodies = [body(words(scale.long, "long", turn, repeat), 1) for repeat in range(scale.repeats)]
    runs = [await chat(url, one) for one in bodies]
    return {"prefill": sum(run.prompt_tokens - run.cached_tokens for run in runs) / sum(run.seconds for run in runs)}


def streams(count: int) -> Callable[[str, Scale, int], Awaitable[Metrics]]:
    """`count` requests at once: tokens a second until the last one ended."""

    async def run(url: str, scale: Scale, turn: int) -> Metrics:
        bodies = [body(words(scale.prompt, count, turn, stream), scale.tokens) for stream in range(count)]
        return await _throughput(url, bodies)

    return run


async def mixed_lengths(url: str, scale: Scale, turn: int) -> Metrics:
    """8 requests at once with prompts and answers from short to long, against each other."""
    shares = (1, 2, 3, 4, 5, 6, 7, 8)
    return await _throughput(
        url,
        [
            body(words(scale.long * share // 16, "mixed", turn, share), max(2, scale.tokens * (9 - share) // 8))
            for share in shares
        ],
    )


async def seeded(url: str, scale: Scale, turn: int) -> Metrics:
    """8 requests at once, temperature 0.8, each with a seed of its own."""
    return await _throughput(url, [_sampled(scale, turn, stream, seed=100 * turn + stream) for stream in range(8)])


async def unseeded(url: str, scale: Scale, turn: int) -> Metrics:
    """8 requests at once, temperature 0.8, no seeds."""
    return await _throughput(url, [_sampled(scale, turn, stream) for stream in range(8)])


async def some_seeded(url: str, scale: Scale, turn: int) -> Metrics:
    """8 requests at once, temperature 0.8, every second one with a seed."""
    seeds = [{"seed": stream} if stream % 2 else {} for stream in range(8)]
    return await _throughput(url, [_sampled(scale, turn, stream, **seed) for stream, seed in enumerate(seeds)])


def _sampled(scale: Scale, turn: int, stream: int, **fields: int) -> dict[str, Any]:
    return body(words(scale.prompt, "sampled", turn, stream), scale.tokens, **{"temperature": 0.8, **fields})


async def shared_prefix(url: str, scale: Scale, turn: int) -> Metrics:
    """8 agents at once: one long system prompt nobody has seen before, then each its own question."""
    system = {"role": "system", "content": words(scale.prefix, "agents", turn)}
    bodies = []
    for agent in range(8):
        request = body(words(scale.prompt, "agent", turn, agent), scale.agent_tokens)
        bodies.append({**request, "messages": [system, *request["messages"]]})
    _, seconds = await _together(url, bodies)
    return {"seconds": seconds}


async def conversation(url: str, scale: Scale, turn: int) -> Metrics:
    """One chat of 4 turns, each sent with all that was said before."""
    messages: list[dict[str, str]] = []
    seconds = 0.0
    for step in range(4):
        messages.append({"role": "user", "content": words(scale.turn, "chat", turn, step)})
        run = await chat(url, {"messages": messages, "max_tokens": scale.turn_tokens, "temperature": 0})
        messages.append({"role": "assistant", "content": run.text})
        seconds += run.seconds
    return {"seconds": seconds}


async def long_arrival(url: str, scale: Scale, turn: int) -> Metrics:
    """A long prompt arrives while 4 streams decode: their gaps between tokens from then until its first token."""
    running = asyncio.Event()
    counts = [0] * 4

    def listener(stream: int) -> Callable[[int], None]:
        def heard(count: int) -> None:
            counts[stream] = count
            if min(counts) >= scale.tokens // 8:
                running.set()

        return heard

    async def newcomer() -> Run:
        await running.wait()
        return await chat(url, body(words(2 * scale.long, "newcomer", turn), 1))

    late = asyncio.create_task(newcomer())
    bodies = [body(words(scale.prompt, "decoding", turn, stream), 2 * scale.tokens) for stream in range(4)]
    runs = await asyncio.gather(*(chat(url, one, listener(stream)) for stream, one in enumerate(bodies)))
    running.set()
    long = await late
    gaps = [gap for run in runs for gap in run.gaps(long.sent, long.ended)]
    if not gaps:
        raise RuntimeError("the streams had ended before the long prompt came")
    return {
        "gap p50": 1000 * percentile(gaps, 0.5),
        "gap p99": 1000 * percentile(gaps, 0.99),
        "first": long.seconds,
    }


WORKLOADS: Mapping[str, Workload] = {
    "1 stream": Workload("decode rate of one stream", one_stream),
    "long prompt": Workload("prefill rate of one long prompt", long_prompt),
    "1 stream, whole": Workload("one request, prompt included", streams(1)),
    "4 streams": Workload("4 requests at once", streams(4)),
    "8 streams": Workload("8 requests at once", streams(8)),
    "8 sampled": Workload("8 requests at once, temperature 0.8, no seeds", unseeded),
    "8 seeded": Workload("8 requests at once, temperature 0.8, a seed each", seeded),
    "4 of 8 seeded": Workload("8 requests at once, temperature 0.8, every second one seeded", some_seeded),
    "mixed lengths": Workload("8 requests at once, short to long prompts, long to short answers", mixed_lengths),
    "shared prefix": Workload("8 agents, one long system prompt, cold", shared_prefix),
    "4-turn chat": Workload("one conversation, each turn sent with all before it", conversation),
    "long arrival": Workload("gaps of 4 decoding streams while a long prompt arrives", long_arrival),
}
"""By the name they have in the table."""

QUICK = frozenset({"1 stream", "long prompt", "1 stream, whole"})
"""Those that take a fast model a second, which a busy neighbour spoils easily."""
