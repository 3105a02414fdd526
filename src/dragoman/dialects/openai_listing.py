"""Cursors and pages as OpenAI's lists have them, shared by the OpenAI folders. Knows no object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, TypeVar

import msgspec

from dragoman.core.errors import InvalidField

T = TypeVar("T")


class Listing(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """One page; `last_id` is the cursor of the next."""

    object: str = "list"
    data: list[T]
    first_id: str | None
    last_id: str | None
    has_more: bool


def listing(data: list[T], ids: list[str], more: bool) -> Listing[T]:
    """A page of objects with their ids."""
    first, last = (ids[0], ids[-1]) if ids else (None, None)
    return Listing(data=data, first_id=first, last_id=last, has_more=more)


def read_limit(query: Mapping[str, str], default: int, most: int) -> int:
    """The field `limit`. Raises InvalidField unless it is 1 to `most`."""
    text = query.get("limit", "")
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and len(text) <= 9 and 1 <= int(text) <= most):
        raise InvalidField(f"'limit' must be a whole number from 1 to {most}.", field="limit")
    return int(text)


def read_cursor(query: Mapping[str, str], name: str = "after") -> str | None:
    """A cursor field; empty means none."""
    return query.get(name) or None
