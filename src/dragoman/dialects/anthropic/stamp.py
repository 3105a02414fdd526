"""Times as this wire writes them."""

from __future__ import annotations

from datetime import UTC, datetime


def stamp(seconds: int) -> str:
    """Unix seconds as RFC 3339 in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
