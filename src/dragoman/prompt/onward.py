"""The prompt of a conversation that goes on from token ids: those of an earlier prompt and its answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dragoman.core.vocabulary import Tokenizer
from dragoman.prompt.turns import Turn, is_system

_ASKED = "Hello."
_ANSWERED = "onward9answer"
_EXCHANGE = (Turn(role="user", texts=(_ASKED,)), Turn(role="assistant", texts=(_ANSWERED,)))

Render = Callable[[Sequence[Turn]], str]


def onward_text(render: Render, turns: Sequence[Turn], before: str) -> str:
    """What follows an answer when `turns` come next, from the mark that ends it on. `before` is the text of the ids; an
    instruction that is in it already is not said twice."""
    if turns and is_system(turns[0]) and turns[0].text in before:
        turns = turns[1:]
    text = render([*_EXCHANGE, *turns])
    _, found, behind = text.rpartition(_ANSWERED)
    return behind if found else render(turns)


def joined_ids(tokenizer: Tokenizer, context: Sequence[int], behind: Sequence[int]) -> list[int]:
    """All ids. The context of an answer that came to its end has the end mark already, and one that was cut has not;
    what follows begins with it."""
    ends = tokenizer.stop_tokens
    if context and behind and context[-1] in ends and behind[0] in ends:
        behind = behind[1:]
    return [*context, *behind]
