"""`make bench`: what the serving layer costs, as ratios from one run."""

from __future__ import annotations

import argparse
import asyncio
import statistics
from collections.abc import Callable

from bench.client import stream_many
from bench.servers import bare_llamacpp, dragoman, scripted
from dragoman.backend.llamacpp.threads import usable_cores
from dragoman.catalog.fetch import fetch_starter

CHAT, NATIVE = "/v1/chat/completions", "/completion"
PIECES = 2000
TOKENS = 96
CONTEXT = 2048


def main() -> None:
    """Run the parts asked for and print their tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="which parts to run; none: all")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each measurement")
    options = parser.parse_args()
    for name in options.parts or PARTS:
        PARTS[name](options.rounds)


def serving_layer(rounds: int) -> None:
    """Streamed chat chunks a second with the scripted engine at zero delay."""
    print("\nServing layer: streamed chat chunks/s, scripted engine, no delay")
    print(f"{'streams':>8} {'min':>8} {'median':>8} {'max':>8}")
    body = {"messages": [{"role": "user", "content": "GO"}], "stream": True, "max_tokens": PIECES}
    with scripted(PIECES) as url:
        for streams in (1, 16):
            rates = [_rate(url, CHAT, [body] * streams) for _ in range(rounds)]
            print(f"{streams:>8} {min(rates):>8.0f} {statistics.median(rates):>8.0f} {max(rates):>8.0f}")


def against_llamacpp(rounds: int) -> None:
    """Tokens a second through Dragoman and through llama.cpp's own server: same wheel, model, slots and threads."""
    model, threads = fetch_starter(), usable_cores()
    print(f"\nSmolLM2-135M, {threads} threads: Dragoman's tokens/s divided by the bare llama.cpp server's, alternating")
    print(f"{'streams':>8} {'ours':>8} {'bare':>8} {'ratio: min':>11} {'median':>8} {'max':>8}")
    flags = ("--max-lanes", "4", "--ctx", str(CONTEXT), "--threads", str(threads), "--log-level", "error")
    with dragoman(str(model), *flags) as ours, bare_llamacpp(model, 4, CONTEXT, threads) as bare:
        for streams in (1, 4):
            pairs = [(_decode(ours, streams, turn), _decode(bare, streams, turn)) for turn in range(rounds)]
            ratios = [one / other for one, other in pairs]
            one, other = (statistics.median(column) for column in zip(*pairs, strict=True))
            spread = f"{min(ratios):>11.3f} {statistics.median(ratios):>8.3f} {max(ratios):>8.3f}"
            print(f"{streams:>8} {one:>8.1f} {other:>8.1f} {spread}")


def _decode(url: str, streams: int, turn: int) -> float:
    bodies = [
        {
            "prompt": f"Story {turn}, number {stream}: once upon a time",
            "n_predict": TOKENS,
            "temperature": 0,
            "ignore_eos": True,
            "stream": True,
            "cache_prompt": False,
        }
        for stream in range(streams)
    ]
    return _rate(url, NATIVE, bodies)


def _rate(url: str, path: str, bodies: list[dict]) -> float:
    runs, seconds = asyncio.run(stream_many(url, path, bodies))
    return sum(run.frames for run in runs) / seconds


PARTS: dict[str, Callable[[int], None]] = {"serving": serving_layer, "llamacpp": against_llamacpp}

if __name__ == "__main__":
    main()
