"""Models on this machine's disk that are not loaded, as cards for the model list. Loads and fetches nothing."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Lock

from dragoman.catalog.find import local_models
from dragoman.catalog.local import LocalModel
from dragoman.catalog.store import Store
from dragoman.core.errors import DragomanError
from dragoman.core.model import ModelCard
from dragoman.prompt.template_files import read_template

_FRESH = 30.0
"""Seconds a look at the disk is good for: reading the headers of many GGUF files takes a while."""


class Shelf:
    """Looks at the disk at most once in half a minute. Called from worker threads."""

    def __init__(self, store: Store, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._clock = clock
        self._lock = Lock()
        self._cards: tuple[ModelCard, ...] = ()
        self._read: float | None = None

    def __call__(self) -> tuple[ModelCard, ...]:
        """The cards, as the catalog orders them."""
        with self._lock:
            now = self._clock()
            if self._read is None or now - self._read > _FRESH:
                self._cards, self._read = tuple(_card(model) for model in local_models(self._store)), now
            return self._cards

    def forget(self) -> None:
        """Look anew when asked next."""
        with self._lock:
            self._read = None


def _card(model: LocalModel) -> ModelCard:
    return ModelCard(
        id=model.id,
        aliases=model.aliases,
        path=str(model.path),
        format=model.format,
        engine="",
        architecture=model.architecture,
        quantization=model.quantization,
        parameters=model.parameters,
        size_bytes=model.size_bytes,
        digest=model.digest,
        created=model.modified,
        context_length=model.trained_context,
        trained_context=model.trained_context,
        chat_template=_template(model),
    )


def _template(model: LocalModel) -> str:
    """The chat template, of several named ones the default."""
    if not model.chats:
        return ""
    try:
        source = read_template(model.path) if model.header is None else model.header.chat_template
    except (DragomanError, OSError, ValueError):
        return ""
    return source if isinstance(source, str) else source.get("default", "")
