"""`dragoman llama-server ARGS…` as the words of `dragoman serve`, with a model that is fetched where that was meant."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from dragoman.app.server import say
from dragoman.catalog.fetch import fetch
from dragoman.catalog.find import find_model
from dragoman.catalog.store import Store
from dragoman.cli.llama_server.read import read
from dragoman.cli.llama_server.translate import Serving, translate


def serve_words(arguments: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """The arguments of the same server under `dragoman`. Raises DragomanError for what cannot be had here."""
    serving = translate(read(arguments, environ))
    if serving.fetch and serving.model is not None and find_model(serving.model, Store()) is None:
        fetch(serving.model, Store(), say)
    words = _words(serving)
    say(f"Serving as: dragoman {shlex.join(_without_keys(words))}")
    return words


def _words(serving: Serving) -> list[str]:
    return ["serve", *([serving.model] if serving.model is not None else []), *serving.flags]


def _without_keys(words: Sequence[str]) -> list[str]:
    return ["…" if before == "--api-key" else word for before, word in zip(["", *words], words, strict=False)]
