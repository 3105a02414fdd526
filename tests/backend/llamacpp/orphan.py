"""A parent that starts a backend and then does nothing: `python orphan.py MODEL [BINARY]`. Prints the engine's pid."""

from __future__ import annotations

import asyncio
import sys

from dragoman.backend.llamacpp.backend import LlamaCppBackend, LlamaCppOptions


async def main(model: str, binary: str | None = None) -> None:
    options = LlamaCppOptions(model=model, lanes=1, context=512, threads=1, llama_server=binary)
    backend = LlamaCppBackend(options)
    await backend.start()
    print(backend.pid, flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
