"""Slots: the places of an engine in which requests run and whose state outlives them. Knows no engine and no wire."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from dragoman.core.adapters import AdapterScale
from dragoman.core.sampling import SamplingSpec

SlotVerb = Literal["save", "restore", "erase"]


class SlotTask(Struct, frozen=True, kw_only=True):
    """The request that runs in a slot, or the last one that did. `max_tokens` as the engine was told."""

    id: int
    sampling: SamplingSpec = SamplingSpec()
    max_tokens: int = -1
    logprobs: int | None = None
    post_sampling: bool = False


class Slot(Struct, frozen=True, kw_only=True):
    """One slot. `tokens` is what it holds; of a running request, `processed` prompt tokens were computed, `cached` were
    there already, and `decoded` tokens were sampled. `task` None: nothing has run there yet."""

    number: int
    context: int
    busy: bool = False
    speculative: bool = False
    tokens: int = 0
    processed: int = 0
    cached: int = 0
    decoded: int = 0
    task: SlotTask | None = None


class SlotsRequest(Struct, frozen=True):
    """All slots of a model."""

    model: str | None = None


class SlotAction(Struct, frozen=True, kw_only=True):
    """Save the state of slot `number` (modulo how many there are) to the file `name` in the folder of saved slots, put
    one back, or erase the slot. Waits until the slot is free."""

    number: int
    verb: SlotVerb
    name: str = ""
    model: str | None = None


class SlotActed(Struct, frozen=True, kw_only=True):
    """`tokens` were saved, restored or erased; `nbytes` is the size of the file, `ms` how long it took."""

    action: SlotAction
    tokens: int
    nbytes: int = 0
    ms: float = 0.0


class AdaptersRequest(Struct, frozen=True):
    """The mounted LoRA adapters; with `scales`, by place, those of requests that choose none are set first, and the
    others to 0."""

    scales: tuple[tuple[int, float], ...] | None = None
    model: str | None = None


class AdapterMount(Struct, frozen=True):
    """Mount the LoRA adapter in a file of the server's folder for them, under a name that requests may use as that of
    a model. `path` is relative to the folder or absolute; with `replace` it may take the place of one of that name."""

    name: str
    path: str
    replace: bool = False
    model: str | None = None


class AdapterUnmount(Struct, frozen=True):
    """Take an adapter away."""

    name: str
    model: str | None = None


class MountedAdapter(Struct, frozen=True):
    """An adapter with its file and the scale that requests get which choose none."""

    path: str
    scale: AdapterScale


class Adapters(Struct, frozen=True):
    """In order of their places."""

    adapters: tuple[MountedAdapter, ...]
