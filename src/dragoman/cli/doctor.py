"""`dragoman doctor`: what is installed, and which engine would serve what, and what llama.cpp engines
run or ran last. Loads nothing."""

from __future__ import annotations

from dragoman import __version__
from dragoman.app.blas.choice import find_blas, needless, sensible_threads, this_process
from dragoman.app.blas.search import HOW_TO_GET_ONE
from dragoman.app.blas.trial import Trial, try_out
from dragoman.app.choice import engine_states, machine, reason
from dragoman.app.context import kv_bytes_per_token, plan_window
from dragoman.backend.llamacpp.journal import journal_folder
from dragoman.backend.llamacpp.threads import usable_cores
from dragoman.catalog.find import local_models, memory_bytes, require_model
from dragoman.catalog.local import LocalModel
from dragoman.catalog.projector import find_projector
from dragoman.catalog.store import Store
from dragoman.cli.engines import engine_lines
from dragoman.config import EngineSettings, Settings
from dragoman.core.errors import EngineFailure


def print_report(settings: Settings) -> int:
    """The whole report. Exit status 1 when no model could be served."""
    store = Store(settings.state_dir)
    print(f"dragoman {__version__} on {machine()}")
    print(f"cores {usable_cores()}, memory {memory_bytes() / 2**30:.1f} GiB, store {store.root}")
    for state in engine_states():
        mark = "installed" if state.installed else "missing"
        print(f"engine {state.name}: {mark} ({state.detail})")
    if any(state.name == "mlx" and state.installed for state in engine_states()):
        for line in blas_lines(settings.engine.mlx_blas, settings.engine.threads):
            print(line)
    models = _wanted(settings, store)
    for model in models:
        print(f"model {model.id} ({_facts(model)}): {reason(model, settings.engine)}")
        if plan := plan_line(model, settings.engine):
            print(f"  {plan}")
    if not models:
        print("no models here; `dragoman serve` would fetch the starter model smollm2-135m")
    for line in engine_lines(journal_folder(store.root.parent)):
        print(line)
    return 0 if any(state.installed for state in engine_states()) else 1


def plan_line(model: LocalModel, engine: EngineSettings) -> str:
    """What llama.cpp would take for a GGUF model: slots, threads, memory in MiB."""
    if model.format != "gguf" or engine.engine == "mlx" or model.header is None:
        return ""
    lanes = engine.max_lanes
    try:
        window = plan_window(model, engine, lanes)
    except EngineFailure as failure:
        return failure.sentence
    slots = f"that share {window.tokens * lanes}" if window.shared else f"of {window.tokens}"
    cache = kv_bytes_per_token(model.header, engine.kv_bits) * window.tokens * lanes
    weights = f"{model.size_bytes / 2**20:.0f} MiB of weights"
    encoder = find_projector(model) if engine.mmproj == "auto" else None
    return (
        f"on llama.cpp: {lanes} slots {slots} tokens, {engine.threads or usable_cores()} threads, {weights}, "
        f"{cache / 2**20:.0f} MiB of key/value cache{f', images by {encoder.name}' if encoder else ''}"
    )


def blas_lines(choice: str, threads: int = 0) -> list[str]:
    """What MLX would multiply matrices with, how fast that is, and how to get something better; nothing on systems
    where MLX has no choice. Tries libraries out in processes of their own: takes about a second."""
    process = this_process()
    if process.system != "Linux":
        return []
    threads = threads or sensible_threads(usable_cores())
    own = try_out(process.reference, threads) if process.reference else Trial()
    declined = needless(choice, "mlx", process)
    if declined:
        return [f"blas of mlx: {process.shared or 'its own' + _speed(own)}; {declined}"]
    try:
        found = find_blas(choice, threads)
    except EngineFailure as failure:
        return [f"blas of mlx: {failure.sentence}"]
    if found.path is None:
        return [f"blas of mlx: its own{_speed(own)}; {found.reason}", f"  for a fast one: {HOW_TO_GET_ONE}"]
    gain = f", {found.rate / own.rate:.0f} times the reference BLAS it came with" if own.rate else ""
    return [f"blas of mlx: {found.kind}, {found.reason} ({found.path}), {found.rate:.0f} GFLOP/s{gain}"]


def _speed(own: Trial) -> str:
    return f", the reference BLAS, {own.rate:.1f} GFLOP/s" if own.rate else ""


def _facts(model: LocalModel) -> str:
    return ", ".join(fact for fact in (model.format, model.architecture, model.quantization) if fact)


def _wanted(settings: Settings, store: Store) -> list[LocalModel]:
    return local_models(store) if settings.model is None else [require_model(settings.model, store)]
