"""A stand-in for the grammar station: notes what it is asked, refuses what it is told to."""

from __future__ import annotations

from dragoman.core.constraint import Constraint
from dragoman.core.errors import InvalidField
from dragoman.core.request import OutputFormat


class NotingCompiler:
    """`refused` are wire paths it cannot compile (of formats and tools); `accepted` its judgement of texts."""

    def __init__(self, *refused: str, accepted: bool = True) -> None:
        self.asked: list[Constraint] = []
        self.judged: list[tuple[OutputFormat, str]] = []
        self._refused = refused
        self._accepted = accepted

    def compile(self, constraint: Constraint) -> str:
        self.asked.append(constraint)
        places = [constraint.format.field] if constraint.format else []
        places += [tool.field for tool in constraint.tools if tool.parameters]
        for place in places:
            if place in self._refused:
                raise InvalidField("It cannot be compiled.", field=f"{place}.pattern")
        return "%llguidance {}\nstart: /.*/"

    def accepts(self, format: OutputFormat, text: str) -> bool:
        self.judged.append((format, text))
        return self._accepted
