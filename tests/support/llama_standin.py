"""The bundled llama.cpp behind llama-server's command line: a binary as `--llama-server` wants one, where there is no
genuine one. `python llama_standin.py -m MODEL -c N -np N --host SOCKET …`."""

from __future__ import annotations

import os
import sys
import threading

import xllamacpp

from dragoman.backend.llamacpp.child import _set
from dragoman.backend.llamacpp.flags import Setting, settings_of


def main(arguments: list[str]) -> None:
    made = xllamacpp.CommonParams()
    made.cache_ram_mib = 0
    adapters = []
    rest: list[str] = []
    words = iter(arguments)
    for word in words:
        match word:
            case "-m":
                made.model.path = next(words)
            case "-c":
                made.n_ctx = int(next(words))
            case "-np":
                made.n_parallel = int(next(words))
            case "--host":
                made.hostnames = [next(words)]
            case "--port":
                made.port = int(next(words))
            case "--no-ui":
                made.ui = False
            case "--lora-scaled":
                path, _, scale = next(words).rpartition(":")
                adapters.append(xllamacpp.CommonAdapterLoraInfo(path, float(scale)))
            case _:
                rest.append(word)
    made.lora_adapters = adapters
    if key := os.environ.get("LLAMA_API_KEY"):
        made.api_keys = [key]
    settings: tuple[Setting, ...] = settings_of(rest)
    for setting in settings:
        _set(xllamacpp, made, setting)
    try:
        server = xllamacpp.Server(made)
    except Exception as error:
        print(error, file=sys.stderr, flush=True)
        sys.exit(1)
    assert server is not None
    threading.Event().wait()


if __name__ == "__main__":
    main(sys.argv[1:])
