"""Fields about thinking -> core Thinking: OpenAI's own, and what other servers of this wire call the same things.

Knows no template: which of its variables say these things is not known here.
"""

from __future__ import annotations

from dragoman.core.errors import InvalidField
from dragoman.core.request import Thinking
from dragoman.dialects.openai_chat.schema import ChatCompletionRequest, ReasoningOptions, ThinkingOptions
from dragoman.dialects.openai_fields import ranged_int

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
_MODES = {"enabled": True, "adaptive": True, "auto": None, "disabled": False}
_BUDGETS = (
    "thinking_budget",
    "thinking_budget_tokens",
    "thinking_token_budget",
    "reasoning_budget",
    "reasoning_budget_tokens",
)
_FORMATS = ("none", "auto", "deepseek")


def read_thinking(body: ChatCompletionRequest) -> Thinking:
    """An effort of none is off, any other on; an explicit switch wins over it, the one meant for the template first.
    Raises InvalidField naming the accepted words."""
    inline = _in_text(body.reasoning_format)
    effort, budget = _effort(body), _budget(body)
    switch = next((wish for wish in _switches(body) if wish is not None), None)
    if switch is None and effort is not None:
        switch = effort != "none"
    mode = "auto" if switch is None else "on" if switch else "off"
    closable = body.reasoning_control is True
    return Thinking(mode, effort, budget, body.preserve_thinking, closable=closable, inline=inline)


def shows_thoughts(body: ChatCompletionRequest) -> bool:
    """Whether thoughts are part of the reply; they are thought in any case."""
    return body.include_reasoning is not False and not (body.reasoning and body.reasoning.exclude)


def _effort(body: ChatCompletionRequest) -> str | None:
    routed = body.reasoning or ReasoningOptions()
    for name, effort in (("reasoning_effort", body.reasoning_effort), ("reasoning.effort", routed.effort)):
        if effort is None:
            continue
        if effort not in EFFORTS:
            raise InvalidField(f"Invalid '{name}': '{effort}' is not one of {', '.join(EFFORTS)}.", field=name)
        return effort
    return None


def _budget(body: ChatCompletionRequest) -> int | None:
    """Tokens; -1 is llama-server's way to set no bound."""
    routed, named = body.reasoning or ReasoningOptions(), body.thinking or ThinkingOptions()
    asked = [(name, getattr(body, name)) for name in _BUDGETS]
    asked += [("reasoning.max_tokens", routed.max_tokens), ("thinking.budget_tokens", named.budget_tokens)]
    for name, value in asked:
        budget = ranged_int(value, name, -1)
        if budget is not None:
            return None if budget == -1 else budget
    return None


def _switches(body: ChatCompletionRequest) -> tuple[bool | None, ...]:
    kwargs = body.chat_template_kwargs or {}
    templated = (kwargs.get(name) for name in ("enable_thinking", "thinking"))
    routed, named = body.reasoning or ReasoningOptions(), body.thinking
    return (
        *(wish if isinstance(wish, bool) else None for wish in templated),
        body.enable_thinking,
        None if named is None else _mode(named),
        routed.enabled,
    )


def _mode(named: ThinkingOptions) -> bool | None:
    if named.type is None:
        return True if named.budget_tokens else None
    if named.type not in _MODES:
        raise InvalidField(
            f"Invalid 'thinking.type': '{named.type}' is not one of {', '.join(_MODES)}.", field="thinking.type"
        )
    return _MODES[named.type]


def _in_text(wanted: str | None) -> bool:
    """Whether thoughts are left in the text, as llama-server's `none` has it."""
    if wanted is not None and wanted not in _FORMATS:
        words = f"Invalid 'reasoning_format': '{wanted[:40]}' is not one of {', '.join(_FORMATS)}."
        raise InvalidField(words, field="reasoning_format")
    return wanted == "none"
