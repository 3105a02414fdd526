"""A generation request as every dialect reads it. Knows no wire, no template and no engine."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct, field

from dragoman.core.messages import Message
from dragoman.core.sampling import SamplingSpec
from dragoman.core.tools import Tool, ToolChoice


class Thinking(Struct, frozen=True):
    """Whether the model shall think before it answers. `effort` is a word (none, minimal, low, …), `budget` tokens."""

    mode: Literal["auto", "on", "off"] = "auto"
    effort: str | None = None
    budget: int | None = None


class ChatInput(Struct, frozen=True, kw_only=True):
    """A conversation to be rendered by the model's chat template.

    `continue_final` leaves the last assistant turn open so that the model continues it. `template_kwargs` are
    passed to the template as they are.
    """

    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()
    tool_choice: ToolChoice = ToolChoice()
    parallel_tool_calls: bool = True
    thinking: Thinking = Thinking()
    add_generation_prompt: bool = True
    continue_final: bool = False
    template_kwargs: dict[str, Any] = field(default_factory=dict[str, Any])


class RawInput(Struct, frozen=True):
    """Text and token ids, in order, that go to the model without a template.

    Strings are tokenised with special tokens parsed; BOS is added where the vocabulary asks for it and the first
    piece is a string. Token ids are used as they are.
    """

    pieces: tuple[str | tuple[int, ...], ...]
    add_special: bool = True
    parse_special: bool = True


Input = ChatInput | RawInput


class OutputFormat(Struct, frozen=True):
    """A constraint on the answer. `text` is the schema (JSON text), regex, Lark or GBNF source; empty for `json`."""

    kind: Literal["json", "json_schema", "regex", "lark", "gbnf", "choice"]
    text: str = ""


class CacheHints(Struct, frozen=True):
    """What the prefix cache may know: `session` groups the turns of one agent; `reuse` False forbids any hit."""

    session: str | None = None
    reuse: bool = True


class Request(Struct, frozen=True, kw_only=True):
    """One prompt and what is wanted of it.

    `max_tokens` None means the room left in the window. `logprobs` is the number of alternatives wanted beside the
    chosen token, None for no logprobs at all; `prompt_logprobs` the same for the tokens of the prompt. `n` answers come
    from one prompt, with seeds seed, seed+1, ….
    `unset` fields of `sampling` are filled by the service.
    """

    input: Input
    model: str | None = None
    sampling: SamplingSpec = SamplingSpec()
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    n: int = 1
    format: OutputFormat | None = None
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    progress: bool = False
    cache: CacheHints = CacheHints()
