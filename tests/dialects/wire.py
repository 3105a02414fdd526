"""Requests as they arrive, and the recorded ones."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dragoman.dialects.base import WireRequest

CAPTURES = Path(__file__).parent / "data" / "captures"


def post(path: str, body: Any, headers: Mapping[str, str] | None = None) -> WireRequest:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return WireRequest(method="POST", path=path, body=raw, headers=dict(headers or {}))


def captures(path: str) -> dict[str, WireRequest]:
    """The recorded requests to `path`, by file name."""
    found: dict[str, WireRequest] = {}
    for file in sorted(CAPTURES.glob("*.json")):
        record = json.loads(file.read_text())
        if record["path"] == path:
            found[file.stem] = post(path, record["body"], record["headers"])
    return found
