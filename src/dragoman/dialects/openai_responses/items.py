"""Input items -> core messages, and the items as they are kept. Follows no reference itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from dragoman.core.errors import InvalidField, NotFound, UnsupportedField
from dragoman.core.messages import Message, Part, ReasoningPart, Role, ToolCallPart, ToolResultPart
from dragoman.core.responses import Recalled
from dragoman.core.signatures import UNSIGNED, signature_kind
from dragoman.dialects.decoding import convert
from dragoman.dialects.openai_responses.content import read_content
from dragoman.dialects.openai_responses.ids import input_id
from dragoman.dialects.openai_responses.names import core_name, custom_arguments
from dragoman.dialects.openai_responses.schema import (
    CallItem,
    CustomCallItem,
    MessageItem,
    OutputItem,
    ReasoningItem,
)

Item = dict[str, Any]

_ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "developer",
    "user": "user",
    "assistant": "assistant",
}
_PREFIXES = {
    "message": "msg",
    "function_call": "fc",
    "function_call_output": "fco",
    "custom_tool_call": "ctc",
    "custom_tool_call_output": "ctco",
    "reasoning": "rs",
}
# What these stand for is not in them but on the server that made them.
_OPAQUE = ("compaction", "compaction_summary", "compaction_trigger")


def item_list(input: str | list[Item] | None) -> list[Item]:
    """The input as items."""
    if isinstance(input, str):
        return [{"type": "message", "role": "user", "content": input}]
    return input or []


def kind_of(item: Item, at: str) -> str:
    """The item's type, which messages and references may leave out. Raises InvalidField where there is none."""
    kind = item.get("type")
    if isinstance(kind, str):
        return kind
    if "role" in item:
        return "message"
    if "id" in item:
        return "item_reference"
    raise InvalidField(f"The field '{at}' is no item: it has neither type nor role.", field=at)


