"""Where saved prefixes are: in memory, and on disk if there is a folder for it. Policy is `cache`'s; knows no slot."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from msgspec import Struct

from dragoman.backend.llamacpp.saved import SavedState, StateFolder
from dragoman.cache.base import CacheStats, EntryKind
from dragoman.cache.disk import DiskHit, DiskRecord, DiskTier
from dragoman.cache.prefix import RamPrefixCache

log = logging.getLogger(__name__)

_BETTER = 32
"""Tokens by which a prefix on disk must beat one in memory."""
_MOST_UNWRITTEN = 16
_CLOSING_SECONDS = 60.0
_LOADING_SECONDS = 20.0


class Found(Struct, frozen=True):
    """The first `length` tokens can begin with `state`."""

    length: int
    state: SavedState | DiskRecord


class Tiers:
    """Used on the event loop; disk work happens in threads, writing in one that nothing else waits for. A state is
    written to disk as soon as it is kept in memory, so that an end without warning loses little. `window` is the most
    tokens a slot holds: a state on disk may come from a larger one."""

    def __init__(self, folder: StateFolder, disk: DiskTier | None = None) -> None:
        self._folder = folder
        self._ram = RamPrefixCache(folder.room)
        self._disk = disk
        self.window = 0
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="prefixes") if disk is not None else None
        self._loading: dict[DiskRecord, asyncio.Task[SavedState | None]] = {}
        self._writing: set[asyncio.Future[bool]] = set()
        self._looking: asyncio.Task[None] | None = None

    @property
    def durable(self) -> bool:
        """Whether what is kept outlives this process."""
        return self._disk is not None

    async def open(self) -> None:
        """Learn what is on disk."""
        if self._disk is not None:
            await asyncio.to_thread(self._disk.open)

    async def replace_disk(self, disk: DiskTier | None) -> None:
        """Forget what is in memory and go on with another disk tier: the engine's states mean something else now."""
        self._ram.clear()
        self._disk = disk
        if disk is not None and self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="prefixes")
        await self.open()

    def known(self, namespace: str, prompt: tuple[int, ...]) -> int:
        """Leading tokens that could be restored. Counts nothing, and looks at the indexes only."""
        ram = self._ram.peek(namespace, prompt)
        hit = self._on_disk(namespace, prompt, ram)
        return ram if hit is None else hit.length

    def look(self, then: Callable[[], None]) -> bool:
        """Whether the index knows what other servers have written. If not, it learns that in a thread of its own, and
        `then` is called."""
        disk = self._disk
        if disk is None or not disk.outdated():
            return True
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(asyncio.to_thread(disk.refresh))
        self._looking.add_done_callback(lambda _: then())
        return False

    def find(self, namespace: str, prompt: tuple[int, ...], session: str | None) -> Found | None:
        """The state to begin with; counted as a use."""
        hit = self._ram.take(namespace, prompt, session)
        on_disk = self._on_disk(namespace, prompt, 0 if hit is None else hit.length)
        if on_disk is not None:
            return Found(on_disk.length, on_disk.record)
        return Found(hit.length, hit.snapshot) if hit is not None and isinstance(hit.snapshot, SavedState) else None

    async def state(self, found: Found) -> SavedState | None:
        """The state as a file the engine can read; None when it cannot be had after all, or takes too long. Those who
        want the same one share the work."""
        if isinstance(found.state, SavedState):
            return found.state
        record = found.state
        task = self._loading.get(record)
        if task is None:
            task = self._loading[record] = asyncio.create_task(self._load(record))
            task.add_done_callback(lambda _: self._loading.pop(record, None))
        done, _ = await asyncio.wait((task,), timeout=_LOADING_SECONDS)
        if not done:
            log.warning("the cache folder is too slow: a prefix of %d tokens is not read from it", record.length)
        return task.result() if done else None

    def new_state(self, length: int) -> SavedState:
        """A state whose file llama.cpp is about to write. It counts once it is kept."""
        return SavedState(self._folder.new_path(), length, 0, trimmable=True)

    def keep(
        self, namespace: str, tokens: tuple[int, ...], state: SavedState, kind: EntryKind, session: str | None
    ) -> None:
        """Keep a state for `tokens`, its first `state.length` ones."""
        self._ram.put(namespace, tokens, state, kind, session)
        if self._disk is None:
            return
        if len(self._writing) >= _MOST_UNWRITTEN:
            log.info("the cache folder is too slow: a prefix of %d tokens is not written to it", state.length)
            return
        writing = asyncio.ensure_future(self._write(self._disk, namespace, tokens[: state.length], state, kind))
        self._writing.add(writing)
        writing.add_done_callback(self._writing.discard)

    def stats(self) -> CacheStats:
        """Those of the memory tier."""
        return self._ram.stats()

    async def written(self) -> None:
        """Wait until all that is kept is on disk, but not for ever."""
        if self._writing:
            await asyncio.wait(set(self._writing), timeout=_CLOSING_SECONDS)

    async def close(self) -> None:
        """Let go of everything in memory. Safe to call twice."""
        await self.written()
        for task in list(self._loading.values()):
            task.cancel()
        self._ram.clear()
        if self._thread is not None:
            self._thread.shutdown(wait=False, cancel_futures=True)

    # inside

    def _on_disk(self, namespace: str, prompt: tuple[int, ...], ram: int) -> DiskHit | None:
        hit = None if self._disk is None else self._disk.find(namespace, prompt, ram + _BETTER - 1)
        return hit if hit is not None and hit.record.length <= self.window else None

    async def _load(self, record: DiskRecord) -> SavedState | None:
        disk = self._disk
        if disk is None:
            return None
        self._ram.evict(max(0, self._ram.stats().bytes + record.nbytes - self._ram.stats().budget))
        state = SavedState(self._folder.new_path(), record.length, record.nbytes, trimmable=record.trimmable)
        try:
            done = await asyncio.to_thread(_copy, disk, record, state)
        except OSError as error:
            log.warning("a cached prefix cannot be read: %s", error)
            return None
        if not done or self._disk is not disk:
            return None
        header = record.header
        self._ram.put(header.namespace, record.tokens, state, header.kind)
        return state

    async def _write(
        self, disk: DiskTier, namespace: str, tokens: tuple[int, ...], state: SavedState, kind: EntryKind
    ) -> bool:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, _write, disk, namespace, tokens, state, kind)


def _copy(disk: DiskTier, record: DiskRecord, state: SavedState) -> bool:
    with open(state.path, "wb") as sink:
        return disk.read(record, sink)


def _write(disk: DiskTier, namespace: str, tokens: tuple[int, ...], state: SavedState, kind: EntryKind) -> bool:
    return disk.write(namespace, tokens, kind, state.path, trimmable=state.trimmable)
