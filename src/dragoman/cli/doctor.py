"""`dragoman doctor`: what is installed, and which engine would serve what. Loads nothing."""

from __future__ import annotations

from dragoman import __version__
from dragoman.app.choice import engine_states, machine, reason
from dragoman.backend.llamacpp.threads import usable_cores
from dragoman.catalog.find import local_models, memory_bytes, require_model
from dragoman.catalog.local import LocalModel
from dragoman.catalog.store import Store
from dragoman.config import Settings


def print_report(settings: Settings) -> int:
    """The whole report. Exit status 1 when no model could be served."""
    store = Store(settings.state_dir)
    print(f"dragoman {__version__} on {machine()}")
    print(f"cores {usable_cores()}, memory {memory_bytes() / 2**30:.1f} GiB, store {store.root}")
    for state in engine_states():
        mark = "installed" if state.installed else "missing"
        print(f"engine {state.name}: {mark} ({state.detail})")
    models = _wanted(settings, store)
    for model in models:
        print(f"model {model.id} ({_facts(model)}): {reason(model, settings.engine)}")
    if not models:
        print("no models here; `dragoman serve` would fetch the starter model smollm2-135m")
    return 0 if any(state.installed for state in engine_states()) else 1


def _facts(model: LocalModel) -> str:
    return ", ".join(fact for fact in (model.format, model.architecture, model.quantization) if fact)


def _wanted(settings: Settings, store: Store) -> list[LocalModel]:
    return local_models(store) if settings.model is None else [require_model(settings.model, store)]
