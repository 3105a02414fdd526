"""The tier below memory: prefixes as files, which survive restarts and may be shared by servers. Knows no engine: a
payload is bytes from a file, and bytes into a file.

Nothing here raises for what a disk can do: whatever is wrong with a file is a miss, and what cannot be written is not
kept. All methods may be called from any thread.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

from dragoman.cache.base import EntryKind
from dragoman.cache.diskfile import SUFFIX, TEMPORARY, Damaged, Foreign, Header, copy_payload, read_head, write_file
from dragoman.cache.entry import Entry
from dragoman.cache.packed import WIDTH, pack, unpack
from dragoman.cache.trie import Trie

log = logging.getLogger(__name__)

_BLOCK = 32
_OVERHEAD = 1024
"""Bytes of a file that are neither tokens nor payload, at most."""
_ABANDONED_SECONDS = 3600.0


class DiskRecord(Struct, frozen=True, eq=False):
    """A prefix on disk; a core.snapshot.Snapshot, though not one an engine can begin with. `nbytes` are those of the
    payload."""

    path: Path
    header: Header
    key: bytes

    @property
    def length(self) -> int:
        """Tokens."""
        return self.header.tokens

    @property
    def nbytes(self) -> int:
        """Bytes of the payload."""
        return self.header.payload

    @property
    def tokens(self) -> tuple[int, ...]:
        """What it stands for."""
        return unpack(self.key)

    @property
    def trimmable(self) -> bool:
        """Whether a part of it can be used."""
        return self.header.trimmable


class DiskHit(Struct, frozen=True):
    """The first `length` tokens of `record` are wanted."""

    length: int
    record: DiskRecord


class DiskStats(Struct, frozen=True, kw_only=True):
    """Counters since start; `entries` and `bytes` are gauges of what this fingerprint has."""

    entries: int = 0
    bytes: int = 0
    hits: int = 0
    written: int = 0
    damaged: int = 0
    failed: int = 0
    evicted: int = 0


class _Counters(Struct):
    hits: int = 0
    written: int = 0
    damaged: int = 0
    failed: int = 0
    evicted: int = 0


class DiskTier:
    """Files under `folder`, for one `fingerprint`: payloads made under another one are never found. `budget` bounds
    the bytes of all files under `folder`, whoever wrote them; the least recently used ones go first.

    Two servers may use one folder: files come by renaming and go by unlinking, and what another one wrote is found.
    """

    def __init__(self, folder: Path, fingerprint: str, budget: int, *, clock: Callable[[], float] = time.time) -> None:
        self._root = folder
        self._fingerprint = fingerprint
        self._folder = folder / blake2b(fingerprint.encode(), digest_size=8).hexdigest()
        self._budget = budget
        self._clock = clock
        self._lock = threading.Lock()
        self._tries: dict[str, Trie] = {}
        self._entries: dict[str, Entry] = {}
        self._ignored: set[str] = set()
        self._seen = -1
        self._counters = _Counters()
        self._warned = False

    def open(self) -> None:
        """Make the folder, drop what killed writers left, learn what is there. Reads headers only."""
        try:
            if not self._root.exists():
                self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            self._complain("the cache folder cannot be used", error)
            return
        for left in self._root.glob(f"*/.*{TEMPORARY}"):
            with contextlib.suppress(OSError):
                if self._clock() - left.stat().st_mtime > _ABANDONED_SECONDS:
                    left.unlink()
        self.refresh()

    def refresh(self) -> None:
        """Learn what other servers have written and removed, if the folder has changed. Nobody who looks something up
        waits for the files to be read."""
        try:
            changed = self._folder.stat().st_mtime_ns
            if changed == self._seen:
                return
            names = {item.name for item in os.scandir(self._folder) if item.name.endswith(SUFFIX)}
        except OSError:
            return
        with self._lock:
            self._seen = changed
            for name in self._entries.keys() - names:
                self._forget(name)
            self._ignored &= names
            unknown = names - self._entries.keys() - self._ignored
        for name in unknown:
            self._learn(name)

    def outdated(self) -> bool:
        """Whether the folder has changed since `refresh`. One look at the folder itself, however much is in it."""
        try:
            return self._folder.stat().st_mtime_ns != self._seen
        except OSError:
            return False

    def find(self, namespace: str, tokens: tuple[int, ...], longer_than: int = 0) -> DiskHit | None:
        """The longest usable prefix of `tokens`, at most all but the last, if it is longer than that. Looks at the
        index only."""
        key, stop = pack(tokens), len(tokens) - 1
        with self._lock:
            trie = self._tries.get(namespace)
            match = trie.longest(key, stop) if trie is not None and key is not None and stop > 0 else None
            if match is None or match.length <= longer_than:
                return None
            record = match.entry.snapshot
            assert isinstance(record, DiskRecord)  # noqa: S101 - nothing else is put in
            return DiskHit(match.length, record)

    def read(self, record: DiskRecord, sink: BinaryIO) -> bool:
        """Write the payload to `sink`. False when it is gone or damaged; it is then forgotten. Raises OSError when
        `sink` cannot take it."""
        try:
            copy_payload(record.path, record.header, record.key, sink)
        except FileNotFoundError:
            return self._drop(record, remove=False)
        except (Damaged, Foreign) as error:
            log.warning("a cached prefix is damaged and dropped: %s: %s", record.path.name, error)
            self._counters.damaged += 1
            return self._drop(record, remove=True)
        with contextlib.suppress(OSError):
            os.utime(record.path)
        self._counters.hits += 1
        return True

    def write(
        self, namespace: str, tokens: tuple[int, ...], kind: EntryKind, payload: Path, *, trimmable: bool
    ) -> bool:
        """Keep what the file `payload` holds, the state after `tokens`. False when it is not kept. It takes the place
        of entries it can stand for; nothing is written where one can stand for it."""
        key = pack(tokens)
        if key is None or not tokens:
            return False
        if self._stands_for(namespace, key, trimmable):
            return True
        try:
            size = payload.stat().st_size
            header = Header(
                fingerprint=self._fingerprint,
                namespace=namespace,
                kind=kind,
                tokens=len(tokens),
                trimmable=trimmable,
                payload=size,
            )
            path = self._folder / f"{_name(namespace, key)}{SUFFIX}"
            if not self._make_room(size + len(key) + _OVERHEAD):
                return False
            with open(payload, "rb") as source:
                write_file(path, header, key, source)
        except OSError as error:
            self._counters.failed += 1
            self._complain("a prefix cannot be written to the cache folder", error)
            return False
        self._warned = False
        self._counters.written += 1
        self._enter(path.name, DiskRecord(path, header, key))
        return True

    def stats(self) -> DiskStats:
        """Counters and gauges now."""
        with self._lock:
            entries = list(self._entries.values())
        counters = self._counters
        return DiskStats(
            entries=len(entries),
            bytes=sum(entry.nbytes for entry in entries),
            hits=counters.hits,
            written=counters.written,
            damaged=counters.damaged,
            failed=counters.failed,
            evicted=counters.evicted,
        )

    # inside

    def _stands_for(self, namespace: str, key: bytes, trimmable: bool) -> bool:
        """Whether one on disk can serve all of `key`, and parts of it if `trimmable`; that counts as its use."""
        with self._lock:
            trie = self._tries.get(namespace)
            match = trie.longest(key, len(key) // WIDTH) if trie is not None else None
            if match is None or match.entry.key[: len(key)] != key:
                return False
            record = match.entry.snapshot
        assert isinstance(record, DiskRecord)  # noqa: S101 - nothing else is put in
        if trimmable and not record.trimmable:
            return False
        try:
            os.utime(record.path)
        except OSError:
            self._drop(record, remove=False)
            return False
        return True

    def _enter(self, name: str, record: DiskRecord) -> None:
        with self._lock:
            replaced = self._add(name, record)
        for old in replaced:
            with contextlib.suppress(OSError):
                old.path.unlink()

    def _learn(self, name: str) -> None:
        path = self._folder / name
        try:
            header, key = read_head(path)
        except Damaged as error:
            log.warning("a cached prefix is damaged and dropped: %s: %s", name, error)
            self._counters.damaged += 1
            with contextlib.suppress(OSError):
                path.unlink()
            return
        except (Foreign, OSError):
            self._ignored.add(name)
            return
        with self._lock:
            if header.fingerprint != self._fingerprint or _name(header.namespace, key) + SUFFIX != name:
                self._ignored.add(name)
            else:
                self._add(name, DiskRecord(path, header, key))

    def _add(self, name: str, record: DiskRecord) -> list[DiskRecord]:
        """Index it; gives what it can stand for, which is indexed no longer."""
        self._forget(name)
        header = record.header
        entry = Entry(
            namespace=header.namespace,
            key=record.key,
            snapshot=record,
            kind=header.kind,
            length=header.tokens,
            nbytes=header.payload,
            trimmable=header.trimmable,
            serial=len(self._entries),
        )
        trie = self._tries.setdefault(header.namespace, Trie(_BLOCK))
        kin = trie.prefixes(record.key) if header.trimmable else []
        replaced = [old.snapshot for old in kin if isinstance(old.snapshot, DiskRecord)]
        for old in replaced:
            self._forget(old.path.name)
        self._tries.setdefault(header.namespace, trie).add(entry)
        self._entries[name] = entry
        return replaced

    def _forget(self, name: str) -> None:
        entry = self._entries.pop(name, None)
        if entry is None:
            return
        trie = self._tries[entry.namespace]
        trie.remove(entry)
        if not len(trie):
            del self._tries[entry.namespace]

    def _drop(self, record: DiskRecord, *, remove: bool) -> bool:
        with self._lock:
            entry = self._entries.get(record.path.name)
            if entry is not None and entry.snapshot is record:
                self._forget(record.path.name)
        if remove:
            with contextlib.suppress(OSError):
                record.path.unlink()
        return False

    def _make_room(self, nbytes: int) -> bool:
        """Unlink the least recently used files of the whole folder until as much fits. False when it never will."""
        if nbytes > self._budget:
            return False
        files = sorted(_files(self._root))
        total = sum(size for _, size, _ in files)
        for _, size, path in files:
            if total + nbytes <= self._budget:
                break
            with contextlib.suppress(OSError):
                path.unlink()
            total -= size
            self._counters.evicted += 1
            with self._lock:
                if path.parent == self._folder:
                    self._forget(path.name)
        return True

    def _complain(self, what: str, error: OSError) -> None:
        """Warn once for as long as it lasts."""
        log.log(logging.DEBUG if self._warned else logging.WARNING, "%s: %s", what, error)
        self._warned = True


def _files(root: Path) -> Iterable[tuple[float, int, Path]]:
    """Time of last use, size and path of everything cached under `root`."""
    for path in root.glob(f"*/*{SUFFIX}"):
        with contextlib.suppress(OSError):
            found = path.stat()
            yield found.st_mtime, found.st_size, path


def _name(namespace: str, key: bytes) -> str:
    return blake2b(namespace.encode() + b"\0" + key, digest_size=16).hexdigest()
