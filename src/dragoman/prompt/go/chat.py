"""A conversation rendered by a Go template, with the variables Ollama's templates read. Knows no token id."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dragoman.core.errors import UnsupportedField
from dragoman.core.request import ChatInput
from dragoman.prompt.arguments import decoded_arguments
from dragoman.prompt.go.nodes import Dot, Field, Node, Pipeline, Show, fields_of
from dragoman.prompt.go.parse import parse
from dragoman.prompt.go.run import Run
from dragoman.prompt.turns import Turn, is_system, merge_same_role

_ANSWER = Show(Pipeline((Field(Dot(), "Response"),)))


def render_go(chat: ChatInput, turns: Sequence[Turn], tools: list[dict[str, Any]]) -> str:
    """The prompt text by `chat.template`. A template without `.Messages` is written once for each exchange, the last
    time up to the place of the answer. Raises GoTemplateFault, and UnsupportedField for tools without a place."""
    nodes = parse(chat.template)
    fields = fields_of(nodes)
    if tools and "tools" not in fields:
        raise UnsupportedField("The template of this request or model has no place for tools.", field="tools")
    merged = merge_same_role(turns)
    system = "\n\n".join(turn.text for turn in merged if is_system(turn))
    thinking = chat.thinking
    common: dict[str, Any] = {
        "Tools": tools,
        "Think": thinking.mode == "on",
        "ThinkLevel": thinking.effort or "",
        "IsThinkSet": thinking.mode != "auto",
        "Suffix": "",
    }
    if "messages" in fields:
        root = {**common, "System": system, "Messages": [_message(turn) for turn in merged], "Response": ""}
        return Run(root).text(nodes)
    if "response" not in fields:
        nodes = (*nodes, _ANSWER)
    return _exchanges(nodes, merged, common)


def _exchanges(nodes: tuple[Node, ...], turns: Sequence[Turn], common: dict[str, Any]) -> str:
    text = ""
    said = {"System": "", "Prompt": "", "Response": ""}
    for turn in turns:
        slot = "System" if is_system(turn) else "Response" if turn.role == "assistant" else "Prompt"
        later = {"System": ("Prompt", "Response"), "Prompt": ("Response",), "Response": ()}[slot]
        if any(said[one] for one in later):
            text += Run({**common, **said}).text(nodes)
            said = dict.fromkeys(said, "")
        said[slot] = f"{said[slot]}\n\n{turn.text}" if said[slot] else turn.text
    return text + Run({**common, **said}, cut="Response").text(nodes)


def _message(turn: Turn) -> dict[str, Any]:
    message: dict[str, Any] = {"role": turn.role, "content": turn.text}
    if turn.reasoning:
        message["thinking"] = turn.reasoning
    if turn.calls:
        message["tool_calls"] = [
            {"id": call.id, "function": {"index": at, "name": call.name, "arguments": decoded_arguments(call)}}
            for at, call in enumerate(turn.calls)
        ]
    if turn.role == "tool":
        message |= {"tool_name": turn.name or "", "tool_call_id": turn.call_id}
    return message
