"""The states of rows that have ended, as files: what a slot held is written, and read back for prompts that begin so.

Used on the engine thread only; knows no row's request.
"""

from __future__ import annotations

import secrets
from pathlib import Path

from msgspec import Struct

from dragoman.cache.base import Hit
from dragoman.cache.diskfile import Damaged, Foreign, Header, copy_payload, read_head, write_file
from dragoman.cache.packed import pack, unpack
from dragoman.core.errors import InvalidRequest, NotSupported, StorageFailure
from dragoman.core.sampling import SamplingSpec
from dragoman.engines.base import Engine, RowSpec, StateFiles
from dragoman.scheduler.prefixes import Prefixes

NOT_RESTORED = "Unable to restore slot: No available space in KV cache or invalid slot save file"
_PIECE = 512
"""Tokens computed at once for a state that nobody has kept."""


class ReadState(Struct, frozen=True):
    """What a file stood for; `nbytes` is its size."""

    namespace: str
    tokens: tuple[int, ...]
    nbytes: int


class RowStates:
    """For one engine and its kept prefixes. `row` is free, and stays so as long as this is used; None: none is."""

    def __init__(self, engine: Engine, prefixes: Prefixes, row: int | None) -> None:
        self._engine = engine
        self._prefixes = prefixes
        self._row = row

    def write(self, namespace: str, tokens: tuple[int, ...], file: Path) -> int | None:
        """Write the state after `tokens`; the bytes written, or None when it is neither kept nor is there a row to
        compute it in. Raises NotSupported, StorageFailure."""
        engine = self._files()
        key = pack(tokens)
        found = self._prefixes.find(namespace, tokens)
        if found is None or found.length < len(tokens):
            if self._row is None:
                return None
            found = self._computed(self._row, tokens, found)
        payload = file.with_name(f".saving-{secrets.token_hex(8)}.safetensors")
        try:
            engine.write_state(found.snapshot, found.length, payload)
            header = Header(
                fingerprint=engine.state_key,
                namespace=namespace,
                kind="answer",
                tokens=len(tokens),
                trimmable=found.snapshot.trimmable,
                payload=payload.stat().st_size,
            )
            with open(payload, "rb") as source:
                write_file(file, header, key or b"", source)
            return file.stat().st_size
        except OSError as error:
            raise StorageFailure(f"The slot cannot be saved: {error.strerror or error}.") from error
        finally:
            payload.unlink(missing_ok=True)

    def read(self, file: Path) -> ReadState:
        """Keep the state in `file`. Raises InvalidRequest for a file that
        is none of this model's, or that there is no room for; NotSupported."""
        engine = self._files()
        payload = file.with_name(f".restoring-{secrets.token_hex(8)}.safetensors")
        try:
            header, key = read_head(file)
            if header.fingerprint != engine.state_key:
                raise Foreign
            with open(payload, "wb") as sink:
                copy_payload(file, header, key, sink)
            tokens, nbytes = unpack(key), file.stat().st_size
            snapshot = engine.read_state(payload, len(tokens))
            kept = self._prefixes.hold(header.namespace, tokens, snapshot)
        except (Damaged, Foreign, OSError, ValueError) as error:
            raise InvalidRequest(NOT_RESTORED, field="filename") from error
        finally:
            payload.unlink(missing_ok=True)
        if not kept:
            raise InvalidRequest(NOT_RESTORED, field="filename")
        return ReadState(header.namespace, tokens, nbytes)

    def _files(self) -> StateFiles:
        if not isinstance(self._engine, StateFiles):
            raise NotSupported(f"The engine {self._engine.build} cannot write the state of a slot to a file.")
        return self._engine

    def _computed(self, row: int, tokens: tuple[int, ...], known: Hit | None) -> Hit:
        """The state after all of `tokens`, in a row of its own. A state is made of all tokens but the last of a row."""
        done = known.length if known is not None else 0
        spec = RowSpec(prompt=(*tokens, tokens[-1]), sampling=SamplingSpec(temperature=0.0, seed=0), max_tokens=1)
        if known is not None:
            self._engine.open(row, spec, known.snapshot, known.length)
        else:
            self._engine.open(row, spec)
        try:
            while done < len(tokens):
                count = min(_PIECE, len(tokens) - done)
                self._engine.prefill(row, count)
                done += count
            snapshot = self._engine.snapshot(row)
        finally:
            self._engine.close(row)
        if snapshot is None:
            raise NotSupported("The state of a row of this model cannot be kept.")
        return Hit(len(tokens), snapshot)
