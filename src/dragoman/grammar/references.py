"""Finds what a `$ref` means inside its own schema. Fetches nothing."""

from __future__ import annotations

from typing import Any, cast
from urllib.parse import unquote

from dragoman.grammar.refusal import SchemaPath, invalid_schema, unsupported_schema


class References:
    """Targets of one root schema: JSON pointers and anchors, also behind the schema's own `$id`."""

    def __init__(self, root: Any, field: str) -> None:
        self._root = root
        self._field = field
        base = cast("dict[str, Any]", root).get("$id") if isinstance(root, dict) else None
        self._base = base.partition("#")[0] if isinstance(base, str) else ""
        self._anchors: dict[str, SchemaPath] | None = None

    def target(self, reference: Any, at: SchemaPath) -> tuple[Any, SchemaPath]:
        """The schema and its place. Raises for one that is not in this document, or is not there at all."""
        if not isinstance(reference, str):
            raise invalid_schema("must be a text", at, self._field)
        base, _, fragment = reference.partition("#")
        if base and base != self._base:
            raise unsupported_schema(f"refers to another document ('{base}')", at, self._field)
        fragment = unquote(fragment)
        if fragment and not fragment.startswith("/"):
            path = self._anchor(fragment)
            if path is None:
                raise invalid_schema(f"refers to '{reference}', which is not there", at, self._field)
            return self._follow(path.steps, reference, at)
        steps = [step.replace("~1", "/").replace("~0", "~") for step in fragment.split("/")[1:]]
        return self._follow(tuple(steps), reference, at)

    def _follow(self, steps: tuple[str | int, ...], reference: str, at: SchemaPath) -> tuple[Any, SchemaPath]:
        value, path = self._root, SchemaPath()
        for step in steps:
            known: str | int | None = None
            if isinstance(value, dict) and step in value:
                known = step
            elif isinstance(value, list) and str(step).isdecimal() and int(step) < len(cast("list[Any]", value)):
                known = int(step)
            if known is None:
                raise invalid_schema(f"refers to '{reference}', which is not there", at, self._field)
            value, path = cast("Any", value)[known], path / known
        return value, path

    def _anchor(self, name: str) -> SchemaPath | None:
        if self._anchors is None:
            self._anchors = {}
            self._collect(self._root, SchemaPath(), self._anchors)
        return self._anchors.get(name)

    def _collect(self, value: Any, path: SchemaPath, found: dict[str, SchemaPath]) -> None:
        if isinstance(value, dict):
            entries = cast("dict[str, Any]", value)
            anchor = entries.get("$anchor")
            if isinstance(anchor, str):
                found.setdefault(anchor, path)
            for key, entry in entries.items():
                self._collect(entry, path / key, found)
        elif isinstance(value, list):
            for index, entry in enumerate(cast("list[Any]", value)):
                self._collect(entry, path / index, found)
