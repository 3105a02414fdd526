"""llama-server's `__verbose` object on OpenAI's wires: what an answer came to, in the keys of its native final object.

Reads no request. The settings in force are left out: they are those of the native wire, which is asked at /completion.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from dragoman.core.answer import Choice
from dragoman.core.events import Finished
from dragoman.core.finish import FinishReason
from dragoman.core.usage import Usage
from dragoman.dialects.openai_timings import timings_object

_STOP_TYPES = {
    FinishReason.EOS: "eos",
    FinishReason.TOOL_CALLS: "eos",
    FinishReason.STOP: "word",
    FinishReason.LENGTH: "limit",
    FinishReason.CONTEXT: "limit",
    FinishReason.NONE: "none",
}

_OURS = frozenset({"queued_ms", "lane"})


class Told(Struct):
    """What a stream has told of one choice so far."""

    prompt: str = ""
    newline: bool = False


def verbose_choice(choice: Choice, model: str) -> dict[str, Any]:
    """Of a whole answer."""
    text = choice.text_of("text")
    ended = Finished(choice.index, choice.finish, choice.usage, choice.timings, choice.slot, held=choice.held)
    return verbose_object(ended, model, Told(choice.prompt_text, "\n" in text), text)


def verbose_object(ended: Finished, model: str, told: Told, content: str = "") -> dict[str, Any]:
    """Of a choice that has just ended; in a stream its text has gone out already."""
    usage = ended.usage
    return {
        "index": ended.choice,
        "content": content,
        "tokens": [],
        "id_slot": ended.slot,
        "stop": True,
        "model": model,
        "tokens_predicted": usage.completion_tokens,
        "tokens_evaluated": usage.prompt_tokens,
        "prompt": told.prompt,
        "has_new_line": told.newline,
        "truncated": ended.held is not None or ended.finish.reason is FinishReason.CONTEXT,
        "stop_type": _STOP_TYPES[ended.finish.reason],
        "stopping_word": ended.finish.stop_match or "",
        "tokens_cached": ended.held if ended.held is not None else _cached(usage),
        "timings": _timings(ended),
    }


def _timings(ended: Finished) -> dict[str, Any]:
    """The times llama-server has, without what this server adds on its OpenAI wires."""
    times = msgspec.structs.asdict(timings_object(ended.usage, ended.timings))
    return {name: value for name, value in times.items() if name not in _OURS}


def _cached(usage: Usage) -> int:
    """The last token sampled is not yet in the slot."""
    return max(0, usage.prompt_tokens + usage.completion_tokens - 1)
