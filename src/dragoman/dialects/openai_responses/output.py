"""Output items as they grow, and their wire form at any moment. Writes no events."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from msgspec import Struct, field

from dragoman.core.logprobs import LogprobEntry
from dragoman.dialects.openai_responses.ids import output_id
from dragoman.dialects.openai_responses.names import ToolName, custom_input

ItemKind = Literal["message", "refusal", "reasoning", "function_call", "custom_tool_call"]
Status = Literal["in_progress", "completed", "incomplete"]

PREFIXES: dict[ItemKind, str] = {
    "message": "msg",
    "refusal": "msg",
    "reasoning": "rs",
    "function_call": "fc",
    "custom_tool_call": "ctc",
}


class OutputItem(Struct, kw_only=True):
    """One item. `place` is its output_index, `text` what it has of text, thought, arguments or, for a custom tool, of
    the arguments of its function form; `flat` and `tool` name a called tool in core and on the wire."""

    kind: ItemKind
    id: str
    place: int
    pieces: list[str] = field(default_factory=list[str])
    status: Status = "in_progress"
    call_id: str = ""
    flat: str = ""
    tool: ToolName | None = None
    summarised: bool = False
    encrypted: str | None = None
    phase: str | None = None
    logprobs: list[dict[str, Any]] | None = None

    @property
    def text(self) -> str:
        """All pieces."""
        return "".join(self.pieces)

    def part(self) -> dict[str, Any]:
        """The one part of a message, or of a thought."""
        if self.kind == "refusal":
            return {"type": "refusal", "refusal": self.text}
        if self.kind == "reasoning":
            return {"type": "summary_text" if self.summarised else "reasoning_text", "text": self.text}
        return {"type": "output_text", "annotations": [], "logprobs": self.logprobs or [], "text": self.text}

    def wire(self) -> dict[str, Any]:
        """The item as it is now."""
        if self.kind == "reasoning":
            return self._reasoning()
        if self.kind in ("function_call", "custom_tool_call"):
            return self._call()
        item: dict[str, Any] = {"id": self.id, "type": "message", "status": self.status, "role": "assistant"}
        item["content"] = [] if self.status == "in_progress" and not self.text else [self.part()]
        if self.phase is not None:
            item["phase"] = self.phase
        return item

    def _reasoning(self) -> dict[str, Any]:
        item: dict[str, Any] = {"id": self.id, "type": "reasoning", "summary": [], "status": self.status}
        if self.text:
            item["summary" if self.summarised else "content"] = [self.part()]
        if self.encrypted is not None:
            item["encrypted_content"] = self.encrypted
        return item

    def _call(self) -> dict[str, Any]:
        name = self.tool or ToolName("function", self.flat)
        item: dict[str, Any] = {
            "id": self.id,
            "type": self.kind,
            "status": self.status,
            "call_id": self.call_id,
            "name": name.name,
        }
        if name.namespace is not None:
            item["namespace"] = name.namespace
        if self.kind == "custom_tool_call":
            item["input"] = custom_input(self.text) if self.pieces else ""
        else:
            item["arguments"] = self.text
        return item


def new_item(kind: ItemKind, response: str, place: int) -> OutputItem:
    """An item that just began."""
    return OutputItem(kind=kind, id=output_id(PREFIXES[kind], response, place), place=place)


def logprob_objects(entries: Iterable[LogprobEntry]) -> list[dict[str, Any]]:
    """Log probabilities in this wire's shape, with the token id and its vocabulary piece added."""
    return [{**_one(entry), "top_logprobs": [_one(rival) for rival in entry.top]} for entry in entries]


def _one(entry: LogprobEntry) -> dict[str, Any]:
    return {
        "token": entry.text,
        "bytes": list(entry.raw),
        "logprob": entry.logprob,
        "id": entry.id,
        "piece": entry.piece,
    }
