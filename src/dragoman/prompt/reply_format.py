"""Reads off a template and a vocabulary how answers are marked up. Renders nothing."""

from __future__ import annotations

from dragoman.core.prompt import ReplyFormat
from dragoman.core.vocabulary import Tokenizer

_THINKING_TAGS = (
    ("<think>", "</think>"),
    ("<seed:think>", "</seed:think>"),
    ("[THINK]", "[/THINK]"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
)
_CALL_TAG = "<tool_call>"
_OTHER_CALL_FORMS = ("<function=", "<arg_key>", "<parameter=")


def detect_reply_format(template_source: str, tokenizer: Tokenizer) -> ReplyFormat:
    """Thinking tags where the template or the vocabulary names them. Tool family `hermes` where the template writes
    JSON between `<tool_call>` tags (not XML between the same tags, as Qwen3-Coder and GLM do), '' otherwise."""
    think_open, think_close = _thinking_tags(template_source, tokenizer)
    return ReplyFormat(think_open=think_open, think_close=think_close, tool_family=_tool_family(template_source))


def _thinking_tags(source: str, tokenizer: Tokenizer) -> tuple[str, str]:
    """The template's tags, else the vocabulary's. Templates may name only the closing one, to cut thoughts out."""
    for tags in _THINKING_TAGS:
        if tags[1] in source:
            return tags
    for tags in _THINKING_TAGS:
        if all(is_one_token(tag, tokenizer) for tag in tags):
            return tags
    return "", ""


def _tool_family(source: str) -> str:
    hermes = _CALL_TAG in source and not any(form in source for form in _OTHER_CALL_FORMS)
    return "hermes" if hermes else ""


def is_one_token(text: str, tokenizer: Tokenizer) -> bool:
    """Whether the vocabulary has the text as one token."""
    ids = tokenizer.encode(text, add_special=False, parse_special=True)
    return len(ids) == 1 and tokenizer.token_bytes(ids[0]) == text.encode()
