"""Responses that outlive their request: what is kept of them and what can be asked about them. Knows no wire."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from dragoman.core.answer import AnswerPart
from dragoman.core.messages import Message
from dragoman.core.request import Request
from dragoman.core.signatures import ThoughtSigner

ResponseStatus = Literal["queued", "in_progress", "completed", "incomplete", "failed", "cancelled"]

ENDED: frozenset[str] = frozenset({"completed", "incomplete", "failed", "cancelled"})


class ResponsePlan(Struct, frozen=True, kw_only=True):
    """How a response relates to others and what becomes of it.

    `previous` is the response it continues; `references` ids of items of earlier responses, `files` ids of uploaded
    files that its input names. `store` keeps it; `background` runs it without its client. `events` keeps the events of
    its stream too. `truncate` drops the oldest turns of a conversation that does not fit.
    """

    id: str
    previous: str | None = None
    references: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    store: bool = True
    background: bool = False
    events: bool = False
    truncate: bool = False
    tenant: str = ""


class LoadedFile(Struct, frozen=True):
    """An uploaded file: its name, the media type it was declared with ('' for none) and its bytes."""

    name: str
    mime: str
    data: bytes


class Recalled(Struct, frozen=True, kw_only=True):
    """What a plan named, found again. `history` are the turns of the response that is continued, its instructions left
    out; `items` the wire items it took and gave; `referenced` the wire items by id, as JSON."""

    history: tuple[Message, ...] = ()
    items: tuple[bytes, ...] = ()
    referenced: dict[str, bytes] = {}
    files: dict[str, LoadedFile] = {}


class ResponseInput(Struct, frozen=True, kw_only=True):
    """A response's own part, once everything it named is found. `request` is to be answered; `context` are the turns a
    continuation starts from, before the answer is added; `items` all input items, as JSON."""

    request: Request
    context: tuple[Message, ...] = ()
    items: tuple[bytes, ...] = ()


class ResponseEvent(Struct, frozen=True):
    """One event of a response's stream: its sequence number, name and JSON."""

    number: int
    name: str
    data: bytes


class ResponseRecord(Struct, frozen=True, kw_only=True):
    """A response as its writer sees it now. `parts` are those of the answer, calls by their core names."""

    status: ResponseStatus
    created: int
    body: bytes
    parts: tuple[AnswerPart, ...] = ()


class ResponseLookup(Struct, frozen=True, kw_only=True):
    """One stored response."""

    id: str
    tenant: str = ""


class ResponseDelete(Struct, frozen=True, kw_only=True):
    """One stored response is to be forgotten, and stopped where it still runs."""

    id: str
    tenant: str = ""


class ResponseCancel(Struct, frozen=True, kw_only=True):
    """One background response is to be stopped."""

    id: str
    tenant: str = ""


class ResponseItems(Struct, frozen=True, kw_only=True):
    """The input items of one stored response."""

    id: str
    tenant: str = ""


class KeptResponse(Struct, frozen=True, kw_only=True):
    """A response as it stands: `body` and `items` are JSON. `signer` signs its thoughts, where that is asked for."""

    id: str
    status: str
    body: bytes
    items: tuple[bytes, ...] = ()
    signer: ThoughtSigner | None = None


class ResponseDeleted(Struct, frozen=True):
    """The response of that id is gone."""

    id: str


ResponseRequest = ResponseLookup | ResponseDelete | ResponseCancel | ResponseItems
ResponseResult = KeptResponse | ResponseDeleted
