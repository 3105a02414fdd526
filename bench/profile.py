"""Where the CPU time of a streamed chunk goes, by package: samples of the serving process taken by py-spy.

A sample belongs to the package of the innermost of our frames on its stack, so libraries count for who calls them:
uvicorn and the event loop for http, msgspec for the dialect.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from bench.part import Options, Outcome
from bench.row import Trouble
from bench.servers import Server, scripted
from bench.serving import flood

RATE = 200
STREAMS = 16
PIECES = 1000
THIN = ("http", "gateway", "output")
"""The packages whose CPU time per token has a bound."""
_FRAME = re.compile(r"^(.*) \(dragoman/(\w+)(?:/[\w/]+)?\.py:\d+\)$")


def cpu_profile(options: Options) -> Outcome:
    """Microseconds per chunk by package and for the busiest functions. Needs py-spy and the right to trace a process
    one has started; without them it says so and measures nothing."""
    tool = shutil.which("py-spy", path=str(Path(sys.executable).parent)) or shutil.which("py-spy")
    if tool is None:
        return _trouble("py-spy is not installed (pip install --group bench)")
    seconds = 3 if options.quick else 10
    with scripted(PIECES) as server, tempfile.TemporaryDirectory() as folder:
        flood(server, PIECES, STREAMS)
        out = Path(folder) / "stacks.txt"
        costs, said = _sampled(tool, server, out, seconds)
        if not out.exists() or not costs:
            return _trouble(f"py-spy could not sample the server: {said[-200:]}")
        stacks = read_stacks(out.read_text(encoding="utf-8", errors="replace"))
    cost = sum(costs) / len(costs)
    return Outcome(notes=_tables(stacks, cost))


def _trouble(said: str) -> Outcome:
    return Outcome(troubles=[Trouble("profile", "by package", said)])


def _sampled(tool: str, server: Server, out: Path, seconds: int) -> tuple[list[float], str]:
    """Flood the server while it is sampled; the CPU time per chunk of each flood, and what the tool said."""
    command = [tool, "record", "--pid", str(server.pid), "--duration", str(seconds), "--rate", str(RATE)]
    command += ["--format", "raw", "--nonblocking", "--output", str(out)]
    costs = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        end = time.monotonic() + seconds
        while process.poll() is None and time.monotonic() < end:
            costs += [cost for name, cost in flood(server, PIECES, STREAMS).items() if name == "cpu"]
        said, _ = process.communicate(timeout=30)
    return costs, said


def read_stacks(text: str) -> list[tuple[list[str], int]]:
    """Collapsed stacks, `outer;…;inner count` a line; lines of samples without frames are left out."""
    stacks = []
    for line in text.splitlines():
        frames, _, count = line.rpartition(" ")
        if frames and count.isdigit():
            stacks.append((frames.split(";"), int(count)))
    return stacks


def by_package(stacks: Iterable[tuple[list[str], int]]) -> Counter[str]:
    """Samples of each package, and of `elsewhere` for stacks without a frame of ours."""
    found: Counter[str] = Counter()
    for frames, count in stacks:
        match = _innermost(frames)
        found[match[2] if match else "elsewhere"] += count
    return found


def by_function(stacks: Iterable[tuple[list[str], int]]) -> Counter[str]:
    """Samples of each function of ours with all that it calls outside of us."""
    found: Counter[str] = Counter()
    for frames, count in stacks:
        match = _innermost(frames)
        if match:
            found[f"{match[2]}: {match[1]}"] += count
    return found


def _innermost(frames: list[str]) -> re.Match[str] | None:
    return next((match for frame in reversed(frames) if (match := _FRAME.match(frame))), None)


def _tables(stacks: list[tuple[list[str], int]], cost: float) -> dict[str, dict[str, float]]:
    """`cost` is microseconds of CPU time per chunk of the whole process, sampled or not."""
    total = sum(count for _, count in stacks)
    packages, functions = by_package(stacks), by_function(stacks)
    share = {name: cost * count / total for name, count in packages.most_common()}
    share[" + ".join(THIN)] = sum(share.get(name, 0.0) for name in THIN)
    share["whole process"] = cost
    return {
        "CPU time per chunk by package, µs": share,
        "CPU time per chunk, busiest functions, µs": {
            name: cost * count / total for name, count in functions.most_common(14)
        },
    }
