"""What parent and child process tell each other, as JSON: parameters down, one ready line up. Pure data."""

from __future__ import annotations

from msgspec import Struct

from dragoman.backend.llamacpp.flags import Setting


class ChildParameters(Struct, frozen=True, kw_only=True):
    """How the child serves a model. `context` is the sum over all lanes, in tokens (0: llama.cpp decides);
    `socket` the path of a Unix socket to listen on, '' for a free TCP port on loopback guarded by `api_key`;
    `prompt_cache_mib` memory for the states of prompts that lost their lane; `slot_folder` is where states of slots
    are saved, '' for nowhere; `settings` are set in order, after the others; `adapters` are LoRA files with their
    scales; `parent` the process to die with."""

    model: str
    socket: str = ""
    api_key: str = ""
    context: int = 0
    lanes: int = 1
    threads: int = 1
    batch: int = 2048
    ubatch: int = 512
    prompt_cache_mib: int = 0
    slot_folder: str = ""
    settings: tuple[Setting, ...] = ()
    adapters: tuple[tuple[str, float], ...] = ()
    parent: int = 0


class ChildReady(Struct, frozen=True, kw_only=True):
    """The child's only line on standard output: where it listens, or in one sentence why it does not.
    `port` is 0 on a Unix socket."""

    port: int = 0
    build: str = ""
    error: str = ""
    missing: bool = False
