"""Request ids: the caller's own if it is sane, else a new one. Knows no header but `x-request-id`."""

from __future__ import annotations

import re

from dragoman.core.ids import new_id

HEADER = "x-request-id"
_SANE = re.compile(r"[!-~]{1,128}")


def request_id(headers: dict[str, str], prefix: str) -> str:
    """The caller's id when it is 1..128 visible ASCII characters, else `prefix` and random characters."""
    given = headers.get(HEADER, "")
    return given if _SANE.fullmatch(given) else new_id(prefix)
