"""Claude Code is known by what it says of itself, and only by all of it."""

from __future__ import annotations

import pytest

from dragoman.core.errors import InvalidField
from dragoman.dialects.anthropic.compat import agent_of

CLI = {"user-agent": "claude-cli/2.1.197 (external, sdk-cli)"}
BETA = {"anthropic-beta": "x-1, claude-code-20250219,interleaved-thinking-2025-05-14"}


@pytest.mark.parametrize(
    ("headers", "agent"),
    [
        ({}, ""),
        (CLI, ""),
        (BETA, ""),
        ({**CLI, "x-app": "cli"}, "claude_code:detected"),
        ({**CLI, **BETA}, "claude_code:detected"),
        ({"user-agent": "Anthropic/JS 0.94.0", "x-app": "cli", **BETA}, ""),
        ({**CLI, **BETA, "x-dragoman-agent-compat": "off"}, ""),
        ({"x-dragoman-agent-compat": "On"}, "header"),
    ],
)
def test_agent_of(headers: dict[str, str], agent: str) -> None:
    assert agent_of(headers) == agent


def test_a_header_that_is_neither() -> None:
    with pytest.raises(InvalidField):
        agent_of({"x-dragoman-agent-compat": "maybe"})
