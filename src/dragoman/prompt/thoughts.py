"""How a template writes a thought into the history, and how to put one back where it left it out. Knows no token id."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from dragoman.core.errors import InvalidRequest
from dragoman.core.prompt import ReplyFormat
from dragoman.prompt.template import ChatTemplate
from dragoman.prompt.turns import Turn

_THOUGHT, _ANSWER = "probe-thought", "probe-answer"
_MARK = "\ue0d9thought{}\ue0da"


class ThoughtForm(Struct, frozen=True):
    """What stands before and after a thought, tags and white space. Both are '' for a model that does not think."""

    opening: str = ""
    closing: str = ""

    def around(self, thought: str) -> str:
        """The thought as the model would have written it."""
        return f"{self.opening}{thought.strip()}{self.closing}"


def probe_thoughts(template: ChatTemplate, tags: ReplyFormat) -> ThoughtForm:
    """The form of a thought in the last assistant turn; where the template shows none, tags on lines of their own."""
    if not tags.think_close:
        return ThoughtForm()
    plain = ThoughtForm(f"{tags.think_open}\n", f"\n{tags.think_close}\n\n")
    before, found, rest = _render(template).partition(_THOUGHT)
    closing, answered, _ = rest.partition(_ANSWER)
    opened = before.rfind(tags.think_open)
    if not (found and answered and tags.think_close in closing):
        return plain
    return ThoughtForm(before[opened:] if tags.think_open and opened >= 0 else plain.opening, closing)


def _render(template: ChatTemplate) -> str:
    answer = {"role": "assistant", "content": _ANSWER}
    messages = [
        {"role": "user", "content": "probe"},
        {**answer, "reasoning_content": _THOUGHT, "reasoning": _THOUGHT, "thinking": _THOUGHT},
    ]
    try:
        return template.render(
            {
                "messages": messages,
                "tools": None,
                "documents": None,
                "add_generation_prompt": False,
                "enable_thinking": True,
                "thinking": True,
            }
        )
    except InvalidRequest:
        return ""


def marked(turns: Sequence[Turn]) -> list[Turn]:
    """The turns with a mark before the text of every answer that has a thought."""
    return [
        msgspec.structs.replace(turn, texts=(_MARK.format(place), *turn.texts)) if _thinks(turn) else turn
        for place, turn in enumerate(turns)
    ]


def restored(text: str, turns: Sequence[Turn], form: ThoughtForm) -> str:
    """`text`, rendered from marked turns, with every mark replaced by the thought that belongs there; by nothing where
    the template has written it itself."""
    pieces: list[str] = []
    for place, turn in enumerate(turns):
        if not _thinks(turn):
            continue
        before, found, text_after = text.partition(_MARK.format(place))
        if not found:
            continue
        pieces.append(before)
        shown = turn.reasoning.strip() in before and before.rstrip().endswith(form.closing.strip())
        if not shown:
            pieces.append(form.around(turn.reasoning))
        text = text_after
    return "".join([*pieces, text])


def _thinks(turn: Turn) -> bool:
    return turn.role == "assistant" and turn.reasoning != ""
