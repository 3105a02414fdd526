"""Size budgets of the source: small files, small functions, no module state."""

from __future__ import annotations

import ast
import statistics
from collections.abc import Iterator
from pathlib import Path

import pytest

SRC = Path(__file__).parents[2] / "src" / "dragoman"
FILES = sorted(SRC.rglob("*.py"))
MAX_FILE, MAX_FUNCTION, MEDIAN_FUNCTION = 500, 60, 12
VAGUE = {"utils", "util", "helpers", "helper", "common", "misc", "manager", "shared"}


def functions(path: Path) -> Iterator[tuple[str, int]]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            yield f"{path.relative_to(SRC)}:{node.name}", node.end_lineno - node.lineno + 1


def test_there_is_source() -> None:
    assert len(FILES) > 50


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SRC)))
def test_file_budget(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= MAX_FILE
    assert path.stem not in VAGUE
    assert not [node.lineno for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Global)], "module state"
    assert [name for name, length in functions(path) if length > MAX_FUNCTION] == []


def test_median_function_is_small() -> None:
    lengths = [length for path in FILES for _, length in functions(path)]
    assert statistics.median(lengths) < MEDIAN_FUNCTION
