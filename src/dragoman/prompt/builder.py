"""core.Input to core.Prompt: renders, tokenises, and tells what an engine and the output station need to know of it.

No input or output happens here; the service calls it in a worker thread.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from dragoman.core.errors import InvalidRequest, TokenOutOfRange
from dragoman.core.messages import ToolCallPart
from dragoman.core.prompt import Prompt, ReplyFormat
from dragoman.core.request import ChatInput, InfillInput, Input, RawInput
from dragoman.core.vocabulary import Tokenizer
from dragoman.prompt.boundary import shared_length, shared_tokens
from dragoman.prompt.caps import TemplateCaps, probe_caps
from dragoman.prompt.continuation import open_turn, render_open
from dragoman.prompt.controls import thinking_of, unsaid
from dragoman.prompt.efforts import probe_efforts
from dragoman.prompt.go.chat import render_go
from dragoman.prompt.infill import infill_ids
from dragoman.prompt.onward import joined_ids, onward_text
from dragoman.prompt.render import ChatRenderer, tool_dicts
from dragoman.prompt.reply_format import detect_reply_format
from dragoman.prompt.template import ChatTemplate, TemplateSource
from dragoman.prompt.thinking import ends_thinking, ends_with_opener
from dragoman.prompt.thoughts import probe_thoughts
from dragoman.prompt.turns import Turn

_NEXT_TURNS = (Turn(role="assistant", texts=("Yes.",)), Turn(role="user", texts=("Go on.",)))


class PromptBuilder:
    """Builds prompts for one model. Immutable after construction, safe from any thread.

    `template_source` '' stands for ChatML. `tool_family` names the markup of calls where the template is not to be
    asked for it. Raises EngineFailure for a template that does not compile.
    """

    def __init__(self, tokenizer: Tokenizer, template_source: TemplateSource, *, tool_family: str = "") -> None:
        self._tokenizer = tokenizer
        self._template = ChatTemplate(template_source, bos_token=tokenizer.bos_token, eos_token=tokenizer.eos_token)
        self._caps = probe_caps(self._template)
        detected = detect_reply_format(self._template.source, tokenizer, tool_family)
        self._thoughts = probe_thoughts(self._template, detected)
        self._efforts = probe_efforts(self._template)
        self._renderer = ChatRenderer(
            self._template,
            self._caps,
            native_tools=bool(detected.tool_family),
            thoughts=self._thoughts,
            efforts=self._efforts,
        )
        spoken = detected.tool_family if self._renderer.native_tools else tool_family or "hermes"
        self._reply_format = msgspec.structs.replace(detected, tool_family=spoken)
        self._bos = _added_bos(tokenizer)

    @property
    def reply_format(self) -> ReplyFormat:
        """How answers are marked up. Where tools are described in our own words, that is the `hermes` family."""
        return self._reply_format

    @property
    def template_source(self) -> str:
        """The template's Jinja text; of several named ones, all."""
        return self._template.source

    @property
    def template_caps(self) -> TemplateCaps:
        """What the template can render."""
        return self._caps

    @property
    def thought_end(self) -> tuple[int, ...]:
        """The ids that close a thought and begin the answer; empty for a model that does not think."""
        closing = self._thoughts.closing
        return tuple(self._tokenizer.encode(closing, add_special=False, parse_special=True)) if closing else ()

    @property
    def native_tools(self) -> bool:
        """Whether tools go through the template, rather than being described in our own words."""
        return self._renderer.native_tools

    def render(self, chat: ChatInput) -> str:
        """The prompt text. Raises InvalidRequest when the conversation cannot be rendered."""
        return self._text(chat, self._renderer.read(chat))

    def build(self, input: Input) -> Prompt:
        """The prompt. Raises InvalidRequest when the conversation cannot be rendered, TokenOutOfRange for ids outside
        the vocabulary."""
        match input:
            case RawInput():
                return self._raw(input)
            case InfillInput():
                prompt = list(self._raw(msgspec.structs.replace(input.prompt, add_special=False)).ids)
                return Prompt(ids=tuple(infill_ids(self._tokenizer, input, prompt, self._bos)), text="")
            case ChatInput():
                return self._onward(input) if input.context or input.template else self._chat(input)

    def _text(self, chat: ChatInput, turns: Sequence[Turn]) -> str:
        if chat.template:
            return render_go(chat, turns, tool_dicts(chat))
        if chat.continue_final:
            return render_open(
                turns, lambda some, primer: self._renderer.render(chat, some, add_generation_prompt=primer)
            )
        text = self._renderer.render(chat, turns, add_generation_prompt=chat.add_generation_prompt)
        unwanted = thinking_of(chat).mode == "off" and self._thinking_open(chat, turns, text)
        return self._without_thought(text) if unwanted else text

    def _without_thought(self, text: str) -> str:
        """The prompt with the thought closed that its template has opened though none is wanted."""
        opening, closing = self._thoughts.opening, self._thoughts.closing
        body = text.rstrip()
        return f"{body}{opening[len(opening.rstrip()) :]}{closing}"

    def _chat(self, chat: ChatInput) -> Prompt:
        turns = self._renderer.read(chat)
        prefill = open_turn(turns).text if chat.continue_final else ""
        text = self._text(chat, turns)
        ids = self._encode_rendered(text)
        return Prompt(
            ids=tuple(ids),
            text=text,
            thinking_open=self._thinking_open(chat, turns, text),
            prefill=prefill,
            stable_boundary=None if chat.continue_final else self._stable_boundary(chat, turns, text, ids),
            thinking=unsaid(thinking_of(chat), self._efforts),
        )

    def _onward(self, chat: ChatInput) -> Prompt:
        """A prompt that begins with ids, or is rendered by a template of the request's own."""
        context = self._checked(chat.context, "context")
        before = b"".join(map(self._tokenizer.token_bytes, context)).decode("utf-8", "replace")
        turns = self._renderer.read(chat)
        if chat.template:
            text = self._text(chat, turns)
        else:
            text = onward_text(lambda some: self._text(chat, some), turns, before)
        ids = (
            self._encode_rendered(text)
            if not context
            else self._tokenizer.encode(text, add_special=False, parse_special=True)
        )
        return Prompt(
            ids=tuple(joined_ids(self._tokenizer, context, ids)),
            text=before + text,
            thinking_open=ends_with_opener(text, self._reply_format.think_open),
            thinking=unsaid(thinking_of(chat), self._efforts),
        )

    def _encode_rendered(self, text: str) -> list[int]:
        """Ids of rendered text. The template usually writes BOS itself; it is never there twice, and EOS, which some
        vocabularies put after every text, is never there."""
        ids = self._tokenizer.encode(text, add_special=False, parse_special=True)
        return ids if not self._bos or ids[: len(self._bos)] == self._bos else [*self._bos, *ids]

    def _thinking_open(self, chat: ChatInput, turns: Sequence[Turn], text: str) -> bool:
        tags = self._reply_format
        if not tags.think_open or tags.think_open not in text:
            return False
        if not chat.continue_final:
            return chat.add_generation_prompt and ends_with_opener(text, tags.think_open)
        try:
            before = self._renderer.render(chat, turns[:-1], add_generation_prompt=False)
        except InvalidRequest:
            before = ""
        shared = shared_length(before, text)
        return ends_thinking(text[shared:], tags.think_open, tags.think_close)

    def _stable_boundary(self, chat: ChatInput, turns: Sequence[Turn], text: str, ids: Sequence[int]) -> int | None:
        """What every way the conversation may go on has in common with the prompt: templates rewrite other parts of it
        behind an answer than behind the result of a call."""
        shortest: int | None = None
        for next_turns in (_NEXT_TURNS, self._tool_turns(chat)):
            if not next_turns:
                continue
            try:
                longer = self._renderer.render(chat, [*turns, *next_turns], add_generation_prompt=True)
            except InvalidRequest:
                continue
            shared = shared_tokens(ids, text, longer, self._tokenizer)
            if shared is None:
                return None
            shortest = shared if shortest is None else min(shortest, shared)
        return shortest

    def _tool_turns(self, chat: ChatInput) -> tuple[Turn, ...]:
        """A call of the first tool, and its result; none where no tool may be called."""
        if not chat.tools or chat.tool_choice.mode == "none":
            return ()
        ident = "functions.next:0" if self._caps.named_call_ids else "next00000"
        call = ToolCallPart(ident, chat.tools[0].name, "{}")
        result = Turn(role="tool", texts=("Done.",), call_id=ident, name=call.name)
        return (Turn(role="assistant", calls=(call,)), result)

    def _raw(self, raw: RawInput) -> Prompt:
        ids: list[int] = []
        for index, piece in enumerate(raw.pieces):
            if isinstance(piece, str):
                ids += self._encode_piece(piece, raw, first=index == 0)
            else:
                ids += self._checked(piece, "prompt")
        plain = [piece for piece in raw.pieces if isinstance(piece, str)]
        return Prompt(ids=tuple(ids), text="".join(plain) if len(plain) == len(raw.pieces) else "")

    def _encode_piece(self, text: str, raw: RawInput, *, first: bool) -> list[int]:
        ids = self._tokenizer.encode(text, add_special=first and raw.add_special, parse_special=raw.parse_special)
        width = len(self._bos)
        doubled = width and ids[:width] == self._bos and ids[width : 2 * width] == self._bos
        return ids[width:] if doubled else ids

    def _checked(self, ids: tuple[int, ...], field: str) -> tuple[int, ...]:
        size = self._tokenizer.size
        for token in ids:
            if not 0 <= token < size:
                raise TokenOutOfRange(token, size, field=field)
        return ids


def _added_bos(tokenizer: Tokenizer) -> list[int]:
    """The BOS id the vocabulary adds by itself, as a list; empty when it adds none."""
    around = tokenizer.encode("", add_special=True, parse_special=True)
    spelled = tokenizer.bos_token.encode()
    return around[:1] if around and spelled and tokenizer.token_bytes(around[0]) == spelled else []
