"""Which requests come from a coding agent whose protocol has more than the plain wire. Reads headers only.

A header decides, else the client's own identity. Being taken for an agent adds to the reply what that agent reads and
changes nothing else, so that a wrong guess costs nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from dragoman.dialects.agent_header import agent_asked

_ORIGINATOR = re.compile(r"codex_[a-z0-9_]{1,32}")


def agent_of(headers: Mapping[str, str]) -> str:
    """`codex:detected`, `header`, or '' for a plain client. Raises InvalidField for a header that is neither on nor
    off."""
    asked = agent_asked(headers)
    if asked is not None:
        return "header" if asked else ""
    originator = headers.get("originator", "")
    if _ORIGINATOR.fullmatch(originator) and headers.get("user-agent", "").startswith(f"{originator}/"):
        return "codex:detected"
    return ""
