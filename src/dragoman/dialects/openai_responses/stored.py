"""Requests about kept responses -> core, and what is kept -> their replies. Looks nothing up."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from dragoman.core.errors import InvalidField, NotFound, NotSupported
from dragoman.core.responses import (
    KeptResponse,
    ResponseCancel,
    ResponseDelete,
    ResponseDeleted,
    ResponseEvent,
    ResponseItems,
    ResponseLookup,
)
from dragoman.dialects.base import Frame, ResponseReplay, SmallCall, WireRequest
from dragoman.dialects.openai_responses.events import DeltaShape, EventNumbers, item_done, opening, text_done
from dragoman.dialects.openai_responses.fields import ENCRYPTED, read_include
from dragoman.dialects.openai_responses.items import thought_text
from dragoman.dialects.openai_responses.names import ToolName, custom_arguments
from dragoman.dialects.openai_responses.output import ItemKind, OutputItem

_LIMIT, _MOST = 20, 100
_TRUE, _FALSE = ("true", "1"), ("false", "0", "")


def read_retrieve(wire: WireRequest) -> SmallCall | ResponseReplay:
    """GET /v1/responses/{id}, whole or as the stream it was. Raises InvalidField."""
    lookup = ResponseLookup(id=wire.params["response_id"])
    include = _include(wire.query)
    if _flag(wire.query, "stream"):
        return ResponseReplay(lookup=lookup, after=_number(wire.query, "starting_after", -1, -1), events=replayed)
    return SmallCall(request=lookup, write=_writer(include))


def read_delete(wire: WireRequest) -> SmallCall:
    """DELETE /v1/responses/{id}."""
    return SmallCall(request=ResponseDelete(id=wire.params["response_id"]), write=_deleted)


def read_cancel(wire: WireRequest) -> SmallCall:
    """POST /v1/responses/{id}/cancel."""
    return SmallCall(request=ResponseCancel(id=wire.params["response_id"]), write=_writer(frozenset()))


def read_compact(wire: WireRequest) -> SmallCall:
    """POST /v1/responses/compact. Raises NotSupported: what OpenAI puts there only its server can read."""
    raise NotSupported(
        "This server does not compact conversations.",
        remedy="Ask the model for a summary, or send 'truncation': 'auto' to let the oldest turns go.",
    )


def read_input_items(wire: WireRequest) -> SmallCall:
    """GET /v1/responses/{id}/input_items. Raises InvalidField."""
    query = wire.query
    limit = _number(query, "limit", _LIMIT, 1, _MOST)
    order = query.get("order", "desc")
    if order not in ("asc", "desc"):
        raise InvalidField(f"Invalid 'order': '{order}' is neither asc nor desc.", field="order")
    _include(query)
    after, descending = query.get("after"), order == "desc"
    return SmallCall(
        request=ResponseItems(id=wire.params["response_id"]),
        write=lambda kept: _page(kept, after, limit, descending=descending),
    )


def replayed(body: bytes) -> tuple[ResponseEvent, ...]:
    """The stream of a response of which only the body was kept: each text in one piece."""
    value: dict[str, Any] = msgspec.json.decode(body)
    numbers = EventNumbers()
    begun: dict[str, Any] = {
        **value,
        "status": "in_progress",
        "output": [],
        "usage": None,
        "completed_at": None,
        "error": None,
    }
    begun["incomplete_details"] = None
    frames = [numbers.frame(f"response.{kind}", response=begun) for kind in ("created", "in_progress")]
    for place, wire in enumerate(value["output"]):
        frames += _item_events(numbers, wire, place)
    frames.append(numbers.frame(f"response.{value['status']}", response=value))
    return tuple(ResponseEvent(number, frame.event, frame.data) for number, frame in enumerate(frames))


def _item_events(numbers: EventNumbers, wire: dict[str, Any], place: int) -> Iterator[Frame]:
    item = _item_of(wire, place)
    text, status, encrypted, phase = item.text, item.status, item.encrypted, item.phase
    item.pieces, item.status, item.encrypted, item.phase = [], "in_progress", None, None
    yield from opening(numbers, item)
    item.pieces, item.status = [text], status
    shown = wire.get("input", text)
    if shown:
        shape = DeltaShape(item)
        tail = b',"logprobs":' + msgspec.json.encode(item.logprobs or []) if item.kind == "message" else shape.tail
        yield numbers.cut(shape.kind, shape.head, shown, tail)
    yield from text_done(numbers, item)
    item.encrypted, item.phase = encrypted, phase
    yield item_done(numbers, item)


def _item_of(wire: dict[str, Any], place: int) -> OutputItem:
    """The item that was written so."""
    kind: ItemKind = wire["type"]
    item = OutputItem(kind=kind, id=wire["id"], place=place, status=wire.get("status") or "completed")
    item.encrypted, item.phase = wire.get("encrypted_content"), wire.get("phase")
    if kind == "reasoning":
        item.summarised = bool(wire["summary"])
        item.pieces = [thought_text(wire)]
    elif kind == "message":
        content: list[dict[str, Any]] = wire["content"] or [{}]
        part = content[0]
        item.kind = "refusal" if part.get("type") == "refusal" else "message"
        item.pieces = [part.get("refusal") or part.get("text") or ""]
        item.logprobs = part.get("logprobs")
    else:
        item.call_id = wire["call_id"]
        custom = kind == "custom_tool_call"
        item.tool = ToolName("custom" if custom else "function", wire["name"], wire.get("namespace"))
        item.pieces = [custom_arguments(wire["input"]) if custom else wire["arguments"]]
    return item


def _writer(include: frozenset[str]) -> Callable[[KeptResponse], bytes]:
    if ENCRYPTED not in include:
        return lambda kept: kept.body
    return _signed


def _signed(kept: KeptResponse) -> bytes:
    """The body with the signatures of its thoughts."""
    value: dict[str, Any] = msgspec.json.decode(kept.body)
    for item in value["output"]:
        if item["type"] == "reasoning" and kept.signer is not None and item.get("status") == "completed":
            item["encrypted_content"] = kept.signer.sign("reasoning", thought_text(item))
    return msgspec.json.encode(value)


def _deleted(result: ResponseDeleted) -> bytes:
    return msgspec.json.encode({"id": result.id, "object": "response.deleted", "deleted": True})


def _page(kept: KeptResponse, after: str | None, limit: int, *, descending: bool) -> bytes:
    items = [msgspec.json.decode(item) for item in (reversed(kept.items) if descending else kept.items)]
    ids: list[str] = [item["id"] for item in items]
    if after is not None and after not in ids:
        raise NotFound(f"There is no item '{after[:200]}' in this response.", field="after")
    begin = 0 if after is None else ids.index(after) + 1
    page = items[begin : begin + limit]
    return msgspec.json.encode(
        {
            "object": "list",
            "data": page,
            "first_id": page[0]["id"] if page else None,
            "last_id": page[-1]["id"] if page else None,
            "has_more": begin + limit < len(items),
        }
    )


def _include(query: Mapping[str, str]) -> frozenset[str]:
    words = [value for name in ("include", "include[]") for value in query.get(name, "").split(",") if value]
    return read_include(words)


def _flag(query: Mapping[str, str], name: str) -> bool:
    value = query.get(name, "").lower()
    if value not in (*_TRUE, *_FALSE):
        raise InvalidField(f"Invalid '{name}': '{value[:40]}' is neither true nor false.", field=name)
    return value in _TRUE


def _number(query: Mapping[str, str], name: str, default: int, low: int, high: int | None = None) -> int:
    given = query.get(name)
    if given is None:
        return default
    try:
        value = int(given)
    except ValueError as error:
        raise InvalidField(f"Invalid '{name}': '{given[:40]}' is not a whole number.", field=name) from error
    if value < low or (high is not None and value > high):
        raise InvalidField(f"Invalid '{name}': {value} is not {_allowed(low, high)}.", field=name)
    return value


def _allowed(low: int, high: int | None) -> str:
    return f"at least {low}" if high is None else f"between {low} and {high}"
