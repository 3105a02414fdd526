"""Prefix sharing of one backend, put together: the folder, what is saved, the slots. Knows no request's answer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import msgspec

from dragoman.backend.llamacpp.client import Client
from dragoman.backend.llamacpp.mover import Mover
from dragoman.backend.llamacpp.options import LlamaCppOptions
from dragoman.backend.llamacpp.pool import pool_of
from dragoman.backend.llamacpp.saved import StateFolder
from dragoman.backend.llamacpp.seat import Seat
from dragoman.backend.llamacpp.slotdesk import SlotDesk
from dragoman.backend.llamacpp.statekey import state_key
from dragoman.backend.llamacpp.tiers import Tiers
from dragoman.cache.disk import DiskTier
from dragoman.core.exchange import EngineRequest

log = logging.getLogger(__name__)


class Prefixes:
    """Made before the engine, which is told `folder` (see `options_for`); opened and closed with the backend."""

    def __init__(self, options: LlamaCppOptions, folder: StateFolder, changed: Callable[[], None]) -> None:
        self._options = options
        self._folder = folder
        self._tiers = Tiers(folder)
        self._desk = SlotDesk(options.lanes, self._tiers, changed=changed, pool=pool_of(options))
        self._key: str | None = None

    def seat(self, request: EngineRequest, namespace: str, *, plain: bool = True) -> Seat:
        """A place for a request; `namespace` tells apart prefixes that must not be mixed. One that is not `plain` has
        more in its prompt than tokens, and takes no part."""
        return self._desk.seat(request, namespace, plain=plain)

    @property
    def desk(self) -> SlotDesk:
        """Who gives out the slots."""
        return self._desk

    @property
    def folder(self) -> StateFolder:
        """Where the engine writes states of slots."""
        return self._folder

    def admit(self, seat: Seat) -> bool:
        """See SlotDesk."""
        return self._desk.admit(seat)

    async def open(self) -> None:
        """Before the engine is started. Nothing is shared where the folder cannot be made."""
        try:
            await asyncio.to_thread(self._folder.open)
        except OSError as error:
            log.warning("prompts are not shared between slots: %s", error)

    async def engine_up(
        self,
        client: Client,
        build: str,
        options: LlamaCppOptions,
        window: int,
        primer: Callable[[EngineRequest, int], bytes] | None,
    ) -> None:
        """An engine with these options runs, with `window` tokens for each of its `options.lanes` slots. What was
        saved by one that counts otherwise is forgotten. `primer` as Mover wants it."""
        self._options = options
        key = await self._state_key(build)
        if key != self._key or key is None:
            await self._tiers.replace_disk(self._disk(key))
        self._key = key
        self._tiers.window = window
        self._desk.reset(options.lanes, Mover(client, primer))

    def engine_down(self) -> None:
        """The engine is gone, and what its slots held. What is saved stays."""
        self._desk.lost()

    async def flush(self) -> None:
        """Save what only the slots hold, if it can outlive this process. The engine must still run."""
        await self._desk.close()

    async def close(self) -> None:
        """After the engine's end. Safe to call twice."""
        self._desk.lost()
        await self._tiers.close()
        await asyncio.to_thread(self._folder.close)

    def counts(self) -> dict[str, int]:
        """The fields of BackendStats about the memory tier."""
        stats = self._desk.stats()
        return {
            "cache_bytes": stats.bytes,
            "cache_entries": stats.entries,
            "cache_hits": stats.hits,
            "cache_misses": stats.misses,
            "cache_evicted": stats.evicted,
        }

    async def _state_key(self, build: str) -> str | None:
        try:
            return await asyncio.to_thread(state_key, self._options, build)
        except OSError as error:
            log.warning("the model's file cannot be read, so no prefix is kept on disk: %s", error)
            return None

    def _disk(self, key: str | None) -> DiskTier | None:
        folder = self._options.cache_folder
        if folder is None or key is None or self._options.cache_disk_bytes <= 0:
            return None
        return DiskTier(folder, key, self._options.cache_disk_bytes)


def sharing_of(options: LlamaCppOptions, changed: Callable[[], None]) -> tuple[Prefixes | None, LlamaCppOptions]:
    """Prefix sharing if these options ask for it and the engine is ours, and the options the engine is started with.
    llama.cpp's own cache of prompts is then off: it would keep the same states once more."""
    if options.prefix_bytes <= 0 or options.remote:
        return None, options
    folder = StateFolder(options.prefix_bytes)
    told = msgspec.structs.replace(options, slot_folder=str(folder.path), prompt_cache_mib=0)
    return Prefixes(told, folder, changed), told
