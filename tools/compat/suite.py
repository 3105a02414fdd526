"""The names of the suite's tests, read off its files without running any."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path


def test_names(root: Path) -> frozenset[str]:
    """Node ids without parameters, from the files of `root`/tests: path::name and path::Class::name."""
    return frozenset(name for path in sorted((root / "tests").rglob("test_*.py")) for name in _names(path, root))


def base_of(node: str) -> str:
    """A node id without its parameters."""
    return node.partition("[")[0]


def _names(path: Path, root: Path) -> Iterator[str]:
    where = path.relative_to(root).as_posix()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test"):
            yield f"{where}::{node.name}"
        elif isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            for inner in node.body:
                if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef) and inner.name.startswith("test"):
                    yield f"{where}::{node.name}::{inner.name}"
