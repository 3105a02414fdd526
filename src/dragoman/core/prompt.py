"""A prompt ready for an engine: the product of the prompt station."""

from __future__ import annotations

from msgspec import Struct

from dragoman.core.request import Thinking


class Prompt(Struct, frozen=True, kw_only=True):
    """`ids` are what the engine sees; `text` what was tokenised ('' for token input).

    `thinking_open` tells that the prompt ends inside an open thinking block. `prefill` is the assistant text the
    client asked to have continued. `stable_boundary` is the number of leading ids the next turn will still share.
    `thinking` is what the prompt could not say and the answer must be held to: its `budget`, or an `effort` the
    template does not read.
    """

    ids: tuple[int, ...]
    text: str = ""
    thinking_open: bool = False
    prefill: str = ""
    stable_boundary: int | None = None
    thinking: Thinking = Thinking()


class ReplyFormat(Struct, frozen=True, kw_only=True):
    """How answers of this model are marked up; read off its chat template and vocabulary.

    `think_open`/`think_close` are the thinking tags ('' when the model does not think); `tool_family` names the
    table in `output/families` ('' when calls are not recognised).
    """

    think_open: str = ""
    think_close: str = ""
    tool_family: str = ""
