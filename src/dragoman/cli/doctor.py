"""`dragoman doctor`: what is installed, and which engine would serve what. Loads nothing."""

from __future__ import annotations

from dragoman import __version__
from dragoman.app.blas.choice import find_blas, needless, sensible_threads, this_process
from dragoman.app.blas.search import HOW_TO_GET_ONE
from dragoman.app.blas.trial import Trial, try_out
from dragoman.app.choice import engine_states, machine, reason
from dragoman.backend.llamacpp.threads import usable_cores
from dragoman.catalog.find import local_models, memory_bytes, require_model
from dragoman.catalog.local import LocalModel
from dragoman.catalog.store import Store
from dragoman.config import Settings
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
    if not models:
        print("no models here; `dragoman serve` would fetch the starter model smollm2-135m")
    return 0 if any(state.installed for state in engine_states()) else 1


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
