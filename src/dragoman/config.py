"""One settings tree. Read only by `app` and `cli`; everyone else is handed what they need."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

# A group whose fields are flags of their own, without the group's name in front.
_FLAT = Parameter(name="*")


def _repeated(flag: str) -> Parameter:
    return Parameter(name=flag, negative=())


@dataclass(frozen=True, kw_only=True)
class ListenSettings:
    """Where and how the server listens. Times in seconds, sizes in bytes."""

    host: str = "127.0.0.1"
    """Address to bind."""
    port: int = 8080
    """TCP port; 0 picks a free one."""
    api_keys: Annotated[tuple[str, ...], _repeated("--api-key")] = ()
    """Keys clients must show; none: no key needed."""
    allowed_hosts: Annotated[tuple[str, ...], _repeated("--allowed-host")] = ()
    """Host names accepted beside loopback names and the bound address."""
    cors_origins: Annotated[tuple[str, ...], _repeated("--cors-origins")] = ()
    """Browser origins accepted beside loopback ones; '*' opens it to all."""
    max_body: int = 64 * 1024 * 1024
    """Largest request body."""
    max_header: int = 64 * 1024
    """Largest block of request headers."""
    body_timeout: float = 60.0
    """Longest wait for the next piece of a request body."""
    sse_ping: float = 15.0
    """Silent seconds after which a stream sends a ping; 0 turns pings off."""
    drain: float = 30.0
    """Longest time to let running requests finish on shutdown."""


@dataclass(frozen=True, kw_only=True)
class EngineSettings:
    """How models are run."""

    engine: Literal["auto", "mlx", "llamacpp", "fake"] = "auto"
    """Which engine; auto picks llamacpp for GGUF and mlx for safetensors."""
    ctx: int = 0
    """Context window of one request in tokens; 0: what the model was trained with, within reason."""
    max_lanes: int = 4
    """Requests decoded together."""
    max_waiting: int = 64
    """Requests that may wait; more are refused with 429."""
    prompt_cache_bytes: int = -1
    """Memory for cached prompt prefixes on MLX; 0: none, -1: a tenth of this machine's memory."""
    kv_budget_bytes: int = 0
    """Memory for the key/value caches of running requests on MLX; more requests wait; 0: no limit."""
    kv_bits: Literal[0, 4, 8] = 0
    """Bits of the key/value cache on MLX; 0: as the model computes."""
    mlx_blas: str = "auto"
    """BLAS of MLX on a Linux CPU: auto, off, or the path of a library."""
    threads: int = 0
    """Engine threads; 0: the cores this process may really use."""
    dtype: Literal["auto", "float32", "bfloat16", "float16", "quantized"] = "auto"
    """Weight type on MLX; auto: float32 on a CPU, as stored elsewhere."""
    llama_server: str | None = None
    """A llama-server binary or URL to use instead of the bundled llama.cpp."""
    llama_server_key: str | None = None
    """API key of a llama-server named by URL."""
    engine_args: Annotated[tuple[str, ...], _repeated("--engine-arg")] = ()
    """Extra arguments for a llama-server binary."""
    script: Path | None = None
    """Script file of the fake engine."""


@dataclass(frozen=True, kw_only=True)
class AnswerSettings:
    """Defaults and strictness of answers."""

    temperature: float | None = None
    """Temperature when the request has none."""
    top_k: int | None = None
    """top_k when the request has none."""
    top_p: float | None = None
    """top_p when the request has none."""
    min_p: float | None = None
    """min_p when the request has none."""
    default_max_tokens: int = 65536
    """Token limit when the request has none; the window still caps it."""
    strict_max_tokens: bool = False
    """Refuse, instead of clamping, when prompt and max_tokens together exceed the window."""
    strict_models: bool = False
    """Refuse model names that are not served, even when only one model is served."""
    strict_fields: bool = False
    """Refuse unknown request fields instead of listing them in X-Dragoman-Ignored."""


@dataclass(frozen=True, kw_only=True)
class LogSettings:
    """What is written to the log."""

    level: Annotated[Literal["debug", "info", "warning", "error"], Parameter(name="--log-level")] = "info"
    """Least severe level written."""
    prompts: Annotated[bool, Parameter(name="--log-prompts")] = False
    """Also log prompts and answers."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """All of it."""

    model: Annotated[str | None, Parameter(parse=False)] = None
    """Path, alias or Hugging Face id in the local cache; none: the best local model, else the starter."""
    alias: Annotated[tuple[str, ...], _repeated("--alias")] = ()
    """Names to serve the model under; the first is its id."""
    state_dir: Path | None = None
    """Folder for models, databases and caches; none: the platform's default."""
    listen: Annotated[ListenSettings, _FLAT] = field(default_factory=ListenSettings)
    engine: Annotated[EngineSettings, _FLAT] = field(default_factory=EngineSettings)
    answer: Annotated[AnswerSettings, _FLAT] = field(default_factory=AnswerSettings)
    log: Annotated[LogSettings, _FLAT] = field(default_factory=LogSettings)
