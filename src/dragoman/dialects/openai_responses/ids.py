"""Ids of responses and their items. An item's id tells of which response it is, so that references can be followed."""

from __future__ import annotations

from dragoman.core.ids import new_id

_PREFIX = "resp_"
_LENGTH = 32


def new_response_id() -> str:
    """`resp_` and 32 random letters and digits."""
    return new_id(_PREFIX, _LENGTH)


def output_id(prefix: str, response: str, index: int) -> str:
    """The id of an output item; the same for the same place, however often it is written."""
    return f"{prefix}_{response.removeprefix(_PREFIX)}{index:x}"


def input_id(prefix: str, response: str, index: int) -> str:
    """The id of an input item that came without one."""
    return f"{prefix}_{response.removeprefix(_PREFIX)}i{index:x}"


def response_of(item: str) -> str | None:
    """The response an item id was made for, None for an id of another maker."""
    _, _, tail = item.partition("_")
    stem = tail[:_LENGTH]
    return _PREFIX + stem if len(tail) > _LENGTH and stem.isascii() and stem.isalnum() else None
