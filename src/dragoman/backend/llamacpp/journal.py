"""The record of an engine's runs on disk: what ran, and the last lines it wrote, for `doctor` to read when the server
is somewhere else or gone. Never the reason that a server fails: what cannot be written is left out."""

from __future__ import annotations

import contextlib
import os
import time
from collections import deque
from collections.abc import Iterable
from pathlib import Path

import msgspec
from msgspec import Struct

from dragoman.backend.llamacpp.engine import RunningEngine
from dragoman.backend.llamacpp.options import LlamaCppOptions
from dragoman.backend.llamacpp.threads import usable_cores

_KEPT_LINES = 200
_LARGEST = 256 * 1024
_KEPT_FILES = 5


class RunRecord(Struct, frozen=True, kw_only=True):
    """A server's engine. `server` and `pid` are process ids (`pid` 0: none of ours), `since` Unix seconds of its last
    start; `lanes` slots of `context` tokens; `socket` where it listens, '' when that is not a Unix socket; `detail` why
    nothing runs."""

    server: int
    pid: int = 0
    build: str = ""
    model: str = ""
    since: float = 0.0
    threads: int = 0
    lanes: int = 0
    context: int = 0
    gpu_layers: int = -1
    kv_bits: int = 0
    adapters: tuple[str, ...] = ()
    speculation: str = ""
    mmproj: str = ""
    socket: str = ""
    restarts: int = 0
    detail: str = ""


def journal_folder(state: Path) -> Path:
    """Where the records are."""
    return state / "engines"


class Journal:
    """Writes the record of this process's engine: `<pid>.json` and `<pid>.log`. Without a folder it writes nothing."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._log = folder / f"{os.getpid()}.log" if folder else None
        self._size = 0
        self._recent: deque[str] = deque(maxlen=_KEPT_LINES)
        if folder is not None:
            with contextlib.suppress(OSError):
                folder.mkdir(parents=True, exist_ok=True, mode=0o700)
                _forget(folder)

    def note(self, record: RunRecord) -> None:
        """Replace what is known of the engine."""
        if self._folder is not None:
            with contextlib.suppress(OSError):
                scratch = self._folder / f".{os.getpid()}.new"
                scratch.write_bytes(msgspec.json.encode(record))
                scratch.replace(self._folder / f"{os.getpid()}.json")

    def line(self, text: str) -> None:
        """One more line of the engine's log. The file is cut to the last 200 when it grows large."""
        if self._log is None:
            return
        self._recent.append(text)
        data = f"{text}\n".encode(errors="replace")
        fresh = self._size == 0 or self._size + len(data) > _LARGEST
        with contextlib.suppress(OSError):
            if fresh:
                data = "".join(f"{line}\n" for line in self._recent).encode(errors="replace")
            with self._log.open("wb" if fresh else "ab") as file:
                file.write(data)
            self._size = len(data) if fresh else self._size + len(data)


def record_of(
    options: LlamaCppOptions, engine: RunningEngine | None, *, build: str, lanes: int, context: int
) -> RunRecord:
    """What runs for these options now; `engine` None: nothing at the moment."""
    drafts = (Path(options.draft_model).name, options.drafter.removeprefix("none"))
    return RunRecord(
        server=os.getpid(),
        pid=engine.pid or 0 if engine else 0,
        build=build,
        model=options.llama_server or "" if options.remote else options.model,
        since=time.time(),
        threads=options.threads or usable_cores(),
        lanes=lanes,
        context=context,
        gpu_layers=options.gpu_layers,
        kv_bits=options.kv_bits,
        adapters=tuple(f"{adapter.name} ({adapter.scale:g})" for adapter in options.adapters),
        speculation=" and ".join(filter(None, drafts)),
        mmproj=Path(options.mmproj).name,
        socket=engine.endpoint.socket if engine else "",
    )


def read_runs(folder: Path) -> list[tuple[RunRecord, list[str]]]:
    """The records with their last lines, newest first; what cannot be read is left out."""
    found: list[tuple[RunRecord, list[str]]] = []
    for path in _newest_first(folder):
        try:
            record = msgspec.json.decode(path.read_bytes(), type=RunRecord)
        except (OSError, msgspec.MsgspecError):
            continue
        try:
            lines = path.with_suffix(".log").read_text(errors="replace").splitlines()
        except OSError:
            lines = []
        found.append((record, lines[-_KEPT_LINES:]))
    return found


def _forget(folder: Path) -> None:
    """Records beyond the newest few go, and so does what an earlier process of our number left."""
    old = [path for path in _newest_first(folder)[_KEPT_FILES - 1 :] if not _runs(path)]
    for path in (*old, folder / f"{os.getpid()}.json"):
        path.unlink(missing_ok=True)
        path.with_suffix(".log").unlink(missing_ok=True)


def _newest_first(folder: Path) -> list[Path]:
    return sorted(_existing(folder.glob("*.json")), key=lambda path: path.stat().st_mtime, reverse=True)


def _existing(paths: Iterable[Path]) -> list[Path]:
    return [path for path in paths if path.is_file()]


def _runs(path: Path) -> bool:
    return path.stem.isdigit() and runs(int(path.stem))


def runs(pid: int) -> bool:
    """Whether there is a process of that number."""
    if pid <= 0 or os.name != "posix":
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
