"""Tables, JSON and a plot of what was measured. Measures nothing."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from bench.part import Options, Outcome
from bench.row import CPU_TIME, METRICS, Row, spread
from bench.targets import Verdict, verdicts

OUT = Path(__file__).parent / "out"
PACKAGES = ("dragoman", "mlx", "mlx-lm", "xllamacpp", "uvicorn", "tokenizers", "transformers")
RATIO = f"{'ratio: min':>13}{'median':>8}{'max':>8}{'cpu':>8}"
HEAD = f"{'workload':<18}{'metric':<12}{'unit':<11}{'ours':>9}{'peer':>9}{RATIO}"


def tables(outcome: Outcome) -> str:
    """One table per part: medians of both sides, and least, median and greatest of the ratios by round."""
    lines: list[str] = []
    for part in dict.fromkeys(row.part for row in outcome.rows):
        rows = [row for row in outcome.rows if row.part == part]
        cpu = {row.workload: row for row in rows if row.metric == CPU_TIME}
        lines += ["", part, HEAD]
        lines += [table_line(row, cpu.get(row.workload)) for row in rows if row.metric != CPU_TIME]
    for title, shares in outcome.notes.items():
        lines += ["", title, *(f"{name:<34}{value:>8.1f}" for name, value in shares.items())]
    lines += ["", *(f"{trouble.part}, {trouble.workload}: {trouble.said}" for trouble in outcome.troubles)]
    return "\n".join(lines)


def table_line(row: Row, cpu: Row | None = None) -> str:
    """The line of one metric; `cpu` is the CPU time of the same workload, shown as its median ratio."""
    unit, more = METRICS[row.metric]
    line = f"{row.workload:<18}{row.metric:<12}{unit:<11}{_figure(spread(row.ours).median):>9}"
    if not row.ratios:
        whole = spread(row.ours)
        return (
            f"{line}{'':>9}   {_figure(whole.min):>10}{_figure(whole.median):>8}{_figure(whole.max):>8}{'':>8}  (ours)"
        )
    ratio = spread(row.ratios)
    cost = f"{spread(cpu.ratios).median:.2f}" if cpu is not None and cpu.ratios else ""
    tail = "" if more else "  (less is better)"
    peer = _figure(spread(row.peer).median)
    return f"{line}{peer:>9}   {ratio.min:>10.2f}{ratio.median:>8.2f}{ratio.max:>8.2f}{cost:>8}{tail}"


def _figure(value: float) -> str:
    return f"{value:.0f}" if value >= 1000 else f"{value:.1f}" if value >= 10 else f"{value:.3g}"


def speeds_to_reach(outcome: Outcome, full: bool) -> str:
    """A line per target that this run measured; with `full` the others too."""
    found = verdicts(outcome.rows)
    return "\n".join(verdict.line() for verdict in found if full or verdict.reached is not None)


def machine() -> dict[str, Any]:
    """What the figures depend on."""
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "load average": list(os.getloadavg()),
        "packages": {name: _version(name) for name in PACKAGES},
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def document(outcome: Outcome, options: Options, before: dict[str, Any]) -> dict[str, Any]:
    """Everything, for programs. `before` is the machine as it was when the run began."""
    return {
        "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "machine": before,
        "options": {"rounds": options.rounds, "quick": options.quick, "blas": Path(options.blas or "").name},
        "servers": outcome.servers,
        "rows": [_row(row) for row in outcome.rows],
        "notes": outcome.notes,
        "troubles": [vars(trouble) for trouble in outcome.troubles],
        "targets": [_verdict(verdict) for verdict in verdicts(outcome.rows)],
    }


def _row(row: Row) -> dict[str, Any]:
    unit, more = METRICS[row.metric]
    ratios = row.ratios
    known = {"part": row.part, "workload": row.workload, "metric": row.metric, "unit": unit, "more is better": more}
    return {**known, "ours": row.ours, "peer": row.peer, "ratio": vars(spread(ratios)) if ratios else None}


def _verdict(verdict: Verdict) -> dict[str, Any]:
    return {**vars(verdict.target), "value": verdict.value, "reached": verdict.reached}


def save(outcome: Outcome, options: Options, before: dict[str, Any], folder: Path = OUT) -> list[Path]:
    """Write the JSON and, where matplotlib is installed, the plot; both also as `last`. Returns what was written."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    written = []
    text = json.dumps(document(outcome, options, before), indent=1, default=list)
    for name in (stem, "last"):
        written.append(folder / f"{name}.json")
        written[-1].write_text(text + "\n", encoding="utf-8")
    lines = curves(outcome.rows)
    if lines:
        written += _plotted(lines, folder / f"{stem}.png", folder / "last.png")
    return written


def curves(rows: Sequence[Row]) -> dict[str, list[tuple[int, float]]]:
    """Tokens a second against streams, by part and server: (streams, median) in order of streams."""
    found: dict[str, list[tuple[int, float]]] = {}
    for row in rows:
        count, _, rest = row.workload.partition(" ")
        if row.metric != "throughput" or not count.isdigit() or not rest.startswith("stream"):
            continue
        for side, values in (("dragoman", row.ours), (_peer_of(row.part), row.peer)):
            if values:
                found.setdefault(f"{side} ({row.part})", []).append((int(count), spread(values).median))
    return {name: sorted(points) for name, points in found.items() if len(points) > 1}


def _peer_of(part: str) -> str:
    return "llama.cpp" if part == "llamacpp" else "mlx_lm.server"


def _plotted(lines: dict[str, list[tuple[int, float]]], *paths: Path) -> list[Path]:
    try:
        import matplotlib
    except ImportError:
        print("No plot: matplotlib is not installed (pip install --group bench).")
        return []
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4.5))
    for name, points in lines.items():
        style = "-o" if name.startswith("dragoman") else "--s"
        axes.plot([x for x, _ in points], [y for _, y in points], style, label=name)
    axes.set(xlabel="streams", ylabel="tokens/s, all streams together", ylim=(0, None))
    axes.set_xticks(sorted({x for points in lines.values() for x, _ in points}))
    axes.grid(alpha=0.3)
    axes.legend()
    figure.tight_layout()
    for path in paths:
        figure.savefig(path, dpi=120)
    pyplot.close(figure)
    return list(paths)
