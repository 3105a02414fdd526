"""What an operator does to slots: save one to a file, restore it, erase it. Knows no request and no cache policy."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct

from dragoman.backend.llamacpp.client import Client, ConnectionLost
from dragoman.backend.llamacpp.errors import error_of
from dragoman.backend.llamacpp.prefixes import Prefixes
from dragoman.backend.llamacpp.slotfile import NOT_RESTORED, copy_in, copy_out
from dragoman.backend.llamacpp.slots import UNKNOWN, Slot
from dragoman.core.errors import EngineFailure, InvalidRequest, NotSupported
from dragoman.core.slots import SlotActed, SlotAction

Answered = TypeVar("Answered", bound=Struct)

_PATIENCE = 120.0


class _Times(Struct, frozen=True):
    save_ms: float = 0.0
    restore_ms: float = 0.0


class _Saved(Struct, frozen=True):
    n_saved: int = 0
    n_written: int = 0
    timings: _Times = _Times()


class _Restored(Struct, frozen=True):
    n_restored: int = 0
    n_read: int = 0
    timings: _Times = _Times()


class _Erased(Struct, frozen=True):
    n_erased: int = 0


class SlotActs:
    """For one engine process. `primer` makes the body of a request that leaves a slot with the adapters of requests
    that choose none, None where none are mounted; `namespace` is theirs."""

    def __init__(
        self, client: Client, prefixes: Prefixes, namespace: str, primer: Callable[[int], bytes] | None
    ) -> None:
        self._client = client
        self._prefixes = prefixes
        self._namespace = namespace
        self._primer = primer

    async def act(self, action: SlotAction, file: Path | None) -> SlotActed:
        """Wait for the slot and do it. Raises InvalidRequest for a file that is no saved slot or does not fit,
        NotSupported where llama.cpp cannot, and as its answers say."""
        slot = await self._prefixes.desk.borrow(action.number)
        try:
            if action.verb == "erase":
                return await self._erase(slot, action)
            if file is None:
                raise NotSupported("There is no folder for saved slots.")
            return await (self._save if action.verb == "save" else self._restore)(slot, action, file)
        finally:
            self._prefixes.desk.give_back(slot)

    async def _save(self, slot: Slot, action: SlotAction, file: Path) -> SlotActed:
        inside = self._prefixes.folder.new_path()
        try:
            saved = await self._ask(slot, "save", _Saved, inside.name)
            await asyncio.to_thread(copy_out, inside, file)
        finally:
            await asyncio.to_thread(inside.unlink, missing_ok=True)
        return SlotActed(action=action, tokens=saved.n_saved, nbytes=saved.n_written, ms=saved.timings.save_ms)

    async def _restore(self, slot: Slot, action: SlotAction, file: Path) -> SlotActed:
        inside = self._prefixes.folder.new_path()
        try:
            tokens = await asyncio.to_thread(copy_in, file, inside)
            if self._primer is not None:
                await self._client.request("POST", "/completion", self._primer(slot.number), patience=_PATIENCE)
            slot.fill(UNKNOWN, ())
            restored = await self._ask(slot, "restore", _Restored, inside.name)
        except InvalidRequest as error:
            raise InvalidRequest(NOT_RESTORED, field="filename") from error
        finally:
            await asyncio.to_thread(inside.unlink, missing_ok=True)
        slot.fill(self._namespace, tokens[: restored.n_restored])
        return SlotActed(
            action=action, tokens=restored.n_restored, nbytes=restored.n_read, ms=restored.timings.restore_ms
        )

    async def _erase(self, slot: Slot, action: SlotAction) -> SlotActed:
        erased = await self._ask(slot, "erase", _Erased)
        slot.fill(self._namespace, ())
        return SlotActed(action=action, tokens=erased.n_erased)

    async def _ask(self, slot: Slot, verb: str, kind: type[Answered], filename: str = "") -> Answered:
        body = msgspec.json.encode({"filename": filename} if filename else {})
        path = f"/slots/{slot.number}?action={verb}"
        try:
            status, answer = await self._client.request("POST", path, body, patience=_PATIENCE)
        except ConnectionLost as error:
            raise EngineFailure(f"llama.cpp did not {verb} slot {slot.number}. {error}") from error
        if status != 200:
            raise error_of(status, answer)
        try:
            return msgspec.json.decode(answer, type=kind)
        except msgspec.MsgspecError as error:
            raise EngineFailure(f"llama.cpp's answer about slot {slot.number} cannot be read: {error}.") from error
