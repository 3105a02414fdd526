"""What a request says of thinking, and which template variables say it. Renders nothing.

Wishes come as fields of a wire or, under the names templates gave them, in `template_kwargs`; the latter win, since
whoever writes them knows the template.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dragoman.core.request import ChatInput, Thinking
from dragoman.prompt.efforts import EffortScale

SWITCHES = ("enable_thinking", "thinking")
_PRESERVE = "preserve_thinking"
_CLEAR = ("clear_thinking", "truncate_history_thinking")
_BUDGET = "thinking_budget"


def thinking_of(chat: ChatInput) -> Thinking:
    """The request's wishes, those among `template_kwargs` included. A budget of nothing is thinking switched off, and
    so is an effort of `none` unless thinking is switched on by name."""
    kwargs, asked = chat.template_kwargs, chat.thinking
    effort = kwargs.get("reasoning_effort")
    effort = effort if isinstance(effort, str) else asked.effort
    switch = next((kwargs[name] for name in SWITCHES if isinstance(kwargs.get(name), bool)), None)
    mode = asked.mode if switch is None else "on" if switch else "off"
    if mode == "auto" and effort == "none":
        mode = "off"
    budget = kwargs[_BUDGET] if _is_count(kwargs.get(_BUDGET)) else asked.budget
    return Thinking(
        mode="off" if budget == 0 else mode,
        effort=effort,
        budget=budget,
        preserve=_preserve(kwargs, asked.preserve),
        closable=asked.closable,
    )


def template_variables(thinking: Thinking, wanted: frozenset[str], efforts: EffortScale) -> dict[str, Any]:
    """`enable_thinking` for every template, the others for those that read them."""
    variables: dict[str, Any] = {}
    if thinking.mode != "auto":
        on = thinking.mode == "on"
        variables |= {name: on for name in SWITCHES if name in wanted or name == SWITCHES[0]}
    word = None if thinking.effort is None else efforts.word_for(thinking.effort)
    if word is not None:
        variables["reasoning_effort"] = word
    if thinking.budget is not None and _BUDGET in wanted:
        variables[_BUDGET] = thinking.budget
    if thinking.preserve is not None:
        variables |= {name: thinking.preserve for name in (_PRESERVE,) if name in wanted}
        variables |= {name: not thinking.preserve for name in _CLEAR if name in wanted}
    return variables


def keeps_thoughts(wanted: Iterable[str]) -> bool:
    """Whether the template has a switch of its own for thoughts of earlier turns."""
    return not {_PRESERVE, *_CLEAR}.isdisjoint(wanted)


def unsaid(thinking: Thinking, efforts: EffortScale) -> Thinking:
    """What the prompt cannot say: a budget, and an effort where the template reads none."""
    said = thinking.mode == "off" or bool(efforts.words)
    return Thinking(
        mode=thinking.mode,
        effort=None if said else thinking.effort,
        budget=thinking.budget,
        closable=thinking.closable,
    )


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _preserve(kwargs: dict[str, Any], asked: bool | None) -> bool | None:
    if isinstance(kwargs.get(_PRESERVE), bool):
        return kwargs[_PRESERVE]
    cleared = next((kwargs[name] for name in _CLEAR if isinstance(kwargs.get(name), bool)), None)
    return asked if cleared is None else not cleared
