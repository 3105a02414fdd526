"""core.ChatInput to prompt text, by a model's chat template. Knows no token id."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from dragoman.core.errors import InvalidRequest
from dragoman.core.messages import ToolCallPart
from dragoman.core.request import ChatInput
from dragoman.core.tools import Tool
from dragoman.prompt.arguments import decoded_arguments, wrapped_arguments
from dragoman.prompt.canonical import canonical_schema, with_call_ids
from dragoman.prompt.caps import TemplateCaps
from dragoman.prompt.controls import keeps_thoughts, template_variables, thinking_of
from dragoman.prompt.efforts import EffortScale, probe_efforts
from dragoman.prompt.generic_tools import Decode, as_text, instructions, with_instructions
from dragoman.prompt.template import ChatTemplate
from dragoman.prompt.thoughts import ThoughtForm, marked, restored
from dragoman.prompt.turns import (
    Turn,
    fold_user_into_tool,
    late_system_as,
    merge_leading_system,
    merge_same_role,
    read_turns,
    system_into_user,
)

_RESERVED = frozenset(
    {
        "messages",
        "tools",
        "documents",
        "add_generation_prompt",
        "bos_token",
        "eos_token",
        "raise_exception",
        "strftime_now",
        "namespace",
        "dict",
        "range",
    }
)
_NO_PARAMETERS: dict[str, Any] = {"type": "object", "properties": {}}


class ChatRenderer:
    """Renders conversations with one template. Immutable, safe from any thread.

    `native_tools` False describes tools, calls and results in our own words even where the template has some for
    them, because their form could not be read back from an answer. `thoughts` is the form in which thoughts are put
    back that the template leaves out of earlier turns, where a request wants them kept.
    """

    def __init__(
        self,
        template: ChatTemplate,
        caps: TemplateCaps,
        *,
        native_tools: bool,
        thoughts: ThoughtForm = ThoughtForm(),  # noqa: B008 (immutable)
        efforts: EffortScale | None = None,
    ) -> None:
        self._template = template
        self._caps = caps
        self._thoughts = thoughts
        self._efforts = probe_efforts(template) if efforts is None else efforts
        self._native = native_tools and caps.tools and caps.tool_calls and caps.tool_results

    @property
    def native_tools(self) -> bool:
        """Whether tools go through the template."""
        return self._native

    def render(self, chat: ChatInput, turns: Sequence[Turn], *, add_generation_prompt: bool) -> str:
        """The prompt text of already read turns. Raises InvalidRequest when the template fails on them."""
        tools = tool_dicts(chat)
        try:
            return self._render(chat, turns, tools, decoded_arguments, add_generation_prompt)
        except InvalidRequest:
            if not _has_raw_arguments(turns):
                raise
            return self._render(chat, turns, tools, wrapped_arguments, add_generation_prompt)

    def read(self, chat: ChatInput) -> list[Turn]:
        """The turns of a conversation. Raises InvalidField for media."""
        turns = merge_leading_system(read_turns(chat.messages), developer=self._caps.developer_role)
        return with_call_ids(turns, named=self._caps.named_call_ids)

    def _render(
        self, chat: ChatInput, turns: Sequence[Turn], tools: list[dict[str, Any]], decode: Decode, primer: bool
    ) -> str:
        fitted = self._fit(self._with_tools(chat, turns, tools, decode))
        restores = self._restores(chat)
        variables: dict[str, Any] = {
            **template_variables(thinking_of(chat), self._template.variables, self._efforts),
            **self._own_words(chat),
            "messages": [self._message(turn, decode) for turn in (marked(fitted) if restores else fitted)],
            "tools": tools if tools and self._native else None,
            "documents": None,
            "add_generation_prompt": primer,
        }
        text = self._template.render(variables)
        return restored(text, fitted, self._thoughts) if restores else text

    def _own_words(self, chat: ChatInput) -> dict[str, Any]:
        """Template variables the request names itself."""
        return {name: value for name, value in chat.template_kwargs.items() if name not in _RESERVED}

    def _restores(self, chat: ChatInput) -> bool:
        """Whether thoughts are to be kept that the template has no switch for."""
        if not self._thoughts.closing or keeps_thoughts(self._template.variables):
            return False
        return thinking_of(chat).preserve is True

    def _with_tools(
        self, chat: ChatInput, turns: Sequence[Turn], tools: list[dict[str, Any]], decode: Decode
    ) -> list[Turn]:
        if self._native:
            return list(turns)
        written = as_text(turns, decode)
        if not tools:
            return written
        return with_instructions(written, instructions(tools, chat.tool_choice, parallel=chat.parallel_tool_calls))

    def _fit(self, turns: Sequence[Turn]) -> list[Turn]:
        """Turns in the shape this template takes. Which shape depends on the template alone, never on the rest of the
        conversation, so that the next turn's prompt begins like this one's."""
        caps = self._caps
        fitted = late_system_as(turns, self._late_role())
        if not caps.system_role and not (caps.developer_role and fitted and fitted[0].role == "developer"):
            fitted = system_into_user(fitted)
        if not caps.user_after_tool:
            fitted = fold_user_into_tool(fitted)
        return fitted if caps.consecutive_users else merge_same_role(fitted)

    def _late_role(self) -> Literal["system", "user"]:
        return "system" if self._caps.late_system else "user"

    def _message(self, turn: Turn, decode: Decode) -> dict[str, Any]:
        if self._caps.thinking_key and turn.calls and turn.reasoning and turn.text:
            # Such templates take one or the other beside calls: both are thought before the call.
            turn = msgspec.structs.replace(turn, reasoning=f"{turn.reasoning}\n\n{turn.text}", texts=())
        message: dict[str, Any] = {"role": turn.role, "content": self._content(turn)}
        if turn.name is not None:
            message["name"] = turn.name
        if turn.role == "tool":
            message["tool_call_id"] = turn.call_id
        if turn.reasoning:
            message["reasoning_content"] = message["reasoning"] = turn.reasoning
            if self._caps.thinking_key:
                message["thinking"] = turn.reasoning
        if turn.calls:
            message["tool_calls"] = [self._call(call, decode) for call in turn.calls]
        return message

    def _content(self, turn: Turn) -> Any:
        if turn.calls and not turn.text and self._caps.null_call_content:
            return None
        if self._caps.string_content:
            return turn.text
        return [{"type": "text", "text": text} for text in turn.texts or ("",)]

    def _call(self, call: ToolCallPart, decode: Decode) -> dict[str, Any]:
        arguments = decode(call) if self._caps.object_arguments else call.arguments
        return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def tool_dicts(chat: ChatInput) -> list[dict[str, Any]]:
    """The tools a template is given; none where none may be called."""
    return [] if chat.tool_choice.mode == "none" else [_tool_dict(tool) for tool in chat.tools]


def _tool_dict(tool: Tool) -> dict[str, Any]:
    """A tool as the OpenAI API writes it; templates iterate the parameters, so they are always there."""
    function: dict[str, Any] = {"name": tool.name}
    if tool.description is not None:
        function["description"] = tool.description
    function["parameters"] = canonical_schema(tool.parameters) if tool.parameters else _NO_PARAMETERS
    return {"type": "function", "function": function}


def _has_raw_arguments(turns: Sequence[Turn]) -> bool:
    return any(isinstance(decoded_arguments(call), str) for turn in turns for call in turn.calls)
