"""Reads off a template and a vocabulary how answers are marked up. Renders nothing."""

from __future__ import annotations

from msgspec import Struct

from dragoman.core.prompt import ReplyFormat
from dragoman.core.vocabulary import Tokenizer

_THINKING_TAGS = (
    ("<think>", "</think>"),
    ("<seed:think>", "</seed:think>"),
    ("[THINK]", "[/THINK]"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
)
_FAMILY_THINKING = {
    "harmony": ("<|channel|>analysis<|message|>", "<|end|>"),
    "gemma4": ("<|channel>thought", "<channel|>"),
}


class _Signs(Struct, frozen=True):
    """A template that has all of `has` and none of `lacks` is of this family. Earlier rows win."""

    family: str
    has: tuple[str, ...]
    lacks: tuple[str, ...] = ()


_SIGNS = (
    _Signs("harmony", ("<|channel|>", "<|message|>")),
    _Signs("minimax_m2", ("<minimax:tool_call>",)),
    _Signs("gemma4", ("<|tool_call>", "<tool_call|>")),
    _Signs("function_gemma", ("<start_function_call>",)),
    _Signs("deepseek_v32", ("<｜DSML｜",)),
    _Signs("deepseek_v3", ("<｜tool▁calls▁begin｜>", "```json")),
    _Signs("deepseek_v31", ("<｜tool▁calls▁begin｜>",)),
    _Signs("kimi_k2", ("<|tool_calls_section_begin|>",)),
    _Signs("command", ("<|START_ACTION|>",)),
    _Signs("seed_oss", ("<seed:tool_call>",)),
    _Signs("glm4", ("<arg_key>",)),
    _Signs("qwen3_coder", ("<function=", "<parameter=")),
    _Signs("minicpm5", ("<function name=", "<param name=")),
    _Signs("lfm2", ("<|tool_call_start|>",)),
    _Signs("lfm2", ("<|tool_list_start|>",)),
    _Signs("mistral", ("[TOOL_CALLS]", "[ARGS]")),
    _Signs("mistral_list", ("[TOOL_CALLS]",)),
    _Signs("nemotron", ("<TOOLCALL>",)),
    _Signs("phi4", ("<|tool_call|>", "<|/tool_call|>")),
    _Signs("phi4", ("functools",)),
    _Signs("granite", ("<|tool_call|>",)),
    _Signs("hermes", ("<tool_call>",), lacks=("<function=", "<parameter=")),
    _Signs("llama_pythonic", ("func_name1(",)),
    _Signs("llama3_json", ("<|python_tag|>",)),
    _Signs("llama3_json", ("ipython", '"parameters"')),
)


def detect_reply_format(template_source: str, tokenizer: Tokenizer, tool_family: str | None = None) -> ReplyFormat:
    """Thinking tags where the template or the vocabulary names them, and the tool family whose marks the template
    writes, '' where it writes none that is known. `tool_family` is what it is to be taken for instead; the name is not
    checked against the table, which the output station has."""
    family = tool_family or _tool_family(template_source, tokenizer)
    think_open, think_close = _FAMILY_THINKING.get(family) or _thinking_tags(template_source, tokenizer)
    return ReplyFormat(think_open=think_open, think_close=think_close, tool_family=family)


def _thinking_tags(source: str, tokenizer: Tokenizer) -> tuple[str, str]:
    """The template's tags, else the vocabulary's. Templates may name only the closing one, to cut thoughts out."""
    for tags in _THINKING_TAGS:
        if tags[1] in source:
            return tags
    for tags in _THINKING_TAGS:
        if all(is_one_token(tag, tokenizer) for tag in tags):
            return tags
    return "", ""


def _tool_family(source: str, tokenizer: Tokenizer) -> str:
    for signs in _SIGNS:
        if all(sign in source for sign in signs.has) and not any(sign in source for sign in signs.lacks):
            return signs.family
    # Some templates describe tools and leave the form of a call to the model, whose vocabulary has marks for it.
    marked = "tools" in source and is_one_token("<|tool_call_start|>", tokenizer)
    return "lfm2" if marked else ""


def is_one_token(text: str, tokenizer: Tokenizer) -> bool:
    """Whether the vocabulary has the text as one token."""
    ids = tokenizer.encode(text, add_special=False, parse_special=True)
    return len(ids) == 1 and tokenizer.token_bytes(ids[0]) == text.encode()
