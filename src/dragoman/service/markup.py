"""How an answer's markup is read: as the model's format has it, with thoughts left in the text, or not at all. Knows no
stream and no engine."""

from __future__ import annotations

from dragoman.core.errors import UnsupportedField
from dragoman.core.prompt import ReplyFormat
from dragoman.core.request import ChatInput, Request
from dragoman.output.splitting import thoughts_in_text


def format_of(request: Request, format: ReplyFormat) -> ReplyFormat:
    """The format in which an answer to `request` is read by a model of `format`. Raises UnsupportedField where thoughts
    cannot be left in the text."""
    if not isinstance(request.input, ChatInput):
        return ReplyFormat()  # What goes to the model without a template comes back without interpretation.
    if not request.input.thinking.inline:
        return format
    inline = thoughts_in_text(format)
    if inline is None:
        raise UnsupportedField(
            "This model's thoughts are messages of their own and cannot be left in the text.",
            field="reasoning_format",
            remedy="Leave it out.",
        )
    return inline


def spelled_of(request: Request, format: ReplyFormat) -> tuple[str, ...]:
    """Texts of control tokens that an answer shows: what the request names, and the tags of thoughts in the text."""
    inline = isinstance(request.input, ChatInput) and request.input.thinking.inline
    tags = (format.think_open, format.think_close) if inline else ()
    return (*(request.spelled or ()), *filter(None, tags))
