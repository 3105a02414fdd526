"""What is wrong with a Go template."""

from __future__ import annotations

from dragoman.core.errors import InvalidField


class GoTemplateFault(InvalidField):
    """The template cannot be parsed or fails on the conversation."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"The template cannot be used: {problem}.", field="template")
