"""Which requests come from Claude Code. Reads headers only.

What Claude Code sends is read for everybody: adaptive thinking, thoughts inside signatures, efforts, system messages in
the middle, a billing header that no prompt needs. So being taken for it changes nothing but the receipt, and a wrong
guess costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from dragoman.dialects.agent_header import agent_asked

_CLIENT = "claude-cli/"
_BETA = "claude-code-"


def agent_of(headers: Mapping[str, str]) -> str:
    """`claude_code:detected`, `header`, or '' for a plain client. The SDK's own user agent never counts. Raises
    InvalidField for a header that is neither on nor off."""
    asked = agent_asked(headers)
    if asked is not None:
        return "header" if asked else ""
    betas = (beta.strip() for beta in headers.get("anthropic-beta", "").split(","))
    agrees = "x-app" in headers or any(beta.startswith(_BETA) for beta in betas)
    return "claude_code:detected" if agrees and headers.get("user-agent", "").startswith(_CLIENT) else ""
