"""Responses between requests: found again, kept, listed, cancelled, deleted. Knows no wire and runs no model."""

from __future__ import annotations

import asyncio
import time
import zlib
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
from msgspec import Struct

from dragoman.core.answer import AnswerPart
from dragoman.core.errors import InvalidRequest, NotFound
from dragoman.core.messages import Message, Part, ReasoningPart, TextPart, ToolCallPart
from dragoman.core.responses import (
    ENDED,
    KeptResponse,
    LoadedFile,
    Recalled,
    ResponseCancel,
    ResponseDelete,
    ResponseDeleted,
    ResponseEvent,
    ResponseInput,
    ResponseItems,
    ResponseLookup,
    ResponsePlan,
    ResponseRecord,
    ResponseRequest,
    ResponseResult,
)
from dragoman.core.signatures import Signatures
from dragoman.service.background import BackgroundJob, BackgroundJobs
from dragoman.stores.files import FileStore
from dragoman.stores.responses import ResponseStore, StoredResponse

_COMPRESSION = 1


class ResponseRules(Struct, frozen=True, kw_only=True):
    """`lifetime` seconds a response is stored. `owner` names this server among those that share the store, `alive`
    tells of any whether it runs. `response_of` tells which response an item id was made for; `interrupted` makes of
    the body of a response whose server went away, and the time, the body of a failed one."""

    lifetime: int
    owner: str
    alive: Callable[[str], bool]
    response_of: Callable[[str], str | None]
    interrupted: Callable[[bytes, int], bytes]


class Context(Struct, frozen=True, kw_only=True):
    """What is kept of a response beside its body and items: what a continuation starts from, and its events."""

    model: str
    owner: str = ""
    background: bool = False
    messages: tuple[Message, ...] = ()
    events: tuple[ResponseEvent, ...] = ()


