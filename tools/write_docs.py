"""Writes docs/cli.md from the command line's own definitions, and docs/llama-server.md from the manifest, so that the
pages cannot fall behind."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import itertools
import textwrap
import typing
from pathlib import Path

from dragoman import config
from tools.compat.page import page as llama_server_page

PAGE = Path(__file__).parents[1] / "docs" / "cli.md"
HEAD = """# Flags

Written by `make docs` from `config.py`; a test compares. Each flag can also be set as an environment variable or in a
`dragoman.toml` in the working folder (`port = 9000`). Flags win over the environment, the environment over the file.

`dragoman serve [MODEL]`, `dragoman run [MODEL] [PROMPT]` and `dragoman doctor [MODEL]` take all of them;
`dragoman pull NAME` and `dragoman ls` take `--state-dir`. `dragoman llama-server ARGS…` takes llama-server's own flags
instead; see [llama-server.md](llama-server.md).

`dragoman agent [OPTIONS] NAME [ARGS…]` starts the coding agent NAME (`claude`, `codex`, `pi`, `opencode`) against a
server that runs. ARGS are the agent's own words; OPTIONS stand before NAME:

| option | environment | meaning |
|---|---|---|
| `--url` | `DRAGOMAN_URL` | address of the server; without it `--host` and `--port`, as given to `dragoman serve` |
| `--api-key` | `DRAGOMAN_API_KEY` | key the server wants |
| `--model` | `DRAGOMAN_MODEL` | model to use; without it the first one served |
| `--print` | | show variables, files and command, and start nothing |
"""
GROUPS = (
    ("General", config.Settings),
    ("Listening", config.ListenSettings),
    ("Engine", config.EngineSettings),
    ("Answers", config.AnswerSettings),
    ("Sampling", config.SamplingSettings),
    ("Log", config.LogSettings),
)


def page() -> str:
    """The whole page."""
    parts = [HEAD]
    for title, kind in GROUPS:
        rows = [_row(kind, field) for field in dataclasses.fields(kind) if _is_flag(kind, field.name)]
        parts.append(f"\n## {title}\n\n| flag | environment | default | meaning |\n|---|---|---|---|\n" + "".join(rows))
    return "".join(parts)


def _row(kind: type, field: dataclasses.Field) -> str:
    flag = _flag(kind, field.name)
    variable = "DRAGOMAN_" + flag.removeprefix("--").upper().replace("-", "_")
    meaning = _docstrings(kind)[field.name].replace("|", "\\|")
    return f"| `{flag}` | `{variable}` | {_default(field)} | {meaning} |\n"


def _flag(kind: type, name: str) -> str:
    for note in _notes(kind, name):
        named = getattr(note, "name", None)
        if named:
            return named[0] if isinstance(named, tuple) else named
    return "--" + name.replace("_", "-")


def _is_flag(kind: type, name: str) -> bool:
    notes = _notes(kind, name)
    return not any(
        getattr(note, "parse", None) is False or "*" in (getattr(note, "name", None) or ()) for note in notes
    )


def _notes(kind: type, name: str) -> tuple:
    return getattr(typing.get_type_hints(kind, include_extras=True)[name], "__metadata__", ())


def _default(field: dataclasses.Field) -> str:
    value = field.default
    return "" if value in (None, (), dataclasses.MISSING) else f"`{str(value).lower() if value is False else value}`"


def _docstrings(kind: type) -> dict[str, str]:
    """The string literal after each field, which is where its meaning stands."""
    body = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0].body
    found = {}
    for node, after in itertools.pairwise(body):
        if isinstance(node, ast.AnnAssign) and isinstance(after, ast.Expr):
            found[node.target.id] = after.value.value
    return found


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    PAGE.with_name("llama-server.md").write_text(llama_server_page(), encoding="utf-8")
