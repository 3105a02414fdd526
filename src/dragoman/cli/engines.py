"""What `doctor` tells of llama.cpp engines that run, or ran last, from the records their servers keep."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import msgspec
from msgspec import Struct

from dragoman.backend.llamacpp.client import Client, ConnectionLost
from dragoman.backend.llamacpp.endpoint import Endpoint
from dragoman.backend.llamacpp.journal import RunRecord, read_runs, runs

_PATIENCE = 2.0
_LOG_LINES = 12


class _Slot(Struct, frozen=True):
    is_processing: bool = False
    n_prompt_tokens: int = 0


def engine_lines(folder: Path) -> list[str]:
    """A block for each engine of a server that runs; when none does, for the one that ran last."""
    records = read_runs(folder)
    live = [entry for entry in records if runs(entry[0].server)]
    lines: list[str] = []
    for record, log in live or records[:1]:
        lines += [_headline(record), *(f"  {line}" for line in (*_facts(record), *_last_words(log)))]
    return lines


def _headline(record: RunRecord) -> str:
    if not runs(record.server):
        return f"last llama.cpp engine, of server process {record.server}, which has ended: {record.build}"
    if not record.pid:
        where = f"at {record.model}" if record.model.startswith("http") else f"down. {record.detail}"
        return f"llama.cpp engine of server process {record.server}: {where}".rstrip()
    age = max(0, int(time.time() - record.since))
    return f"llama.cpp engine {record.pid} of server process {record.server}, for {_span(age)}: {record.build}"


def _facts(record: RunRecord) -> list[str]:
    lines = [f"model {record.model}", f"threads {record.threads}{_memory(record.pid)}, restarts {record.restarts}"]
    now = _slots(record.socket) if runs(record.server) else ""
    lines.append(f"slots {record.lanes} of {record.context} tokens{now}")
    settings = (
        f"key/value cache of {record.kv_bits} bits" if record.kv_bits else "",
        f"{record.gpu_layers} layers on the GPU" if record.gpu_layers >= 0 else "",
        f"adapters {', '.join(record.adapters)}" if record.adapters else "",
        f"drafts by {record.speculation}" if record.speculation else "",
        f"image encoder {record.mmproj}" if record.mmproj else "",
    )
    given = "; ".join(filter(None, settings))
    return [*lines, given] if given else lines


def _last_words(log: list[str]) -> list[str]:
    if not log:
        return ["its log is empty: no warnings, no errors"]
    return ["last lines of its log:", *(f"  {line}" for line in log[-_LOG_LINES:])]


def _memory(pid: int) -> str:
    """Resident memory, where the system tells it in a file; the model file's pages count as far as they were read."""
    try:
        text = Path(f"/proc/{pid}/status").read_text() if pid else ""
    except OSError:
        return ""
    found = [line.split()[1] for line in text.splitlines() if line.startswith("VmRSS:")]
    return f", memory {int(found[0]) // 1024} MiB" if found else ""


def _slots(socket: str) -> str:
    """What they do right now, asked of the engine itself."""
    if not socket:
        return ""
    try:
        status, body = asyncio.run(Client(Endpoint(socket=socket)).request("GET", "/slots", patience=_PATIENCE))
    except ConnectionLost:
        return "; it does not answer"
    if status != 200:
        return ""
    try:
        slots = msgspec.json.decode(body, type=list[_Slot])
    except msgspec.MsgspecError:
        return ""
    busy = sum(slot.is_processing for slot in slots)
    return f", {busy} busy; they hold {', '.join(str(slot.n_prompt_tokens) for slot in slots)} tokens"


def _span(seconds: int) -> str:
    if seconds < 120:
        return f"{seconds} s"
    return f"{seconds // 60} min" if seconds < 7200 else f"{seconds // 3600} h"
