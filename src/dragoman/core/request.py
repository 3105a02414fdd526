"""A generation request as every dialect reads it. Knows no wire, no template and no engine."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct, field

from dragoman.core.adapters import AdapterScale
from dragoman.core.edits import ContextEdit
from dragoman.core.messages import Message
from dragoman.core.sampling import SamplingSpec
from dragoman.core.tools import Tool, ToolChoice


class Thinking(Struct, frozen=True):
    """Whether the model shall think before it answers. `effort` is a word (none, minimal, low, …), `budget` the tokens
    a thought may have before it is closed; `preserve` keeps thoughts of earlier turns in the prompt, None leaves that
    to the template; `closable` lets the client end the thought while it goes on; `inline` leaves it in the text as the
    model wrote it, tags and all."""

    mode: Literal["auto", "on", "off"] = "auto"
    effort: str | None = None
    budget: int | None = None
    preserve: bool | None = None
    closable: bool = False
    inline: bool = False


class ChatInput(Struct, frozen=True, kw_only=True):
    """A conversation to be rendered by the model's chat template.

    `continue_final` leaves the last assistant turn open so that the model continues it. `template_kwargs` are
    passed to the template as they are. `context` are the token ids of an earlier prompt and its answer, which this
    conversation goes on from; `template` is Go template text that renders it in place of the model's own template.
    """

    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()
    tool_choice: ToolChoice = ToolChoice()
    parallel_tool_calls: bool = True
    thinking: Thinking = Thinking()
    add_generation_prompt: bool = True
    continue_final: bool = False
    template_kwargs: dict[str, Any] = field(default_factory=dict[str, Any])
    context: tuple[int, ...] = ()
    template: str = ""


class RawInput(Struct, frozen=True):
    """Text and token ids, in order, that go to the model without a template.

    Strings are tokenised with special tokens parsed; BOS is added where the vocabulary asks for it and the first
    piece is a string. Token ids are used as they are.
    """

    pieces: tuple[str | tuple[int, ...], ...]
    add_special: bool = True
    parse_special: bool = True


class InfillInput(Struct, frozen=True, kw_only=True):
    """Code with a gap, for a model that was trained to fill it: `prefix`, then `prompt` (the beginning of the middle),
    the gap, then `suffix`. `extra` are other files as (name, text). `batch` tokens are the room for prefix and suffix
    together, `spare` those for the extra files. `field` is the wire field that asks for the gap, where a model without
    markers is to refuse that rather than the whole route."""

    prefix: str
    suffix: str
    prompt: RawInput = RawInput(())
    extra: tuple[tuple[str, str], ...] = ()
    batch: int = 2048
    spare: int = 0
    field: str = ""


Input = ChatInput | RawInput | InfillInput


class GrammarTrigger(Struct, frozen=True):
    """What switches a lazy constraint on: a `word` that appears in the answer, a `pattern` (regex) found in it, a
    `pattern_full` that all of it matches, or a `token` id. The constraint governs the answer from the trigger on."""

    kind: Literal["word", "pattern", "pattern_full", "token"]
    value: str = ""
    token: int | None = None


class OutputFormat(Struct, frozen=True):
    """A constraint on the answer. `text` is the schema (JSON text), regex, Lark or GBNF source, a JSON list of strings
    for `choice`, empty for `json`.

    `field` is the wire path the text came from, for refusals. `strict` promises the client an answer of this form or an
    error, even where no engine could be held to it. `whitespace` False allows none between JSON tokens. With `triggers`
    the constraint is lazy: the answer is free until one of them appears.
    """

    kind: Literal["json", "json_schema", "regex", "lark", "gbnf", "choice"]
    text: str = ""
    field: str = "response_format"
    strict: bool = False
    whitespace: bool = True
    triggers: tuple[GrammarTrigger, ...] = ()


class CacheHints(Struct, frozen=True):
    """What the prefix cache may know: `session` groups the turns of one agent; `reuse` False forbids any hit."""

    session: str | None = None
    reuse: bool = True


class Request(Struct, frozen=True, kw_only=True):
    """One prompt and what is wanted of it.

    `max_tokens` None means the room left in the window. `logprobs` is the number of alternatives wanted beside the
    chosen token, None for no logprobs at all, over what the sampling stages left with `post_sampling`;
    `prompt_logprobs` the same for the tokens of the prompt. `n` answers come from one prompt, with seeds seed, seed+1,
    ….
    `unset` fields of `sampling` are filled by the service. `adapters` None means those the server was started with;
    `adapter_places` says the same by place in the list of mounted ones, and places that do not exist are left out.

    `biases` are added to `sampling.logit_bias`, in order: a text stands for each of its ids, and ids outside the
    vocabulary are left out. `spelled` are special tokens whose text belongs to the answer; where it is set, a lazy
    constraint's trigger word of a single token must be among them. `slot` asks for the engine's slot or row of that
    number, modulo how many there are. `indent` ends the answer at a line with fewer blanks in front, `line_ms` at the
    first line end so many milliseconds after its first token. Where an answer may outlast the window, the first `keep`
    tokens stay in it (-1: all of the prompt) and `discard` are dropped at once (0: half of the others). `edits` are
    made to a conversation, in order, before it is rendered.
    """

    input: Input
    model: str | None = None
    sampling: SamplingSpec = SamplingSpec()
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    n: int = 1
    format: OutputFormat | None = None
    logprobs: int | None = None
    post_sampling: bool = False
    prompt_logprobs: int | None = None
    progress: bool = False
    cache: CacheHints = CacheHints()
    adapters: tuple[AdapterScale, ...] | None = None
    adapter_places: tuple[tuple[int, float], ...] = ()
    biases: tuple[tuple[int | str, float], ...] = ()
    spelled: tuple[str, ...] | None = None
    slot: int | None = None
    indent: int = 0
    line_ms: int = 0
    keep: int = 0
    discard: int = 0
    edits: tuple[ContextEdit, ...] = ()
