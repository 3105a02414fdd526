"""What a case of the family corpus is, and the tools all of them declare."""

from __future__ import annotations

from msgspec import Struct

from dragoman.core.tools import Tool

Part = tuple[str, str, str]

LOOK = Tool(
    "look",
    parameters={
        "type": "object",
        "properties": {
            "place": {"type": "string"},
            "n": {"type": "integer"},
            "deep": {"type": "object"},
            "list": {"type": "array"},
        },
        "required": ["place"],
    },
)
SAVE = Tool("save", parameters={"type": "object", "properties": {"body": {"type": "string"}}})
FORM = Tool(
    "set_form",
    parameters={
        "type": "object",
        "properties": {
            "zip": {"$ref": "#/$defs/Code"},
            "n": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            "ok": {"type": "boolean"},
            "tags": {"type": "array", "items": {"type": "string"}},
            "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "size": {"type": ["number", "string"]},
            "free": {},
        },
        "$defs": {"Code": {"type": "string"}},
    },
)
TOOLS = (LOOK, SAVE, FORM)


class Case(Struct, frozen=True):
    """What a model wrote, what it means, and what had to be mended for that."""

    name: str
    wrote: str
    parts: list[Part]
    repairs: tuple[str, ...] = ()
    thinking_open: bool = False


def text(content: str) -> Part:
    return ("text", "", content)


def thought(content: str) -> Part:
    return ("reasoning", "", content)


def called(name: str, arguments: str) -> Part:
    return ("tool_call", name, arguments)


OSLO = called("look", '{"place": "Oslo"}')
ROME = called("look", '{"place": "Rome", "n": 2}')
EMPTY = called("look", "{}")