class ResponseShelf:
    """All stored and background responses of one server."""

    def __init__(
        self,
        store: ResponseStore,
        files: FileStore,
        signatures: Signatures,
        rules: ResponseRules,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.jobs = BackgroundJobs()
        self._store = store
        self._files = files
        self._signatures = signatures
        self._rules = rules
        self._clock = clock

    async def recall(self, plan: ResponsePlan) -> Recalled:
        """Find what the plan names. Raises NotFound, InvalidRequest."""
        history: tuple[Message, ...] = ()
        items: tuple[bytes, ...] = ()
        if plan.previous is not None:
            history, items = await self._previous(plan.previous, plan.tenant)
        return Recalled(
            history=history,
            items=items,
            referenced=await self._referenced(plan),
            files={id: await self._file(id, plan.tenant) for id in dict.fromkeys(plan.files)},
        )

    async def keep(
        self,
        plan: ResponsePlan,
        given: ResponseInput,
        record: ResponseRecord,
        model: str,
        events: Iterable[ResponseEvent] = (),
    ) -> None:
        """Store the response as it stands. Raises StorageFailure."""
        context = Context(
            model=model,
            owner="" if record.status in ENDED else self._rules.owner,
            background=plan.background,
            messages=(*given.context, *_turn(record.parts)),
            events=tuple(events),
        )
        stored = await asyncio.to_thread(self._stored, plan, given, record, context)
        await self._store.put(stored)

    async def handle(self, request: ResponseRequest) -> ResponseResult:
        """Answer what is asked about a response. Raises NotFound, InvalidRequest, StorageFailure."""
        match request:
            case ResponseLookup():
                return await self.lookup(request.id, request.tenant)
            case ResponseItems():
                stored, _ = await self._found(request.id, request.tenant)
                return KeptResponse(id=stored.id, status=stored.status, body=stored.body, items=_items(stored))
            case ResponseCancel():
                return await self._cancel(request.id, request.tenant)
            case ResponseDelete():
                return await self._delete(request.id, request.tenant)

    async def lookup(self, id: str, tenant: str = "") -> KeptResponse:
        """The response as it stands now, whether it runs or is over. Raises NotFound."""
        stored, context = await self._found(id, tenant)
        job = self.jobs.get(id, tenant)
        record = job.record() if job is not None else None
        return KeptResponse(
            id=id,
            status=record.status if record else stored.status,
            body=record.body if record else stored.body,
            signer=self._signatures.signer(context.model, tenant),
        )

    async def events(self, id: str, tenant: str = "") -> tuple[BackgroundJob | None, tuple[ResponseEvent, ...], bytes]:
        """The job where the response still runs, else the events that were kept, none where only the body was."""
        job = self.jobs.get(id, tenant)
        if job is not None:
            return job, (), b""
        stored, context = await self._found(id, tenant)
        return None, context.events, stored.body

    async def close(self) -> None:
        """Stop background responses; the next who asks finds them failed."""
        await self.jobs.close()

    async def _previous(self, id: str, tenant: str) -> tuple[tuple[Message, ...], tuple[bytes, ...]]:
        try:
            stored, context = await self._found(id, tenant)
        except NotFound as missing:
            raise PreviousResponseNotFound(id) from missing
        if stored.status not in ENDED:
            raise InvalidRequest(f"The response '{id}' is still running.", field="previous_response_id")
        return context.messages, (*_items(stored), *_output(stored))

    async def _referenced(self, plan: ResponsePlan) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        for id in dict.fromkeys(plan.references):
            response = self._rules.response_of(id)
            stored = await self._store.get(response, plan.tenant) if response else None
            if stored is not None:
                found.update((item_id, item) for item_id, item in _by_id(stored) if item_id == id)
        return found

    async def _file(self, id: str, tenant: str) -> LoadedFile:
        found = await self._files.open(id, tenant)
        if found is None:
            raise NotFound(f"There is no file '{id[:200]}'.", field="input")
        record, reader = found
        data = b"".join([piece async for piece in reader.pieces()])
        return LoadedFile(record.name, record.content_type, data)

    async def _found(self, id: str, tenant: str) -> tuple[StoredResponse, Context]:
        stored = await self._store.get(id, tenant)
        if stored is None:
            raise NotFound(f"Response with id '{id[:200]}' not found.", field="response_id")
        context = _context(stored)
        if stored.status in ENDED or self.jobs.get(id, tenant) is not None or self._alive(context.owner):
            return stored, context
        now = int(self._clock())
        settled = msgspec.structs.replace(stored, status="failed", body=self._rules.interrupted(stored.body, now))
        await self._store.put(settled)
        return settled, context

    def _alive(self, owner: str) -> bool:
        return owner != self._rules.owner and self._rules.alive(owner)

    async def _cancel(self, id: str, tenant: str) -> KeptResponse:
        stored, context = await self._found(id, tenant)
        if not context.background:
            raise InvalidRequest("Only a background response can be cancelled.", field="response_id")
        job = self.jobs.get(id, tenant)
        if job is not None:
            await job.cancel()
        elif stored.status not in ENDED:
            raise InvalidRequest("This response runs on another server.", field="response_id")
        return await self.lookup(id, tenant)

    async def _delete(self, id: str, tenant: str) -> ResponseDeleted:
        await self._found(id, tenant)
        job = self.jobs.get(id, tenant)
        if job is not None:
            await job.cancel()
        await self._store.delete(id, tenant)
        return ResponseDeleted(id)

    def _stored(
        self, plan: ResponsePlan, given: ResponseInput, record: ResponseRecord, context: Context
    ) -> StoredResponse:
        """Blocking: it compresses."""
        return StoredResponse(
            id=plan.id,
            tenant=plan.tenant,
            created=record.created,
            expires=int(self._clock()) + self._rules.lifetime,
            status=record.status,
            previous=plan.previous,
            body=record.body,
            items=_packed(given.items),
            context=_packed(context),
        )


class PreviousResponseNotFound(InvalidRequest):
    """The response that was to be continued is not here; a client may then send the whole conversation again."""

    code = "previous_response_not_found"

    def __init__(self, id: str) -> None:
        super().__init__(f"Previous response with id '{id[:200]}' not found.", field="previous_response_id")


def _turn(parts: tuple[AnswerPart, ...]) -> tuple[Message, ...]:
    """The answer as a turn of the conversation; its thoughts are from here, so they need no signature."""
    made: list[Part] = []
    for part in parts:
        if part.kind == "reasoning":
            made.append(ReasoningPart(part.text))
        elif part.kind == "tool_call":
            made.append(ToolCallPart(part.id, part.name, part.text))
        elif part.text:
            made.append(TextPart(part.text))
    return (Message("assistant", tuple(made)),) if made else ()


def _packed(value: Any) -> bytes:
    return zlib.compress(msgspec.msgpack.encode(value), _COMPRESSION)


def _items(stored: StoredResponse) -> tuple[bytes, ...]:
    return msgspec.msgpack.decode(zlib.decompress(stored.items), type=tuple[bytes, ...])


def _context(stored: StoredResponse) -> Context:
    return msgspec.msgpack.decode(zlib.decompress(stored.context), type=Context)


def _output(stored: StoredResponse) -> tuple[bytes, ...]:
    body: dict[str, Any] = msgspec.json.decode(stored.body)
    return tuple(msgspec.json.encode(item) for item in body["output"])


def _by_id(stored: StoredResponse) -> list[tuple[str, bytes]]:
    return [(msgspec.json.decode(item)["id"], item) for item in (*_items(stored), *_output(stored))]
