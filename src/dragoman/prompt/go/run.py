"""Runs a parsed Go template over plain values. Knows no message.

A template comes with a request: it is bounded in steps and in what it writes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, cast

from dragoman.prompt.go.fault import GoTemplateFault
from dragoman.prompt.go.functions import call, shown, truth
from dragoman.prompt.go.nodes import (
    Branch,
    Call,
    Dot,
    Field,
    Leave,
    Literal,
    Node,
    Operand,
    Pipeline,
    Show,
    Text,
    Variable,
)

_MOST_STEPS = 1_000_000
_LONGEST = 64 * 1024 * 1024
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class _Left(Exception):
    """`break` or `continue`."""

    def __init__(self, word: str) -> None:
        super().__init__(word)
        self.word = word


class _Cut(Exception):
    """The field was used behind which nothing is written."""


class Run:
    """One run of a template. `cut` names the field of the root behind whose first use nothing more is written."""

    def __init__(self, root: dict[str, Any], cut: str = "") -> None:
        self._scopes: list[dict[str, Any]] = [{"$": root}]
        self._root = root
        self._cut = cut
        self._seen = False
        self._written: list[str] = []
        self._length = 0
        self._steps = 0

    def text(self, nodes: tuple[Node, ...]) -> str:
        """What the template writes. Raises GoTemplateFault."""
        try:
            self._block(nodes, self._root)
        except _Cut:
            pass
        except RecursionError:
            raise GoTemplateFault("it is nested too deeply") from None
        return "".join(self._written)

    def _block(self, nodes: tuple[Node, ...], dot: Any) -> None:
        self._scopes.append({})
        try:
            for node in nodes:
                self._step()
                self._node(node, dot)
                if self._seen:
                    raise _Cut
        finally:
            self._scopes.pop()

    def _node(self, node: Node, dot: Any) -> None:
        match node:
            case Text():
                self._write(node.text)
            case Show():
                value = self._value(node.pipeline, dot)
                if not node.pipeline.declares:
                    self._write(shown(value))
            case Branch():
                self._scopes.append({})
                try:
                    self._branch(node, dot)
                finally:
                    self._scopes.pop()
            case Leave():
                raise _Left(node.word)

    def _branch(self, node: Branch, dot: Any) -> None:
        if node.word == "range":
            self._range(node, dot)
            return
        value = self._value(node.pipeline, dot)
        if self._seen:
            raise _Cut
        if truth(value):
            self._block(node.body, value if node.word == "with" else dot)
        else:
            self._block(node.otherwise, dot)

    def _range(self, node: Branch, dot: Any) -> None:
        value = self._value(Pipeline(node.pipeline.commands), dot)
        pairs = list(_pairs(value))
        if not pairs:
            self._block(node.otherwise, dot)
        for key, item in pairs:
            names = node.pipeline.declares
            told = (item,) if len(names) == 1 else (key, item)
            self._scopes[-1].update(zip(names, told, strict=False))
            try:
                self._block(node.body, item)
            except _Left as left:
                if left.word == "break":
                    return

    def _value(self, operand: Operand, dot: Any) -> Any:
        self._step()
        match operand:
            case Literal():
                return operand.value
            case Dot():
                return dot
            case Variable():
                return self._variable(operand.name)
            case Field():
                return self._field(operand, dot)
            case Call():
                return self._call(operand, dot)
            case Pipeline():
                return self._pipeline(operand, dot)

    def _pipeline(self, pipeline: Pipeline, dot: Any) -> Any:
        value = self._value(pipeline.commands[0], dot)
        for command in pipeline.commands[1:]:
            if isinstance(command, Call):
                value = self._call(command, dot, value)
        for name in pipeline.declares:
            self._scope_for(name, pipeline.assigns)[name] = value
        return value

    def _call(self, operand: Call, dot: Any, *piped: Any) -> Any:
        if operand.name in ("and", "or"):
            return self._shortcut(operand, dot, *piped)
        return call(operand.name, [*(self._value(one, dot) for one in operand.arguments), *piped])

    def _shortcut(self, operand: Call, dot: Any, *piped: Any) -> Any:
        """`and` and `or` look at no more arguments than they must."""
        values: list[Any] = []
        for one in operand.arguments:
            values.append(self._value(one, dot))
            if truth(values[-1]) == (operand.name == "or"):
                return values[-1]
        return call(operand.name, [*values, *piped])

    def _field(self, field: Field, dot: Any) -> Any:
        value = self._value(field.of, dot)
        if not isinstance(value, dict):
            if value is None:
                return None
            raise GoTemplateFault(f"'.{field.name}' of a value that has no fields")
        if value is self._root and field.name == self._cut:
            self._seen = True
        return _member(cast("dict[str, Any]", value), field.name)

    def _variable(self, name: str) -> Any:
        for scope in reversed(self._scopes):
            if name in scope:
                return scope[name]
        raise GoTemplateFault(f"there is no variable '{name}'")

    def _scope_for(self, name: str, assigns: bool) -> dict[str, Any]:
        if not assigns:
            return self._scopes[-1]
        for scope in reversed(self._scopes):
            if name in scope:
                return scope
        raise GoTemplateFault(f"there is no variable '{name}'")

    def _write(self, text: str) -> None:
        self._length += len(text)
        if self._length > _LONGEST:
            raise GoTemplateFault("it writes too much")
        self._written.append(text)

    def _step(self) -> None:
        self._steps += 1
        if self._steps > _MOST_STEPS:
            raise GoTemplateFault("it takes too long")


def _pairs(value: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, list):
        yield from enumerate(cast("list[Any]", value))
    elif isinstance(value, dict):
        yield from sorted(cast("dict[str, Any]", value).items())
    elif isinstance(value, int) and not isinstance(value, bool):
        if value > _MOST_STEPS:
            raise GoTemplateFault("it takes too long")
        yield from ((at, at) for at in range(value))
    elif value is not None:
        raise GoTemplateFault("'range' over a value that has no items")


def _member(value: dict[str, Any], name: str) -> Any:
    """A field by its Go name; the values are spelled as JSON has them: ToolCalls is tool_calls, AnyOf is anyOf."""
    for spelled in (name, _HUMP.sub("_", name).lower(), name[:1].lower() + name[1:]):
        if spelled in value:
            return value[spelled]
    return None
