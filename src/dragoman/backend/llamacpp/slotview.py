"""The engine's slots as core has them: what they do, from its own /slots, and what we asked of them. Asks nobody."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from dragoman.core.errors import EngineFailure
from dragoman.core.exchange import EngineRequest
from dragoman.core.slots import Slot, SlotTask


class _Next(Struct, frozen=True):
    n_decoded: int = 0


class _Told(Struct, frozen=True):
    id: int
    n_ctx: int = 0
    speculative: bool = False
    is_processing: bool = False
    id_task: int | None = None
    n_prompt_tokens: int = 0
    n_prompt_tokens_processed: int = 0
    n_prompt_tokens_cache: int = 0
    next_token: list[_Next] = []


class SlotNotes:
    """Which request ran last in each slot. llama.cpp's own record shows what our requests became on the way to it."""

    def __init__(self) -> None:
        self._requests: dict[int, EngineRequest] = {}

    def note(self, slot: int, request: EngineRequest) -> None:
        """It begins there."""
        self._requests[slot] = request

    def merged(self, body: bytes) -> tuple[Slot, ...]:
        """The slots, from an answer of /slots. Raises EngineFailure when it is none."""
        try:
            told = msgspec.json.decode(body, type=list[_Told])
        except msgspec.MsgspecError as error:
            raise EngineFailure(f"llama.cpp sent slots that cannot be read: {error}.") from error
        return tuple(self._slot(slot) for slot in told)

    def _slot(self, told: _Told) -> Slot:
        request = self._requests.get(told.id)
        return Slot(
            number=told.id,
            context=told.n_ctx,
            busy=told.is_processing,
            speculative=told.speculative,
            tokens=told.n_prompt_tokens,
            processed=told.n_prompt_tokens_processed,
            cached=told.n_prompt_tokens_cache,
            decoded=told.next_token[0].n_decoded if told.next_token else 0,
            task=None if told.id_task is None or request is None else _task(told.id_task, request),
        )


def _task(ident: int, request: EngineRequest) -> SlotTask:
    return SlotTask(
        id=ident,
        sampling=request.sampling,
        max_tokens=request.max_tokens,
        logprobs=request.logprobs,
        post_sampling=request.post_sampling,
    )
