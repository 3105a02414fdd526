"""`thinking` and `output_config.effort` -> core. Knows no model."""

from __future__ import annotations

from collections.abc import Mapping

from dragoman.core.errors import InvalidField, MissingField
from dragoman.core.request import Thinking
from dragoman.dialects.anthropic.schema import ThinkingParam

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
TYPES = ("enabled", "adaptive", "between_tools", "disabled")
DISPLAYS = ("summarized", "omitted", "updates")
LEAST_BUDGET = 1024
"""Anthropic's own limit, in tokens."""

_INTERLEAVED = "interleaved-thinking-"
_BETAS = "anthropic-beta"


def read_thinking(wanted: ThinkingParam | None, effort: str | None, preserve: bool | None = None) -> Thinking:
    """Off unless asked for, as on this wire; `adaptive` leaves how much to the effort and the model. Raises
    InvalidField, MissingField."""
    if effort not in (None, *EFFORTS):
        raise InvalidField(
            f"output_config.effort: '{effort}' is not one of {', '.join(EFFORTS)}.", field="output_config.effort"
        )
    if wanted is None:
        return Thinking("off", effort)
    for name, value, known in (("type", wanted.type, TYPES), ("display", wanted.display, (None, *DISPLAYS))):
        if value not in known:
            listed = ", ".join(filter(None, known))
            raise InvalidField(f"thinking.{name}: '{value}' is not one of {listed}.", field=f"thinking.{name}")
    budget = _budget(wanted)
    if wanted.type == "disabled" or effort == "none":
        return Thinking("off", effort)
    return Thinking("on", effort, budget, preserve)


def check_budget(wanted: ThinkingParam | None, max_tokens: int, headers: Mapping[str, str]) -> None:
    """The thought must leave room for the answer; where it may go on between calls it need not. Raises InvalidField."""
    budget = _budget(wanted) if wanted is not None else None
    if budget is not None and budget >= max_tokens and _INTERLEAVED not in headers.get(_BETAS, ""):
        raise InvalidField("thinking.budget_tokens: it must be less than max_tokens.", field="thinking.budget_tokens")


def _budget(wanted: ThinkingParam) -> int | None:
    """Tokens; only `enabled` has a budget, and always."""
    if wanted.type != "enabled":
        return None
    if wanted.budget_tokens is None:
        raise MissingField("thinking.budget_tokens: the field is required.", field="thinking.budget_tokens")
    if wanted.budget_tokens < LEAST_BUDGET:
        raise InvalidField(
            f"thinking.budget_tokens: it must be at least {LEAST_BUDGET}.", field="thinking.budget_tokens"
        )
    return wanted.budget_tokens
