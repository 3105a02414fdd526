"""Which words for reasoning effort a chat template tells apart, found by rendering. Knows no request."""

from __future__ import annotations

import re

from msgspec import Struct

from dragoman.core.errors import InvalidRequest
from dragoman.prompt.template import ChatTemplate

SCALE = ("minimal", "low", "medium", "high", "xhigh", "max")
"""From the least thinking to the most; `none` is not on it, it switches thinking off."""

_VARIABLE = "reasoning_effort"
_UNHEARD = "probe-effort"
_USUAL = ("low", "medium", "high")
"""What models with a free-form effort were trained on (the GPT-OSS prompt format)."""


class EffortScale(Struct, frozen=True):
    """`words` the template tells apart, in order; none: it reads no effort, or pays it no heed."""

    words: tuple[str, ...] = ()

    def word_for(self, effort: str) -> str | None:
        """What to tell the template for `effort`: the word itself, else the nearest it knows, the stronger of two that
        are equally near. None where the template's own default is the best there is, and for words off the scale."""
        if effort in self.words:
            return effort
        if effort not in SCALE or not self.words or effort == "medium":
            return None
        place = SCALE.index(effort)
        return min(self.words, key=lambda word: (abs(SCALE.index(word) - place), -SCALE.index(word)))


def probe_efforts(template: ChatTemplate) -> EffortScale:
    """Renders one short conversation with every word. A template that writes any word into the prompt is given the
    three usual ones only."""
    if _VARIABLE not in template.variables:
        return EffortScale()
    unheard = _render(template, _UNHEARD)
    if unheard is not None and _UNHEARD in unheard:
        return EffortScale(_USUAL)
    return EffortScale(tuple(word for word in SCALE if _is_known(template, word, unheard)))


def _is_known(template: ChatTemplate, word: str, unheard: str | None) -> bool:
    text = _render(template, word)
    return text is not None and (text != unheard or _is_named(template, word))


def _is_named(template: ChatTemplate, word: str) -> bool:
    """Whether the source names the word: one that stands for the default renders like an unheard one."""
    return re.search(rf"{_VARIABLE}[^%{{}}]*['\"]{word}['\"]", template.source) is not None


def _render(template: ChatTemplate, effort: str) -> str | None:
    try:
        return template.render(
            {
                "messages": [{"role": "user", "content": "probe"}],
                "tools": None,
                "documents": None,
                "add_generation_prompt": True,
                "enable_thinking": True,
                "thinking": True,
                _VARIABLE: effort,
            }
        )
    except InvalidRequest:
        return None