def named_in(items: list[Item], key: str) -> Iterator[str]:
    """Ids below `key` anywhere in the content of the items, such as the ids of files."""
    for item in items:
        for held in (item.get("content"), item.get("output")):
            for part in held if isinstance(held, list) else ():  # pyright: ignore[reportUnknownVariableType]
                value = part.get(key) if isinstance(part, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
                if isinstance(value, str):
                    yield value


def references(items: list[Item]) -> Iterator[str]:
    """Ids of items that are named instead of given."""
    for index, item in enumerate(items):
        if kind_of(item, f"input[{index}]") == "item_reference":
            id = item.get("id")
            if not isinstance(id, str):
                raise InvalidField(f"Invalid 'input[{index}].id': it must be a string.", field=f"input[{index}].id")
            yield id


def resolved(items: list[Item], known: Mapping[str, bytes]) -> list[Item]:
    """The items with references followed. Raises NotFound for one that leads nowhere."""
    return [_followed(item, f"input[{index}]", known) for index, item in enumerate(items)]


def _followed(item: Item, at: str, known: Mapping[str, bytes]) -> Item:
    if kind_of(item, at) != "item_reference":
        return item
    found = known.get(item["id"])
    if found is None:
        raise NotFound(f"Item with id '{item['id']}' not found.", field=f"{at}.id")
    return msgspec.json.decode(found)


def skipped(items: list[Item]) -> tuple[str, ...]:
    """Items that tell of tools only a hosted service has; they are left out of the prompt."""
    return tuple(
        f"input[{index}].{kind}"
        for index, item in enumerate(items)
        if (kind := kind_of(item, f"input[{index}]")) not in _READERS and kind != "item_reference"
    )


def read_items(items: list[Item], recalled: Recalled) -> tuple[Message, ...]:
    """The turns of the items. What the model wrote in one turn (thoughts, text, calls) becomes one message.

    Raises InvalidRequest naming the wire path of what is wrong.
    """
    turns: list[tuple[Role, list[Part]]] = []
    for index, item in enumerate(items):
        at = f"input[{index}]"
        kind = kind_of(item, at)
        if kind in _OPAQUE:
            raise UnsupportedField(f"Items of type '{kind}' mean nothing to this server.", field=at)
        reader = _READERS.get(kind)
        if reader is None:
            continue
        role, parts = reader(item, at, recalled)
        if role == "assistant" and turns and turns[-1][0] == "assistant":
            turns[-1][1].extend(parts)
        else:
            turns.append((role, parts))
    return tuple(Message(role, tuple(_placed(parts))) for role, parts in turns)


def kept_items(items: list[Item], response: str) -> tuple[bytes, ...]:
    """The items as they are listed later: with a type, an id and a status, and content in parts."""
    return tuple(msgspec.json.encode(_listed(item, response, index)) for index, item in enumerate(items))


def _placed(parts: list[Part]) -> list[Part]:
    """A thought belongs to the turn it led to. One that stands alone was put where it is by somebody else."""
    if any(not isinstance(part, ReasoningPart) for part in parts):
        return parts
    return [ReasoningPart("", UNSIGNED) for _ in parts]


def _message(item: Item, at: str, recalled: Recalled) -> tuple[Role, list[Part]]:
    message = convert(item, MessageItem, at)
    role = _ROLES.get(message.role)
    if role is None:
        known = ", ".join(_ROLES)
        raise InvalidField(f"Invalid '{at}.role': '{message.role}' is not one of {known}.", field=f"{at}.role")
    return role, list(read_content(message.content, f"{at}.content", recalled.files))


def _call(item: Item, at: str, recalled: Recalled) -> tuple[Role, list[Part]]:
    call = convert(item, CallItem, at)
    return "assistant", [ToolCallPart(call.call_id, core_name(call.name, call.namespace), call.arguments)]


def _custom_call(item: Item, at: str, recalled: Recalled) -> tuple[Role, list[Part]]:
    call = convert(item, CustomCallItem, at)
    name = core_name(call.name, call.namespace)
    return "assistant", [ToolCallPart(call.call_id, name, custom_arguments(call.input))]


def _output(item: Item, at: str, recalled: Recalled) -> tuple[Role, list[Part]]:
    result = convert(item, OutputItem, at)
    return "tool", [ToolResultPart(result.call_id, tuple(read_content(result.output, f"{at}.output", recalled.files)))]


def _reasoning(item: Item, at: str, recalled: Recalled) -> tuple[Role, list[Part]]:
    thought = convert(item, ReasoningItem, at)
    if item.get("id") in recalled.referenced:
        # From our own store, so there is nothing to prove.
        return "assistant", [ReasoningPart(thought_text(item))]
    given = thought.encrypted_content or UNSIGNED
    return "assistant", [ReasoningPart("", given if signature_kind(given) == "reasoning" else UNSIGNED)]


def thought_text(item: Item) -> str:
    """The thought as a reasoning item shows it, in its content or else its summary."""
    pieces: list[Item] = item.get("content") or item.get("summary") or []
    return "".join(piece.get("text") or "" for piece in pieces)


def _listed(item: Item, response: str, index: int) -> Item:
    kind = kind_of(item, f"input[{index}]")
    listed: Item = {"type": kind, "id": input_id(_PREFIXES.get(kind, "item"), response, index), **item}
    listed["id"] = listed["id"] or input_id(_PREFIXES.get(kind, "item"), response, index)
    if kind in ("message", "function_call", "function_call_output"):
        listed["status"] = item.get("status") or "completed"
    if kind == "message" and isinstance(item.get("content"), str):
        assistant = item.get("role") == "assistant"
        part: Item = {"type": "output_text" if assistant else "input_text", "text": item["content"]}
        listed["content"] = [{**part, "annotations": []} if assistant else part]
    return listed


_READERS: dict[str, Callable[[Item, str, Recalled], tuple[Role, list[Part]]]] = {
    "message": _message,
    "function_call": _call,
    "custom_tool_call": _custom_call,
    "function_call_output": _output,
    "custom_tool_call_output": _output,
    "reasoning": _reasoning,
}
