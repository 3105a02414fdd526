"""Names given, copied and forgotten, and models made of uploaded files. Knows no wire."""

from __future__ import annotations

import asyncio
import hashlib
import re
import time
from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from dragoman.catalog.find import local_models
from dragoman.catalog.intake import Intake
from dragoman.catalog.local import LocalModel
from dragoman.catalog.names import NameBook
from dragoman.catalog.pull import same_model
from dragoman.catalog.store import Store
from dragoman.core.errors import InvalidField, InvalidRequest, ModelNotFound
from dragoman.core.model import ModelCard
from dragoman.core.names import (
    BlobDone,
    BlobLookup,
    BlobPut,
    NameCopy,
    NameDelete,
    NamedModel,
    NameDone,
    NameRequest,
    NameResult,
    NameSet,
    NameSettings,
    PullRequest,
    plain_name,
)
from dragoman.prompt.go.parse import parse
from dragoman.service.models import ModelRoster
from dragoman.service.pulls import Pulls

_LONGEST_NAME = 200
_SAFE = re.compile(r"[a-z0-9._-]+")


class NameDesk:
    """Names by request. Everything that touches the disk happens in a thread. `shelf` are the cards of models on disk,
    to be looked at in a thread; `changed` is called when models came or went."""

    def __init__(
        self,
        book: NameBook,
        store: Store,
        roster: ModelRoster,
        shelf: Callable[[], tuple[ModelCard, ...]] = tuple,
        changed: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._book = book
        self._store = store
        self._intake = Intake(store)
        self._roster = roster
        self.shelf = shelf
        self._changed = changed
        self._clock = clock
        self._pulls = Pulls(store, self._arrived)

    def find(self, name: str) -> NamedModel | None:
        """What a client meant by a name it gave."""
        return self._book.find(name)

    def all(self) -> tuple[NamedModel, ...]:
        """All names."""
        return self._book.all()

    async def run(self, request: NameRequest) -> NameResult:
        """Raises ModelNotFound for a source that is not there, NotFound for a blob, InvalidField, StorageFailure."""
        if isinstance(request, PullRequest):
            served = self._roster.named(request.name)
            return await self._pulls.run(request, served.card if served else None)
        return await asyncio.to_thread(self._do, request)

    def _do(self, request: NameSet | NameCopy | NameDelete | BlobLookup | BlobPut) -> NameDone | BlobDone:
        match request:
            case NameSet():
                return self._set(request)
            case NameCopy():
                self._put(replace(self._meaning(request.source), name=request.target))
                return NameDone(request.target)
            case NameDelete():
                return self._delete(request.name)
            case BlobLookup():
                self._intake.require(request.digest)
            case BlobPut():
                self._intake.keep(request.digest, Path(request.path))
        return BlobDone(request.digest)

    def _set(self, request: NameSet) -> NameDone:
        named = request.named
        self._check(named.name)
        if named.settings.template:
            parse(named.settings.template)
        if request.files:
            model = self._intake.build(_folder_of(named.name), request.files)
            named = replace(named, base=model.id, owns=True)
            self._changed()
        else:
            named = _inherited(named, self._meaning(named.base))
        self._put(named)
        return NameDone(named.name)

    def _put(self, named: NamedModel) -> None:
        self._check(named.name)
        self._book.put(replace(named, created=int(self._clock())))

    def _check(self, name: str) -> None:
        if not name.strip() or len(name) > _LONGEST_NAME or not name.isprintable() or " " in name:
            raise InvalidField("invalid model name", field="model")
        if self._roster.named(name) is not None:
            raise InvalidField(f"'{name}' is the name of the model that is served", field="model")

    def _meaning(self, name: str) -> NamedModel:
        """What a name means now: a given one, that of a served model, or that of one on disk."""
        served = self._roster.named(name)
        if served is not None:
            return NamedModel(name=name, base=served.card.id)
        given = self._book.find(name)
        if given is not None:
            return given
        model = self._on_disk(name)
        if model is None:
            raise ModelNotFound(name, self._roster.default.card.id)
        return NamedModel(name=name, base=model.id)

    def _on_disk(self, name: str) -> LocalModel | None:
        return next((model for model in local_models(self._store) if same_model(name, model)), None)

    def _delete(self, name: str) -> NameDone:
        if self._roster.named(name) is not None:
            raise InvalidRequest(f"The model '{name}' is being served and cannot be deleted.", field="model")
        given = self._book.find(name)
        if given is None:
            model = self._on_disk(name)
            if model is None:
                raise ModelNotFound(name, self._roster.default.card.id)
            if not self._intake.remove(model):
                raise InvalidRequest(
                    f"The files of '{name}' are in another program's cache and are not deleted from here.",
                    field="model",
                )
        else:
            self._book.drop(name)
            self._disown(given)
        self._changed()
        return NameDone(name)

    def _disown(self, given: NamedModel) -> None:
        """Delete the files that came with a name, unless another one needs them or they are served."""
        needed = any(other.base == given.base for other in self._book.all())
        if not given.owns or needed or self._roster.named(given.base) is not None:
            return
        model = self._on_disk(given.base)
        if model is not None and str(model.path) not in {served.card.path for served in self._roster}:
            self._intake.remove(model)

    def _arrived(self, name: str, model: LocalModel) -> None:
        """A pull is over: its name is one of this server's from now on."""
        self._changed()
        known = self._roster.named(name) is not None or self._book.find(name) is not None
        if not known and all(str(model.path) != served.card.path for served in self._roster):
            self._put(NamedModel(name=plain_name(name), base=model.id, owns=True))


def _folder_of(name: str) -> str:
    """The store's name for a model a client made. Names that a file system would not tell apart get a mark."""
    plain = plain_name(name)
    if _SAFE.fullmatch(plain):
        return f"given-{plain}"
    return f"given-{plain}-{hashlib.sha256(plain.encode()).hexdigest()[:8]}"


def _inherited(named: NamedModel, source: NamedModel) -> NamedModel:
    own, old = named.settings, source.settings
    settings = NameSettings(
        sampling=own.sampling.over(old.sampling),
        max_tokens=old.max_tokens if own.max_tokens is None else own.max_tokens,
        stop=own.stop or old.stop,
        system=own.system or old.system,
        messages=own.messages or old.messages,
        template=own.template or old.template,
    )
    return replace(
        named,
        base=source.base,
        settings=settings,
        parameters={**source.parameters, **named.parameters},
        license=named.license or source.license,
        owns=source.owns,
    )
