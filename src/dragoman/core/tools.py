"""What a model may call, and how free it is to call it. Knows no wire spelling."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct


class Tool(Struct, frozen=True):
    """A function the model may call. `parameters` is a JSON Schema object."""

    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool = False


class ToolChoice(Struct, frozen=True):
    """`auto` and `none` speak for themselves; `required` wants some call, `named` one of `names`."""

    mode: Literal["auto", "none", "required", "named"] = "auto"
    names: tuple[str, ...] = ()
