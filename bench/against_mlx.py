"""Dragoman beside mlx_lm.server: same checkpoint folder, same machine, in turn.

Two settings. `equal`: float32 weights and the same BLAS under both. `default`: what each does by itself with the form
in which such a model is usually kept (bfloat16; packed 4 bit for SmolLM2), ours with a real BLAS where one is found.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench.blas import by_itself, on_equal_terms, preload
from bench.client import chat
from bench.compare import FAULTS, Measure, alternate
from bench.part import Options, Outcome
from bench.row import CPU_TIME, Trouble
from bench.servers import Server, dragoman, mlx_lm
from bench.weights import Stored, small_checkpoint, smollm2_checkpoint
from bench.workloads import QUICK, WORKLOADS, Scale, body

LANES = 8
SINGLE = ("1 stream", "long prompt")
MANY = ("8 streams", "8 sampled", "8 seeded")


@dataclass(frozen=True)
class Setting:
    """One pair of servers: `folder` makes what both load, `equal` whether both get the same BLAS."""

    part: str
    folder: Callable[[], Path]
    equal: bool
    workloads: Sequence[str]
    scale: Scale


def against_mlx_small(options: Options) -> Outcome:
    """The small random checkpoint: all workloads on equal terms, one stream with defaults."""
    return _run(options, _small(options))


def against_mlx_smollm2(options: Options) -> Outcome:
    """SmolLM2 from the GGUF file, which is slow on a CPU: few tokens, and few workloads."""
    return _run(options, _smollm2(options))


def settings(model: str, options: Options) -> list[tuple[str, str]]:
    """All pairs of part and workload that are measured for `model`, small or smollm2."""
    found = {"small": _small, "smollm2": _smollm2}[model](options)
    return [(setting.part, name) for setting in found for name in setting.workloads]


def _small(options: Options) -> tuple[Setting, ...]:
    scale = Scale(tokens=24, alone=64, long=256) if options.quick else Scale()
    return (
        Setting("small, default", partial(small_checkpoint, "bfloat16"), False, SINGLE, scale),
        Setting("small, equal", partial(small_checkpoint, "float32"), True, tuple(WORKLOADS), scale),
    )


def _smollm2(options: Options) -> tuple[Setting, ...]:
    quick = options.quick
    scale = Scale(
        prompt=8, tokens=8, alone=8 if quick else 24, long=16 if quick else 64, repeats=1, turns=1 if quick else 3
    )

    def stored(how: Stored) -> Path:
        return smollm2_checkpoint(options.gguf(), how)

    return (
        Setting("smollm2, default", partial(stored, "packed"), False, SINGLE, scale),
        Setting("smollm2, equal", partial(stored, "float32"), True, SINGLE if quick else (*SINGLE, *MANY), scale),
    )


def _run(options: Options, settings: Sequence[Setting]) -> Outcome:
    outcome = Outcome()
    for setting in settings:
        try:
            outcome.add(_measure(options, setting))
        except FAULTS as error:
            outcome.troubles.append(Trouble(setting.part, "start", str(error)))
    return outcome


def _measure(options: Options, setting: Setting) -> Outcome:
    outcome = Outcome()
    with ExitStack() as stack:
        ours, peer = _start(stack, setting, options.blas)
        outcome.servers |= {f"{setting.part}, ours": ours.command, f"{setting.part}, peer": peer.command}
        for server in (ours, peer):
            asyncio.run(_warm(server, many=len(setting.workloads) > len(SINGLE)))
        for name in setting.workloads:
            turns = setting.scale.turns if name in QUICK else 1
            print(f"   {setting.part}: {name}", file=sys.stderr, flush=True)
            sides = [(server.name, _side(server, name, setting.scale)) for server in (ours, peer)]
            rows, troubles = alternate(setting.part, name, sides, options.rounds * turns)
            outcome.rows += rows
            outcome.troubles += troubles
    return outcome


def _start(stack: ExitStack, setting: Setting, blas: str | None) -> tuple[Server, Server]:
    """Both servers. The peer has no setting of its own for a BLAS, so on equal terms both get it preloaded."""
    folder = setting.folder()
    flags, env = on_equal_terms(blas) if setting.equal else by_itself(blas)
    lanes = ("--max-lanes", str(LANES))
    ours = stack.enter_context(dragoman(str(folder), *lanes, *flags, env=env))
    peer = stack.enter_context(mlx_lm(folder, env=preload(blas) if setting.equal else None))
    return ours, peer


async def _warm(server: Server, *, many: bool) -> None:
    """Loads the model where that waits for a request, and compiles what is compiled on first use."""
    await chat(server.url, body("to warm up", 2))
    if many:
        await asyncio.gather(*(chat(server.url, body(f"to warm up {stream}", 2)) for stream in range(2)))


def _side(server: Server, name: str, scale: Scale) -> Measure:
    """Measures the workload, and the CPU time the server took for it: that depends less on the machine's neighbours."""

    def measure(turn: int) -> Mapping[str, float]:
        before = server.cpu_seconds()
        found = asyncio.run(WORKLOADS[name].run(server.url, scale, turn))
        after = server.cpu_seconds()
        return found if before is None or after is None else {**found, CPU_TIME: after - before}

    return measure
