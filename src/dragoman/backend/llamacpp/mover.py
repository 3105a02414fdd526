"""Moves states between slots and files, by the engine's own hand. Knows the two questions, and no policy."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol, TypeVar

import msgspec
from msgspec import Struct

from dragoman.backend.llamacpp.client import Client, ConnectionLost
from dragoman.backend.llamacpp.saved import SavedState
from dragoman.backend.llamacpp.seat import Seat
from dragoman.backend.llamacpp.slots import Slot
from dragoman.core.exchange import EngineRequest

log = logging.getLogger(__name__)

Answered = TypeVar("Answered", bound=Struct)

_PATIENCE = 120.0
"""Seconds: a slot may be at work on a long batch of a request that has just been dropped."""
_NOT_SUPPORTED = 501
"""What llama.cpp answers where it cannot save at all: with an image encoder, or without a folder."""
_SMOOTHING = 0.3
_FIRST_GUESS_MS = 0.03
"""Per token, before the first save."""


class _Saved(Struct, frozen=True):
    class Timings(Struct, frozen=True):
        save_ms: float = 0.0

    n_saved: int = 0
    n_written: int = 0
    timings: Timings = Timings()


class _Restored(Struct, frozen=True):
    n_restored: int = 0


class _Erased(Struct, frozen=True):
    n_erased: int = 0


class NotThere(Exception):
    """A slot holds less than it was thought to."""


class Source(Protocol):
    """Where files for states come from."""

    def new_state(self, length: int) -> SavedState:
        """One that is about to be written."""
        ...


class Mover:
    """For one engine process; `able` until it says that it cannot, `lost` when it did not answer at all. `primer` makes
    the body of a request that leaves a slot with a request's adapters, None where none are mounted: llama.cpp drops
    what a slot holds when the adapters change, so they must change before a restore."""

    def __init__(self, client: Client, primer: Callable[[EngineRequest, int], bytes] | None) -> None:
        self._client = client
        self._primer = primer
        self.able = True
        self.lost = False
        self._ms_per_token = _FIRST_GUESS_MS

    def saving_ms(self, tokens: int) -> float:
        """How long saving so many tokens will take."""
        return self._ms_per_token * tokens

    async def save(self, slot: Slot, length: int, source: Source) -> SavedState | None:
        """The state of a slot, at least `length` tokens of it; None when it could not be written whole. Raises
        NotThere."""
        state = source.new_state(length)
        saved = await self._ask(slot, "save", state, _Saved)
        if saved is None:
            return None
        if saved.n_saved < length:
            raise NotThere(f"slot {slot.number} holds {saved.n_saved} tokens, not {length}")
        try:
            size = state.path.stat().st_size
        except OSError as error:
            log.warning("llama.cpp saved a slot elsewhere: %s", error)
            return None
        if size == 0 or size != saved.n_written:
            log.warning("llama.cpp wrote %d of %d bytes of a slot's state", size, saved.n_written)
            return None
        state.nbytes = size
        rate = saved.timings.save_ms / max(1, saved.n_saved)
        self._ms_per_token += _SMOOTHING * (rate - self._ms_per_token)
        return state

    async def restore(self, seat: Seat, slot: Slot, state: SavedState) -> bool:
        """Put a state into a slot. False when that failed; the slot then holds nothing of use."""
        if slot.namespace != seat.namespace and not await self._prime(seat, slot):
            return False
        slot.fill(seat.namespace, ())
        restored = await self._ask(slot, "restore", state, _Restored)
        return restored is not None and restored.n_restored >= state.length

    async def erase(self, slot: Slot) -> None:
        """Empty a slot, so that others have the room in a window that all share."""
        if await self._ask(slot, "erase", None, _Erased) is not None:
            slot.tokens, slot.kept = (), 0

    async def _prime(self, seat: Seat, slot: Slot) -> bool:
        if self._primer is None:
            return True
        try:
            body = self._primer(seat.request, slot.number)
            status, _ = await self._client.request("POST", "/completion", body, patience=_PATIENCE)
        except ConnectionLost:
            return False
        return status == 200

    async def _ask(self, slot: Slot, action: str, state: SavedState | None, kind: type[Answered]) -> Answered | None:
        path = f"/slots/{slot.number}?action={action}"
        body = msgspec.json.encode({"filename": state.name} if state is not None else {})
        try:
            status, answer = await self._client.request("POST", path, body, patience=_PATIENCE)
            if status == _NOT_SUPPORTED:
                self.able = False
            if status != 200:
                reason = answer[:200].decode("utf-8", "replace")
                log.warning("llama.cpp could not %s slot %d: %s", action, slot.number, reason)
                return None
            return msgspec.json.decode(answer, type=kind)
        except ConnectionLost as error:
            self.lost = True
            log.info("llama.cpp did not %s slot %d: %s", action, slot.number, error)
        except msgspec.MsgspecError as error:
            log.warning("llama.cpp's answer about slot %d cannot be read: %s", slot.number, error)
        return None
