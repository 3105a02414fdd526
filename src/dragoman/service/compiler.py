"""The contract of the grammar station as the service uses it: constraints in, one grammar text out."""

from __future__ import annotations

from typing import Protocol

from dragoman.core.constraint import Constraint
from dragoman.core.request import OutputFormat


class GrammarCompiler(Protocol):
    """Called in worker threads, from several at once. Compiled texts are cached, time and size are limited."""

    def compile(self, constraint: Constraint) -> str:
        """The grammar of the whole answer, in llguidance's text form. Raises InvalidRequest and its kin, `field` naming
        the wire path of what cannot be compiled."""
        ...

    def accepts(self, format: OutputFormat, text: str) -> bool:
        """Whether `text` is of this form. True where the format itself cannot be compiled."""
        ...
