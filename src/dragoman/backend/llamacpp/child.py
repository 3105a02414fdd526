"""The engine process: llama.cpp's server in a process of its own, so that its crash is not ours.

Run as `python -m dragoman.backend.llamacpp.child`, with ChildParameters as one JSON line on standard input, which then
stays open for as long as the parent lives. Writes one ChildReady line to standard output and its log to standard
error. The only module that imports xllamacpp; knows nothing of requests.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, cast

import msgspec

from dragoman.backend.llamacpp.crowding import watch_crowding
from dragoman.backend.llamacpp.flags import Setting
from dragoman.backend.llamacpp.parameters import ChildParameters, ChildReady
from dragoman.backend.llamacpp.parent import AT_ONCE, TIDILY, die_with_parent, watch_input

_LOG_SECONDS = 0.2
_WARNINGS = 2
"""llama.cpp's verbosity that logs warnings and errors only."""


def main() -> NoReturn:
    """Load the model, tell the parent, serve until told to stop. Exit status 1 when the model cannot be served."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's business: it drains first.
    ready_pipe = _take_over_output()
    try:
        parameters = msgspec.json.decode(_first_line(), type=ChildParameters)
    except msgspec.MsgspecError as error:
        _tell(ready_pipe, ChildReady(error=f"The engine process got parameters it cannot read: {error}."))
        os._exit(1)
    die_with_parent(AT_ONCE, parameters.parent)
    watch_input(lambda: _leave(parameters))
    ready, server = _serve(parameters)
    if server is not None:
        # From here on this interpreter runs, so the end can be a tidy one.
        signal.signal(signal.SIGTERM, lambda _number, _frame: _leave(parameters))
        die_with_parent(TIDILY, parameters.parent)
        watch_crowding(parameters.threads, lambda line: print(line, file=sys.stderr, flush=True))
    if server is None:
        # llama.cpp logs on a thread of its own, and the reason may still be on its way out.
        time.sleep(_LOG_SECONDS)
    _tell(ready_pipe, ready)
    if server is None:
        os._exit(1)
    while True:
        threading.Event().wait()


def _take_over_output() -> BinaryIO:
    """The pipe to the parent; whatever else writes to standard output writes to the log from now on."""
    pipe = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    return cast("BinaryIO", pipe)


def _first_line() -> bytes:
    """One line, read byte by byte: what follows on standard input must stay there for the watcher."""
    line = bytearray()
    while (byte := os.read(0, 1)) not in (b"", b"\n"):
        line += byte
    return bytes(line)


def _serve(parameters: ChildParameters) -> tuple[ChildReady, object | None]:
    try:
        import xllamacpp  # pyright: ignore[reportMissingTypeStubs]
    except ImportError as error:
        return ChildReady(error=str(error), missing=True), None
    library = cast("Any", xllamacpp)
    try:
        server = library.Server(_server_parameters(library, parameters))
    except Exception as error:
        return ChildReady(error=str(error) or type(error).__name__), None
    port = re.search(r":(\d+)/?$", str(server.listening_address))
    return ChildReady(port=int(port[1]) if port else 0, build=_build(library)), server


def _server_parameters(library: Any, wanted: ChildParameters) -> object:
    made = library.CommonParams()
    made.model.path = wanted.model
    made.n_ctx = wanted.context
    made.n_parallel = wanted.lanes
    made.n_batch = wanted.batch
    made.n_ubatch = wanted.ubatch
    made.cpuparams.n_threads = wanted.threads
    made.cpuparams_batch.n_threads = wanted.threads
    made.cache_ram_mib = wanted.prompt_cache_mib
    made.cache_idle_slots = wanted.prompt_cache_mib > 0
    if wanted.slot_folder:
        made.slot_save_path = os.path.join(wanted.slot_folder, "")  # llama.cpp appends names as they are
    made.hostnames = [wanted.socket or "127.0.0.1"]
    made.port = 0
    if wanted.api_key:
        made.api_keys = [wanted.api_key]
    made.endpoint_slots = True
    made.endpoint_props = False
    made.endpoint_metrics = False
    made.ui = False
    made.verbosity = _WARNINGS
    made.lora_adapters = [library.CommonAdapterLoraInfo(path, scale) for path, scale in wanted.adapters]
    for setting in wanted.settings:
        _set(library, made, setting)
    return made


def _set(library: Any, made: object, setting: Setting) -> None:
    """Raises ValueError for what this build does not have or cannot read."""
    *way, name = setting.path.split(".")
    for step in way:
        made = getattr(made, step)
    try:
        setattr(made, name, _value(library, setting))
    except ValueError as error:
        raise ValueError(f"{setting.path} cannot be {setting.value} ({error})") from error


def _value(library: Any, setting: Setting) -> object:
    if not setting.enum:
        return setting.value
    kinds = getattr(library, setting.enum)
    try:
        members = [kinds[member] for member in str(setting.value).split(",")]
    except KeyError as error:
        raise ValueError(f"this build of llama.cpp has no {error}") from error
    return members if setting.many else members[0]


def _build(library: Any) -> str:
    commit = str(cast("dict[str, object]", library.BUILD_INFO).get("commit", ""))
    suffix = f" ({commit})" if commit not in ("", "unknown") else ""
    return f"llama.cpp{suffix}, xllamacpp {library.__version__}"


def _tell(pipe: BinaryIO, ready: ChildReady) -> None:
    try:
        pipe.write(msgspec.json.encode(ready) + b"\n")
        pipe.close()
    except BrokenPipeError:
        os._exit(1)


def _leave(parameters: ChildParameters) -> NoReturn:
    """End at once, without waiting for llama.cpp's threads; only the socket needs tidying."""
    if parameters.socket:
        Path(parameters.socket).unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            Path(parameters.socket).parent.rmdir()
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
