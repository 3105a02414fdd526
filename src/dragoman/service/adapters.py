"""The LoRA adapters of a model: which of them a request means, and the scales of those that mean none."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from dragoman.backend.llamacpp.adapters import Adapter
from dragoman.catalog.gguf import read_gguf
from dragoman.core.adapters import AdapterScale
from dragoman.core.errors import EngineFailure, InvalidField, NotSupported
from dragoman.core.request import Request
from dragoman.core.slots import AdapterMount, Adapters, AdaptersRequest, AdapterUnmount, MountedAdapter
from dragoman.service.models import ServedModel, names_of


@runtime_checkable
class AdapterHost(Protocol):
    """A backend that may have adapters mounted."""

    @property
    def mounted(self) -> tuple[MountedAdapter, ...]:
        """Those mounted now, in order of their places."""
        ...

    def rescale(self, scales: Sequence[float]) -> None:
        """Other scales for requests that choose none; one for each adapter."""
        ...


@runtime_checkable
class AdapterMounter(AdapterHost, Protocol):
    """A backend that can mount adapters while it serves."""

    async def mount(self, adapters: Sequence[Adapter]) -> None:
        """Serve with these in place of those of now."""
        ...


def adapters_of(model: ServedModel, request: Request) -> tuple[AdapterScale, ...] | None:
    """The adapters a request means, None for those the server was started with. Places that do not exist are nobody's;
    where they are all that was asked for, no adapter has a say."""
    if not request.adapter_places:
        return request.adapters
    mounted = _mounted(model)
    if not mounted:
        return None
    wanted = dict(request.adapter_places)
    return tuple(
        AdapterScale(adapter.scale.name, wanted[place]) for place, adapter in enumerate(mounted) if place in wanted
    )


def adapters(model: ServedModel, request: AdaptersRequest) -> Adapters:
    """The mounted adapters, after the scales were set where that was asked for."""
    backend = model.backend
    if request.scales is not None and isinstance(backend, AdapterHost):
        wanted = dict(request.scales)
        backend.rescale([wanted.get(place, 0.0) for place in range(len(backend.mounted))])
    return Adapters(_mounted(model))


async def change(model: ServedModel, request: AdapterMount | AdapterUnmount, folder: Path | None) -> Adapters:
    """Mount an adapter from `folder`, or take one away. Raises InvalidField, NotSupported where the engine cannot or no
    folder was named, and what the engine raises."""
    backend = model.backend
    if not isinstance(backend, AdapterMounter):
        raise NotSupported(f"The engine {model.card.engine_build or model.card.engine} cannot mount adapters.")
    now = [Adapter(one.scale.name, one.path, one.scale.scale) for one in backend.mounted]
    others = [one for one in now if one.name != request.name]
    known = len(others) < len(now)
    if isinstance(request, AdapterMount):
        path = await asyncio.to_thread(_checked, request.path, folder, model.card.architecture)
        if known and not request.replace:
            raise InvalidField(f"The lora adapter '{request.name}' has already been loaded.", field="lora_name")
        if request.name.casefold() in {name.casefold() for name in names_of(model.card)}:
            raise InvalidField(f"'{request.name}' is the name of a model.", field="lora_name")
        # It only has a say in requests that name it.
        others.append(Adapter(request.name, str(path), 0.0))
    elif not known:
        raise InvalidField(f"The lora adapter '{request.name}' cannot be found.", field="lora_name")
    try:
        await backend.mount(others)
    except EngineFailure as failure:
        raise InvalidField(f"The adapter cannot be mounted: {failure.message}", field="lora_path") from failure
    return Adapters(_mounted(model))


def _checked(path: str, folder: Path | None, architecture: str) -> Path:
    """The file, if it holds an adapter for this architecture. llama.cpp would find out too, but is started again for
    it, so that a file that is none would be an outage."""
    found = _inside(path, folder)
    try:
        metadata = read_gguf(found).metadata
    except EngineFailure as failure:
        raise InvalidField(f"'{path}' is no adapter: {failure.message}", field="lora_path") from failure
    if metadata.get("general.type") != "adapter" or metadata.get("adapter.type") != "lora":
        raise InvalidField(f"'{path}' is a GGUF file, but no LoRA adapter.", field="lora_path")
    own = metadata.get("general.architecture")
    if own != architecture:
        raise InvalidField(f"'{path}' is an adapter for '{own}'; the model is '{architecture}'.", field="lora_path")
    return found


def _inside(path: str, folder: Path | None) -> Path:
    """The file, which must be in the folder for adapters: a client may not have any file of this machine opened."""
    if folder is None:
        raise NotSupported(
            "This server mounts no adapters for its clients.",
            remedy="Start it with --adapter-dir FOLDER, or mount them with --adapter.",
        )
    root = folder.expanduser().resolve()
    found = (root / path).resolve()
    if not found.is_relative_to(root) or not found.is_file():
        raise InvalidField(f"There is no adapter file '{path}' in the server's folder for them.", field="lora_path")
    return found


def _mounted(model: ServedModel) -> tuple[MountedAdapter, ...]:
    backend = model.backend
    return backend.mounted if isinstance(backend, AdapterHost) else ()
