"""Whether a prompt ends inside an open thinking block. Knows no template."""

from __future__ import annotations


def ends_thinking(tail: str, think_open: str, think_close: str) -> bool:
    """Whether `tail`, the part of a prompt that belongs to the answer to come, leaves a thinking block open. Text
    before it (a user's `<think>`) must not be part of it."""
    if not think_open:
        return False
    opened = tail.rfind(think_open)
    return opened >= 0 and think_close not in tail[opened:]


def ends_with_opener(prompt: str, think_open: str) -> bool:
    """Whether nothing but white space follows an opening tag at the end of the prompt."""
    return bool(think_open) and prompt.rstrip().endswith(think_open)
