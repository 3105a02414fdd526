"""The shape of a row in the table of tool families. Data only; the readers in `output.calls` act on it."""

from __future__ import annotations

from msgspec import Struct


class JsonCalls(Struct, frozen=True, kw_only=True):
    """The block holds one JSON object a call. The first key of each kind to appear counts; other keys are ignored."""

    name_keys: tuple[str, ...] = ("name",)
    argument_keys: tuple[str, ...] = ("arguments", "parameters")


class ToolFamily(Struct, frozen=True, kw_only=True):
    """A markup. `opener` and `closer` stand around a block of calls; `calls` is the grammar of what is between.

    A family with another grammar adds a struct beside JsonCalls (tags, Python calls, channels) and its reader.
    """

    name: str
    opener: str
    closer: str
    calls: JsonCalls
