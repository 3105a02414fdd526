"""Messages turns and system blocks -> core messages. Knows no template and no block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from dragoman.core.errors import InvalidField, MissingField
from dragoman.core.messages import Message, Part, Role, TextPart, ToolResultPart
from dragoman.dialects.anthropic.blocks import BlockReader
from dragoman.dialects.anthropic.schema import Block, MessageParam

_ROLES: dict[str, Role] = {"user": "user", "assistant": "assistant", "system": "system"}


class Conversation(Struct, frozen=True):
    """All turns with the system prompt in front, the paths of blocks that were left out, and the effort that a system
    message asks for in this turn."""

    messages: tuple[Message, ...]
    ignored: tuple[str, ...] = ()
    effort: str | None = None

    @property
    def continues(self) -> bool:
        """On this wire an answer continues a final assistant turn, provided that turn ends in text."""
        last = self.messages[-1]
        return last.role == "assistant" and bool(last.parts) and isinstance(last.parts[-1], TextPart)


def read_conversation(system: str | list[Block] | None, messages: Sequence[MessageParam]) -> Conversation:
    """System prompt, one part a block, and turns in order. Raises InvalidRequest naming the wire path of what is
    wrong."""
    if not messages:
        raise InvalidField("messages: at least one message is required.", field="messages")
    reader = BlockReader()
    head = tuple(reader.plain(system, "system"))
    turns = tuple(
        turn
        for index, message in enumerate(messages)
        if not _outlived(message, messages[index + 1 :])
        for turn in _turn(reader, message, f"messages[{index}]")
    )
    if not turns:
        raise InvalidField("messages: nothing in them is for the model that is served here.", field="messages")
    _check_end(turns[-1])
    leading = (Message("system", head),) if head else ()
    return Conversation((*leading, *turns), tuple(reader.ignored), _effort(messages))


def _outlived(message: MessageParam, later: Sequence[MessageParam]) -> bool:
    """Whether it was for one turn only and that is over."""
    return message.clear_at == "next_user_message" and any(turn.role == "user" for turn in later)


def _effort(messages: Sequence[MessageParam]) -> str | None:
    """Of the last system message behind the last question that says so."""
    for message in reversed(messages):
        if message.output_config is not None and message.output_config.effort is not None:
            return message.output_config.effort
        if message.role == "user" and not _only_results(message):
            return None
    return None


def _only_results(message: MessageParam) -> bool:
    content = message.content
    return isinstance(content, list) and bool(content) and all(block.type == "tool_result" for block in content)


def _turn(reader: BlockReader, message: MessageParam, at: str) -> Iterator[Message]:
    """The turn; tool results become messages of role tool, in their place among the other blocks."""
    role = _role(message, at)
    if message.content is None:
        if message.output_config is None:
            raise MissingField(f"The field '{at}.content' is required.", field=f"{at}.content")
        return
    pending: list[Part] = []
    for part in reader.turn(message.content, role, f"{at}.content"):
        if isinstance(part, ToolResultPart):
            if pending:
                yield Message(role, tuple(pending))
                pending = []
            yield Message("tool", (part,))
        else:
            pending.append(part)
    if pending or not message.content:
        yield Message(role, tuple(pending))


def _role(message: MessageParam, at: str) -> Role:
    role = _ROLES.get(message.role)
    if role is None:
        raise InvalidField(
            f"{at}.role: '{message.role}' is not one of {', '.join(_ROLES)}.",
            field=f"{at}.role",
            remedy="The top-level 'system' field takes the system prompt.",
        )
    for name, given in (("clear_at", message.clear_at), ("output_config", message.output_config)):
        if given is not None and role != "system":
            raise InvalidField(f"{at}.{name}: only a system message can have it.", field=f"{at}.{name}")
    return role


def _check_end(last: Message) -> None:
    """Anthropic's rule: what ends in white space cannot be continued, since tokens begin with it."""
    if last.role == "assistant" and last.parts and isinstance(last.parts[-1], TextPart):
        text = last.parts[-1].text
        if text != text.rstrip():
            raise InvalidField(
                "messages: final assistant content cannot end with trailing whitespace.",
                field="messages",
                remedy="Leave the white space out; the answer begins with it.",
            )
