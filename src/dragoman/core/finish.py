"""Why an answer ended. Each dialect has its own words for these."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct


class FinishReason(Enum):
    """`EOS` the model ended; `STOP` a stop string matched; `LENGTH` the token limit; `CONTEXT` the window is full;
    `TOOL_CALLS` the answer holds at least one complete call; `NONE` nothing was generated (an empty prompt)."""

    EOS = "eos"
    STOP = "stop"
    LENGTH = "length"
    CONTEXT = "context"
    TOOL_CALLS = "tool_calls"
    NONE = "none"


class Finish(Struct, frozen=True):
    """The reason, and for `STOP` the stop string that matched."""

    reason: FinishReason
    stop_match: str | None = None
