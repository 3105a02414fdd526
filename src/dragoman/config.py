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
    ollama_port: int | None = None
    """Second port where / is Ollama's, for clients that look for it on 11434; none: one port."""
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
    """Memory for cached prompt prefixes; 0: none, -1: a tenth of this machine's memory."""
    cache_dir: Path | None = None
    """Folder where cached prompt prefixes survive restarts, on llama.cpp; several servers may share it."""
    cache_disk_bytes: int = 8 * 1024**3
    """Most bytes in the cache folder; the least recently used prefixes go first."""
    slot_save_path: Path | None = None
    """Folder where clients of llama-server's wire may save slots; none: they may not."""
    kv_budget_bytes: int = 0
    """Memory for the key/value caches of running requests on MLX; more requests wait; 0: no limit."""
    kv_bits: Literal[0, 4, 8] = 0
    """Bits of the key/value cache; 0: as the model computes on MLX, 16-bit floats on llama.cpp."""
    kv_unified: bool | None = None
    """One window of lanes x ctx tokens for all requests on llama.cpp; unset: where its share is short for agents."""
    context_shift: Annotated[bool, Parameter(negative=())] = False
    """Let answers on llama.cpp outlast the window: when it is full, the oldest tokens are dropped."""
    flash_attention: Literal["auto", "on", "off"] = "auto"
    """Flash attention on llama.cpp; a cache of 4 or 8 bits turns it on."""
    gpu_layers: int = -1
    """Layers of a GGUF model on the GPU; -1: as many as fit."""
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
    """Flags of llama-server to pass on, e.g. --engine-arg=--mlock or '--engine-arg=--numa distribute'."""
    adapters: Annotated[tuple[str, ...], _repeated("--adapter")] = ()
    """LoRA adapter on llama.cpp: NAME=PATH or NAME=PATH:SCALE; scale 0: only for requests that choose it."""
    adapter_dir: Path | None = None
    """Folder from which clients may mount LoRA adapters over vLLM's routes; none: they may not."""
    draft_model: str | None = None
    """GGUF file of a small model with the same vocabulary that drafts for llama.cpp."""
    drafter: Literal["none", "ngram-simple", "ngram-map-k", "ngram-map-k4v", "ngram-mod", "ngram-cache"] = "none"
    """How llama.cpp drafts from the text itself."""
    draft_max: int | None = None
    """Longest draft in tokens; none: llama.cpp's default."""
    draft_min: int | None = None
    """Shortest draft worth checking, in tokens; none: llama.cpp's default."""
    draft_p_min: float | None = None
    """Least probability of a drafted token; none: llama.cpp's default."""
    mmproj: str = "auto"
    """Image encoder of a GGUF model: auto takes the mmproj file beside it, none takes no images, or a path."""
    engine_silence: float = 30.0
    """Seconds a llama.cpp process may leave health checks unanswered before it is restarted; 0: for ever."""
    engine_stall: float = 900.0
    """Seconds a llama.cpp process may work on one batch before it is restarted; 0: for ever."""
    embeddings: Annotated[bool, Parameter(negative=())] = False
    """Also serve embeddings of a text model, by a second llama.cpp engine started when they are first asked for."""
    pooling: Literal["auto", "none", "mean", "cls", "last", "rank"] = "auto"
    """How embeddings are pooled; auto: as the model was trained, else mean; rank: a reranker."""
    tool_family: str = ""
    """Markup of tool calls, such as hermes; none: read off the chat template."""
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
    rerank_cosine: Annotated[bool, Parameter(negative=())] = False
    """Let an embedding model rerank, by the cosine of query and document."""
    strict_fields: bool = False
    """Refuse unknown request fields instead of listing them in X-Dragoman-Ignored."""
    grammar_degrade: bool = False
    """Answer requests whose output format or forced tool call cannot be enforced: the model is told in words, the reply
    has a Warning header."""


@dataclass(frozen=True, kw_only=True)
class SamplingSettings:
    """Further sampling fields of requests that leave them open; windows in tokens."""

    repetition_penalty: float | None = None
    """Divisor (or factor) of the logits of repeated tokens; 1: none."""
    presence_penalty: float | None = None
    """Taken from the logits of tokens that occur; 0: none."""
    frequency_penalty: float | None = None
    """Taken from the logits of tokens as often as they occur; 0: none."""
    penalty_window: int | None = None
    """Last tokens that penalties look at; 0: none, -1: all."""
    typical_p: float | None = None
    """Mass of locally typical tokens that is kept; 1: all."""
    top_n_sigma: float | None = None
    """Standard deviations below the best logit that are kept; 0 or less: all."""
    xtc_probability: float | None = None
    """Chance that the likeliest of several likely tokens are left out; 0: never."""
    xtc_threshold: float | None = None
    """Probability from which a token counts as likely for that."""
    dynatemp_range: float | None = None
    """How far the temperature follows the entropy; 0: not."""
    dynatemp_exponent: float | None = None
    """The exponent it follows it with."""
    dry_multiplier: float | None = None
    """Strength of the penalty on repeated sequences (DRY); 0: none."""
    dry_base: float | None = None
    """Base that it grows with."""
    dry_allowed_length: int | None = None
    """Longest repeated sequence without a penalty."""
    dry_penalty_window: int | None = None
    """Last tokens that it looks at; 0: none, -1: all."""
    mirostat: int | None = None
    """Mirostat 1 or 2; 0: off."""
    mirostat_tau: float | None = None
    """Surprise that Mirostat aims at."""
    mirostat_eta: float | None = None
    """How fast Mirostat learns."""


@dataclass(frozen=True, kw_only=True)
class StoreSettings:
    """What is kept between requests. Sizes in bytes."""

    ephemeral: Annotated[bool, Parameter(negative=())] = False
    """Keep responses, files and batches only until the server stops, in memory and a temporary folder."""
    max_file_bytes: int = 512 * 1024**2
    """Largest uploaded file."""
    files_bytes: int = 10 * 1024**3
    """Most bytes of all files together; uploads that do not fit are refused."""
    responses_bytes: int = 1024**3
    """Most bytes of stored responses; the oldest go first."""
    responses_days: float = 30.0
    """Days a response is stored."""
    batch_rows: int = 50_000
    """Most requests in one batch."""
    batch_restart: Literal["resume", "fail"] = "resume"
    """What becomes of batches that a restart finds unfinished; finished rows are kept in any case."""


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
    sampling: Annotated[SamplingSettings, _FLAT] = field(default_factory=SamplingSettings)
    store: Annotated[StoreSettings, _FLAT] = field(default_factory=StoreSettings)
    log: Annotated[LogSettings, _FLAT] = field(default_factory=LogSettings)
