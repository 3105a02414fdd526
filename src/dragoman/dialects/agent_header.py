"""The header with which a client says that an agent's protocol is spoken, or that it is not. Knows no agent."""

from __future__ import annotations

from collections.abc import Mapping

from dragoman.core.errors import InvalidField

_HEADERS = ("x-dragoman-agent-compat", "x-mlx2-agent-compat")


def agent_asked(headers: Mapping[str, str]) -> bool | None:
    """Whether it is asked for; None where the header is not there. Raises InvalidField for a value that is neither on
    nor off."""
    for name in _HEADERS:
        value = headers.get(name, "").strip().lower()
        if value and value not in ("on", "off"):
            raise InvalidField(f"The header '{name}' is neither on nor off.", field=name)
        if value:
            return value == "on"
    return None
