"""What binds the form of one answer, as it goes from the service to the grammar compiler. Compiles nothing."""

from __future__ import annotations

from msgspec import Struct

from dragoman.core.prompt import ReplyFormat
from dragoman.core.request import OutputFormat
from dragoman.core.tools import Tool, ToolChoice


class Constraint(Struct, frozen=True, kw_only=True):
    """`format` binds the text, `choice` the calls, `strict` tools their arguments; `tools` are those that may be
    called, in the markup of `reply`.

    Thoughts come first and are free: with `thinking_open` the prompt ends inside one, with `may_think` the model may
    open one itself. `parallel` False allows one call at most.
    """

    format: OutputFormat | None = None
    tools: tuple[Tool, ...] = ()
    choice: ToolChoice = ToolChoice()
    parallel: bool = True
    reply: ReplyFormat = ReplyFormat()
    thinking_open: bool = False
    may_think: bool = False

    @property
    def binding(self) -> bool:
        """Whether there is anything to compile; free text with free calls needs no grammar."""
        if self.format is not None:
            return True
        return bool(self.tools) and (self.choice.forces or any(tool.strict or tool.text_grammar for tool in self.tools))
