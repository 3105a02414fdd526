"""Which requests come from a coding agent whose protocol has more than the plain wire. Reads headers only.

A header decides, else the client's own identity. Being taken for an agent adds to the reply what that agent reads and
changes nothing else, so that a wrong guess costs nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from dragoman.core.errors import InvalidField

_HEADERS = ("x-dragoman-agent-compat", "x-mlx2-agent-compat")
_ORIGINATOR = re.compile(r"codex_[a-z0-9_]{1,32}")


def agent_of(headers: Mapping[str, str]) -> str:
    """`codex:detected`, `header`, or '' for a plain client. Raises InvalidField for a header that is neither on nor
    off."""
    for name in _HEADERS:
        value = headers.get(name, "").strip().lower()
        if value and value not in ("on", "off"):
            raise InvalidField(f"The header '{name}' is neither on nor off.", field=name)
        if value:
            return "header" if value == "on" else ""
    originator = headers.get("originator", "")
    if _ORIGINATOR.fullmatch(originator) and headers.get("user-agent", "").startswith(f"{originator}/"):
        return "codex:detected"
    return ""
