"""What a llama.cpp backend is told when it is made. Pure data."""

from __future__ import annotations

from msgspec import Struct

from dragoman.backend.llamacpp.logtail import LogSink


class LlamaCppOptions(Struct, frozen=True, kw_only=True):
    """How to run llama.cpp for one model.

    `model` is the path of a GGUF file; `context` the window of one request in tokens (0: the trained window divided
    by `lanes`, as llama.cpp does by itself); `lanes` how many requests decode together; `threads` 0 means the cores
    this process may really use. `batch` and `ubatch` are the logical and physical prefill batch in tokens.
    `prompt_cache_mib` bounds the memory for states of prompts that lost their lane; None: a quarter of the machine's
    memory, at most llama.cpp's own 8192.

    `llama_server` names a llama-server binary or the http(s) URL of a running one, None the bundled library;
    `engine_args` are passed to a binary; `api_key` is the key of a server named by URL. At a URL, `model`, `context`,
    `threads` and the batch sizes are the server's own affair, and lanes are never more than its slots.

    `max_waiting` requests may wait for a lane. `load_timeout` bounds loading, in seconds. `log_sink` gets every line
    the engine writes.
    """

    model: str
    context: int = 0
    lanes: int = 4
    threads: int = 0
    batch: int = 2048
    ubatch: int = 512
    prompt_cache_mib: int | None = None
    llama_server: str | None = None
    engine_args: tuple[str, ...] = ()
    api_key: str = ""
    max_waiting: int = 64
    load_timeout: float = 900.0
    log_sink: LogSink | None = None

    @property
    def remote(self) -> bool:
        """Whether the server is somebody else's process."""
        return self.llama_server is not None and self.llama_server.startswith(("http://", "https://"))
