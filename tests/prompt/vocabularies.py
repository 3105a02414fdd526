"""Small synthetic vocabularies, and short ways to write conversations."""

from functools import lru_cache
from typing import Any

from dragoman.core.messages import Message, Part, Role, TextPart, ToolCallPart, ToolResultPart
from dragoman.core.request import ChatInput
from dragoman.core.tools import Tool
from dragoman.core.vocabulary import GgufVocabulary
from dragoman.prompt.builder import PromptBuilder
from dragoman.prompt.byte_level import CHARACTER_OF_BYTE
from dragoman.prompt.gguf import GgufTokenizer, gguf_tokenizer

CONTROL = ("<|begin_of_text|>", "<|im_start|>", "<|im_end|>", "<|eot_id|>", "<|start_header_id|>", "<|end_header_id|>")
USER_DEFINED = ("<think>", "</think>")
MERGES = ("h e", "l l", "he ll", "hell o", "Ġ w", "o r", "Ġw or", "l d", "Ġwor ld", "1 2", "12 3")
BOS, IM_END = 0, 2

LOOK = Tool(
    "look",
    "Looks at a place.",
    {"type": "object", "properties": {"place": {"type": "string"}, "n": {"type": "integer"}}, "required": ["place"]},
)


def byte_vocabulary(**changes: Any) -> GgufVocabulary:
    """Byte-level: a few control tokens, thinking tags, 256 bytes, and the words hello and world."""
    tokens = [*CONTROL, *USER_DEFINED, *CHARACTER_OF_BYTE.values(), *(merge.replace(" ", "") for merge in MERGES)]
    plain = len(tokens) - len(CONTROL) - len(USER_DEFINED)
    fields: dict[str, Any] = {
        "model": "gpt2",
        "pre": "gpt-2",
        "tokens": tokens,
        "types": [3] * len(CONTROL) + [4] * len(USER_DEFINED) + [1] * plain,
        "merges": list(MERGES),
        "scores": [],
        "bos_id": BOS,
        "eos_id": IM_END,
        "add_bos": False,
    }
    return GgufVocabulary(**{**fields, **changes})


@lru_cache
def tokenizer(**changes: Any) -> GgufTokenizer:
    return gguf_tokenizer(byte_vocabulary(**changes))


@lru_cache
def builder(template: str, **changes: Any) -> PromptBuilder:
    return PromptBuilder(tokenizer(**changes), template)


def decode(some: GgufTokenizer, ids: Any) -> str:
    return b"".join(some.token_bytes(token) for token in ids).decode()


def say(role: Role, *texts: str) -> Message:
    return Message(role, tuple(TextPart(text) for text in texts))


def call(arguments: str, *parts: Part, id: str = "call_1", name: str = "look") -> Message:
    return Message("assistant", (*parts, ToolCallPart(id, name, arguments)))


def result(text: str, *, id: str = "call_1", is_error: bool = False) -> Message:
    return Message("tool", (ToolResultPart(id, (TextPart(text),), is_error=is_error),))


def chat(*messages: Message, **fields: Any) -> ChatInput:
    return ChatInput(messages=messages, **fields)
