"""What a model may call, and how free it is to call it. Knows no wire spelling."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct


class Tool(Struct, frozen=True):
    """A function the model may call. `parameters` is a JSON Schema object, `field` its wire path, for refusals.
    `text_grammar` is a Lark grammar for the text in the one argument `input`, masked where the family's markup lets
    it be, and looked at when the call is complete."""

    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool = False
    field: str = "tools"
    text_grammar: str = ""


class ToolChoice(Struct, frozen=True):
    """`auto` and `none` speak for themselves; `required` wants some call, `named` one of `names`. `field` is the
    choice's wire path, for refusals."""

    mode: Literal["auto", "none", "required", "named"] = "auto"
    names: tuple[str, ...] = ()
    field: str = "tool_choice"

    @property
    def forces(self) -> bool:
        """Whether the answer must hold a call."""
        return self.mode in ("required", "named")
