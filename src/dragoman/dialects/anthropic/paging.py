"""Lists that are read page by page with `limit`, `after_id` and `before_id`. Knows nothing of what is listed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, TypeVar

import msgspec

from dragoman.core.errors import InvalidField

DEFAULT_LIMIT, MAX_LIMIT = 20, 1000

T = TypeVar("T")


class PageQuery(msgspec.Struct, frozen=True):
    """Which page: the `limit` entries behind `after_id`, or right before `before_id`."""

    limit: int = DEFAULT_LIMIT
    after_id: str | None = None
    before_id: str | None = None


class Page(msgspec.Struct, Generic[T], frozen=True):
    """One page, and whether there are more in the direction asked for."""

    data: list[T]
    has_more: bool
    first_id: str | None
    last_id: str | None


def read_page(query: Mapping[str, str]) -> PageQuery:
    """The page a query string asks for. Raises InvalidField."""
    text = query.get("limit", str(DEFAULT_LIMIT))
    limit = int(text) if text.isdecimal() and len(text) < 8 else 0
    if not 1 <= limit <= MAX_LIMIT:
        raise InvalidField(f"limit: it must be a number from 1 to {MAX_LIMIT}.", field="limit")
    found = PageQuery(limit, query.get("after_id") or None, query.get("before_id") or None)
    if found.after_id and found.before_id:
        raise InvalidField("before_id: it cannot be given together with after_id.", field="before_id")
    return found


def page_of(entries: list[T], ids: list[str], more: bool) -> Page[T]:
    """A page of `entries`, whose ids are `ids`."""
    return Page(entries, more, ids[0] if ids else None, ids[-1] if ids else None)
