"""What a llama.cpp backend is told when it is made. Pure data."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from msgspec import Struct

from dragoman.backend.llamacpp.adapters import Adapter
from dragoman.backend.llamacpp.logtail import LogSink
from dragoman.core.vectors import Pooling

Drafter = Literal["none", "ngram-simple", "ngram-map-k", "ngram-map-k4v", "ngram-mod", "ngram-cache"]


class LlamaCppOptions(Struct, frozen=True, kw_only=True):
    """How to run llama.cpp for one model.

    `model` is the path of a GGUF file; `context` the window of one request in tokens (0: the trained window divided
    by `lanes`, as llama.cpp does by itself); `lanes` how many requests decode together; `threads` 0 means the cores
    this process may really use. `batch` and `ubatch` are the logical and physical prefill batch in tokens.
    `prompt_cache_mib` bounds the memory for states of prompts that lost their lane; None: a quarter of the machine's
    memory, at most llama.cpp's own 8192.

    `gpu_layers` -1: as many as fit; `kv_bits` 0: 16-bit floats, 8 and 4: q8_0 and q4_0, which need flash attention;
    `kv_unified`: one pool of `context` x `lanes` tokens, of which a request may take more than its share, up to the
    trained window; `context_shift` lets answers outlast the window. `draft_model` is the path of a GGUF with the
    same vocabulary, `drafter` guesses from the text itself; `draft_max`, `draft_min` and `draft_p_min` bound a
    draft, None: as llama.cpp has it. `adapters` are mounted at start; `mmproj` is the path of the model's image
    encoder.

    `prefix_bytes` bounds the memory for saved states of slots, from which prompts that begin alike are served without
    being computed again; 0 leaves slots to llama.cpp. `slot_folder` is where it saves them, set by the backend. With
    `cache_folder` they are also kept there, in at most `cache_disk_bytes`, and survive restarts.

    `llama_server` names a llama-server binary or the http(s) URL of a running one, None the bundled library;
    `engine_args` are llama-server's flags, for a binary as they are, for the library as far as it has them; `api_key`
    is the key of a server named by URL. At a URL everything about the model is the server's own affair, and lanes are
    never more than its slots.

    `pooling` says that this model embeds (or ranks, with `rank`) and how; '' that it does not. Inputs may then have
    `embed_context` tokens.

    `max_waiting` requests may wait for a lane. `load_timeout` bounds loading, in seconds; an engine of ours that
    leaves a health check unanswered for `silence` seconds, or does no work for `stall` seconds while it has some, is
    taken for hung. `log_sink` gets every line the engine writes; `journal` is a folder for the record of this run,
    which `doctor` reads.
    """

    model: str
    context: int = 0
    lanes: int = 4
    threads: int = 0
    batch: int = 2048
    ubatch: int = 512
    prompt_cache_mib: int | None = None
    gpu_layers: int = -1
    kv_bits: Literal[0, 4, 8] = 0
    kv_unified: bool = False
    context_shift: bool = False
    flash_attention: Literal["auto", "on", "off"] = "auto"
    draft_model: str = ""
    drafter: Drafter = "none"
    draft_max: int | None = None
    draft_min: int | None = None
    draft_p_min: float | None = None
    adapters: tuple[Adapter, ...] = ()
    mmproj: str = ""
    llama_server: str | None = None
    engine_args: tuple[str, ...] = ()
    api_key: str = ""
    prefix_bytes: int = 0
    slot_folder: str = ""
    cache_folder: Path | None = None
    cache_disk_bytes: int = 0
    pooling: Pooling | Literal[""] = ""
    embed_context: int = 0
    max_waiting: int = 64
    load_timeout: float = 900.0
    silence: float = 30.0
    stall: float = 900.0
    log_sink: LogSink | None = None
    journal: Path | None = None

    @property
    def remote(self) -> bool:
        """Whether the server is somebody else's process."""
        return self.llama_server is not None and self.llama_server.startswith(("http://", "https://"))
