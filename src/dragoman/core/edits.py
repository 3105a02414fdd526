"""What of a long conversation may be left out before it is answered. Knows no wire and no template."""

from __future__ import annotations

from msgspec import Struct


class ThinkingEdit(Struct, frozen=True, tag="thinking"):
    """Thoughts of earlier turns go, but those of the last `keep` turns of the assistant that have any. All that the
    assistant says and calls up to the next question is one turn."""

    keep: int


class ToolUseEdit(Struct, frozen=True, kw_only=True, tag="tool_uses"):
    """Results of earlier calls are replaced by a note, but those of the last `keep` calls and of the tools in
    `exclude`.

    It is done once the prompt has more than `over_tokens` tokens, or the conversation more than `over_uses` calls;
    exactly one of them is set. Where it would save fewer than `at_least` tokens nothing is done. `inputs` names the
    tools whose arguments go too, None stands for all of them.
    """

    keep: int = 3
    over_tokens: int | None = None
    over_uses: int | None = None
    at_least: int = 0
    exclude: tuple[str, ...] = ()
    inputs: tuple[str, ...] | None = ()


ContextEdit = ThinkingEdit | ToolUseEdit


class AppliedEdit(Struct, frozen=True):
    """An edit that changed something: how many turns lost their thoughts, or calls their results, and how many tokens
    that saved."""

    edit: ContextEdit
    cleared: int
    tokens: int
