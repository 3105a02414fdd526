"""The LoRA adapters of a model: which of them a request means, and the scales of those that mean none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from dragoman.core.adapters import AdapterScale
from dragoman.core.request import Request
from dragoman.core.slots import Adapters, AdaptersRequest, MountedAdapter
from dragoman.service.models import ServedModel


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


def _mounted(model: ServedModel) -> tuple[MountedAdapter, ...]:
    backend = model.backend
    return backend.mounted if isinstance(backend, AdapterHost) else ()
