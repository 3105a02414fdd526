"""Events of the typed stream: numbered frames around what a writer has to say. Knows no core event."""

from __future__ import annotations

from typing import Any

import msgspec

from dragoman.dialects.base import Frame
from dragoman.dialects.openai_responses.output import OutputItem

_json = msgspec.json.Encoder().encode


class EventNumbers:
    """Makes frames; each gets the next sequence number, from 0."""

    def __init__(self) -> None:
        self.next = 0

    def frame(self, kind: str, **fields: Any) -> Frame:
        """One event."""
        data = _json({"type": kind, "sequence_number": self._number(), **fields})
        return Frame(data, kind)

    def cut(self, kind: str, head: bytes, text: str, tail: bytes) -> Frame:
        """A delta, whose constant bytes were encoded once: `head`, the text, `tail`, the number."""
        return Frame(b'%b%b%b,"sequence_number":%d}' % (head, _json(text), tail, self._number()), kind)

    def _number(self) -> int:
        number = self.next
        self.next += 1
        return number


class DeltaShape:
    """The constant bytes of one item's deltas."""

    def __init__(self, item: OutputItem) -> None:
        self.kind = _DELTAS[item.kind]
        if item.kind == "reasoning" and item.summarised:
            self.kind = "response.reasoning_summary_text.delta"
        head = {"type": self.kind, "item_id": item.id, "output_index": item.place, **place_of(item)}
        self.head = _json(head)[:-1] + b',"delta":'
        self.tail = b',"logprobs":[]' if item.kind == "message" else b""


def place_of(item: OutputItem) -> dict[str, int]:
    """Which part of the item is meant: there is only one, and calls have none."""
    if item.kind in ("function_call", "custom_tool_call"):
        return {}
    return {"summary_index" if item.summarised else "content_index": 0}


def opening(numbers: EventNumbers, item: OutputItem) -> list[Frame]:
    """An item begins."""
    frames = [numbers.frame("response.output_item.added", output_index=item.place, item=item.wire())]
    if item.kind in ("function_call", "custom_tool_call"):
        return frames
    frames.append(numbers.frame(_part_event(item, "added"), **_where(item), part=item.part()))
    return frames


def text_done(numbers: EventNumbers, item: OutputItem) -> list[Frame]:
    """The text of an item is complete; the item itself is told by `item_done`."""
    where = _where(item)
    if item.kind == "function_call":
        name = item.wire()["name"]
        return [numbers.frame("response.function_call_arguments.done", **where, name=name, arguments=item.text)]
    if item.kind == "custom_tool_call":
        return [numbers.frame("response.custom_tool_call_input.done", **where, input=item.wire()["input"])]
    if item.kind == "refusal":
        frames = [numbers.frame("response.refusal.done", **where, refusal=item.text)]
    elif item.kind == "reasoning":
        kind = "response.reasoning_summary_text.done" if item.summarised else "response.reasoning_text.done"
        frames = [numbers.frame(kind, **where, text=item.text)]
    else:
        frames = [
            numbers.frame("response.output_text.done", **where, text=item.text, logprobs=item.logprobs or []),
        ]
    return [*frames, numbers.frame(_part_event(item, "done"), **where, part=item.part())]


def item_done(numbers: EventNumbers, item: OutputItem) -> Frame:
    """The item is over."""
    return numbers.frame("response.output_item.done", output_index=item.place, item=item.wire())


def _where(item: OutputItem) -> dict[str, Any]:
    return {"item_id": item.id, "output_index": item.place, **place_of(item)}


def _part_event(item: OutputItem, what: str) -> str:
    return f"response.reasoning_summary_part.{what}" if item.summarised else f"response.content_part.{what}"


_DELTAS = {
    "message": "response.output_text.delta",
    "refusal": "response.refusal.delta",
    "reasoning": "response.reasoning_text.delta",
    "function_call": "response.function_call_arguments.delta",
    "custom_tool_call": "response.custom_tool_call_input.delta",
}
