"""llama-server's command line flags as data: how each is spelled, which variable stands for it, and what it means here.

The table serves the translation, its refusals, the compatibility manifest and the documentation.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Literal

from msgspec import Struct

from dragoman.backend.llamacpp.flags import FLAGS as ENGINE_FLAGS

Means = Literal["ours", "made", "engine", "nothing", "refused"]
Argument = Literal["none", "one", "maybe"]


class Flag(Struct, frozen=True):
    """One flag. `names` are its spellings, the longest last; `env` the variable without LLAMA_ARG_, with a leading `=`
    when it has no such prefix.

    `means`: a flag of ours that takes the same value (`to` names it), something `made` of several by the function `to`,
    a flag that the engine is given as it is, `nothing` (accepted, of no effect, for the reason `why`), or `refused`
    for the reason `why`.
    """

    names: tuple[str, ...]
    env: str
    argument: Argument
    means: Means
    to: str = ""
    why: str = ""

    @property
    def name(self) -> str:
        """The spelling to speak of it by."""
        return self.names[-1]

    @property
    def variables(self) -> tuple[str, ...]:
        """The environment variables that stand for it."""
        if not self.env:
            return ()
        return (self.env[1:],) if self.env.startswith("=") else (f"LLAMA_ARG_{self.env}",)


_OURS: tuple[tuple[str, str, str], ...] = (
    ("-t --threads", "THREADS", "--threads"),
    ("--port", "PORT", "--port"),
    ("--slot-save-path", "SLOT_SAVE_PATH", "--slot-save-path"),
    ("-md --model-draft --spec-draft-model", "MODEL_DRAFT", "--draft-model"),
    ("--draft --draft-n --draft-max --spec-draft-n-max", "DRAFT_MAX", "--draft-max"),
    ("--draft-min --draft-n-min --spec-draft-n-min", "DRAFT_MIN", "--draft-min"),
    ("--draft-p-min --spec-draft-p-min", "DRAFT_P_MIN", "--draft-p-min"),
    ("-mm --mmproj", "MMPROJ", "--mmproj"),
    ("--pooling", "POOLING", "--pooling"),
    ("--temp --temperature", "", "--temperature"),
    ("--top-k", "TOP_K", "--top-k"),
    ("--top-p", "", "--top-p"),
    ("--min-p", "", "--min-p"),
    ("--top-nsigma --top-n-sigma", "", "--top-n-sigma"),
    ("--xtc-probability", "", "--xtc-probability"),
    ("--xtc-threshold", "", "--xtc-threshold"),
    ("--typical --typical-p", "", "--typical-p"),
    ("--repeat-last-n", "", "--penalty-window"),
    ("--repeat-penalty", "", "--repetition-penalty"),
    ("--presence-penalty", "", "--presence-penalty"),
    ("--frequency-penalty", "", "--frequency-penalty"),
    ("--dry-multiplier", "", "--dry-multiplier"),
    ("--dry-base", "", "--dry-base"),
    ("--dry-allowed-length", "", "--dry-allowed-length"),
    ("--dry-penalty-last-n", "", "--dry-penalty-window"),
    ("--dynatemp-range", "", "--dynatemp-range"),
    ("--dynatemp-exp", "", "--dynatemp-exponent"),
    ("--mirostat", "", "--mirostat"),
    ("--mirostat-lr", "", "--mirostat-eta"),
    ("--mirostat-ent", "", "--mirostat-tau"),
)
"""Flags with one argument that ours take as it is."""

_MADE: tuple[tuple[str, str, Argument, str], ...] = (
    ("-m --model", "MODEL", "one", "model"),
    ("-hf -hfr --hf-repo", "HF_REPO", "one", "repository"),
    ("--offline", "=LLAMA_OFFLINE", "none", "offline"),
    ("-c --ctx-size", "CTX_SIZE", "one", "window"),
    ("-np --parallel", "N_PARALLEL", "one", "window"),
    ("-kvu --kv-unified", "KV_UNIFIED", "none", "window"),
    ("-no-kvu --no-kv-unified", "NO_KV_UNIFIED", "none", "window"),
    ("-n --predict --n-predict", "N_PREDICT", "one", "answer_length"),
    ("--host", "HOST", "one", "host"),
    ("--api-key", "=LLAMA_API_KEY", "one", "keys"),
    ("--api-key-file", "", "one", "keys_file"),
    ("-a --alias", "ALIAS", "one", "aliases"),
    ("-cram --cache-ram", "CACHE_RAM", "one", "cache_ram"),
    ("-ngl --gpu-layers --n-gpu-layers", "N_GPU_LAYERS", "one", "layers"),
    ("-fa --flash-attn", "FLASH_ATTN", "maybe", "attention"),
    ("-ctk --cache-type-k", "CACHE_TYPE_K", "one", "cache_types"),
    ("-ctv --cache-type-v", "CACHE_TYPE_V", "one", "cache_types"),
    ("--no-mmproj", "NO_MMPROJ", "none", "no_projector"),
    ("--lora", "", "one", "adapters"),
    ("--lora-scaled", "", "one", "scaled_adapters"),
    ("--sse-ping-interval", "SSE_PING_INTERVAL", "one", "ping"),
    ("--cors-origins", "CORS_ORIGINS", "one", "origins"),
    ("--embedding --embeddings", "EMBEDDINGS", "none", "embeddings"),
    ("--rerank --reranking", "RERANKING", "none", "rerank"),
    ("--spec-type", "SPEC_TYPE", "one", "drafter"),
    ("--context-shift", "CONTEXT_SHIFT", "none", "context_shift"),
    ("-v --verbose --log-verbose", "", "none", "verbose"),
    ("--log-disable", "", "none", "quiet"),
    ("-lv --verbosity --log-verbosity", "=LLAMA_LOG_VERBOSITY", "one", "verbosity"),
    ("--reasoning-format", "THINK", "one", "reasoning_format"),
    ("--reasoning-budget", "THINK_BUDGET", "one", "reasoning_budget"),
    ("-s --seed", "", "one", "seed"),
    ("--embd-normalize", "EMBD_NORMALIZE", "one", "vector_norm"),
)
"""Flags whose values are turned into ours by a function of `translate`."""

_ALWAYS = "it is always so here"
_NO_PAGES = "there are no pages here to be switched off"
_NOTHING: tuple[tuple[str, str, Argument, str], ...] = (
    ("--jinja", "JINJA", "none", _ALWAYS),
    ("--metrics", "ENDPOINT_METRICS", "none", _ALWAYS),
    ("--props", "ENDPOINT_PROPS", "none", _ALWAYS),
    ("--slots", "ENDPOINT_SLOTS", "none", _ALWAYS),
    ("--no-slots", "NO_ENDPOINT_SLOTS", "none", "/slots shows nobody's prompt, so there is nothing to hide"),
    ("--no-context-shift", "NO_CONTEXT_SHIFT", "none", "it is off unless it is asked for"),
    ("--cache-prompt", "CACHE_PROMPT", "none", _ALWAYS),
    ("--prefill-assistant", "PREFILL_ASSISTANT", "none", _ALWAYS),
    ("-e --escape", "", "none", "only prompts of a command line are escaped"),
    ("-to --timeout", "TIMEOUT", "one", "a client may read as slowly as it likes, and a server that waits is pinged"),
    ("--threads-http", "THREADS_HTTP", "one", "requests are not served by threads"),
    ("--cache-reuse", "CACHE_REUSE", "one", "prefixes are shared between requests by other means"),
    ("-sps --slot-prompt-similarity", "", "one", "slots are chosen by what they spare"),
    ("--cache-idle-slots", "CACHE_IDLE_SLOTS", "none", _ALWAYS),
    ("--webui --ui", "UI", "none", _NO_PAGES),
    ("--no-webui --no-ui", "NO_UI", "none", _NO_PAGES),
    ("--tags", "TAGS", "one", "nothing asks for tags"),
    ("--log-colors", "=LLAMA_LOG_COLORS", "maybe", "the log has no colours"),
    ("--log-prefix", "=LLAMA_LOG_PREFIX", "none", _ALWAYS),
    ("--log-timestamps", "=LLAMA_LOG_TIMESTAMPS", "none", _ALWAYS),
    ("--slots-debug", "", "none", "/slots shows nobody's prompt"),
)
"""Flags that are accepted and change nothing."""

_ONE_MODEL = "this server serves the model it was started with; start another one for another model"
_PROXY = "put a proxy in front of it"
_SEND = "send it with the request"
_DEFAULTS = "requests that leave it out get llama-server's own default; send it with the request"
_TEMPLATE = "the model's own template is rendered; send the prompt to /completion to use another one"
_NO_FETCH = "fetch the file first and name it with -m"
_NOT_BUNDLED = "the bundled llama.cpp cannot be told; use a llama-server binary by dragoman serve --llama-server"
_REFUSED: tuple[tuple[str, str, Argument, str], ...] = (
    ("-hff --hf-file", "HF_FILE", "one", "name the quantisation instead: -hf REPO:QUANT"),
    ("-hft --hf-token", "=HF_TOKEN", "one", "put the token into the environment variable HF_TOKEN"),
    ("-mu --model-url", "MODEL_URL", "one", _NO_FETCH),
    ("-mmu --mmproj-url", "MMPROJ_URL", "one", _NO_FETCH),
    ("-dr --docker-repo", "DOCKER_REPO", "one", _NO_FETCH),
    ("-hfd -hfrd --hf-repo-draft --spec-draft-hf", "HFD_REPO", "one", "fetch the file first and name it with -md"),
    ("--models-dir", "MODELS_DIR", "one", _ONE_MODEL),
    ("--models-preset", "MODELS_PRESET", "one", _ONE_MODEL),
    ("--models-max", "MODELS_MAX", "one", _ONE_MODEL),
    ("--models-autoload", "MODELS_AUTOLOAD", "none", _ONE_MODEL),
    ("--no-models-autoload", "NO_MODELS_AUTOLOAD", "none", _ONE_MODEL),
    ("--sleep-idle-seconds", "SLEEP_IDLE_SECONDS", "one", "a model stays loaded until the server stops"),
    ("--ssl-key-file", "SSL_KEY_FILE", "one", _PROXY),
    ("--ssl-cert-file", "SSL_CERT_FILE", "one", _PROXY),
    ("--api-prefix", "API_PREFIX", "one", _PROXY),
    ("--path", "STATIC_PATH", "one", "it serves no files of a folder"),
    ("--media-path", "MEDIA_PATH", "one", "no files of this machine are read for a request"),
    ("--tools", "TOOLS", "one", "it runs no tools for web pages"),
    ("--ui-mcp-proxy --webui-mcp-proxy", "UI_MCP_PROXY", "none", "it asks no other server for web pages"),
    ("--no-jinja", "NO_JINJA", "none", "templates are always rendered in full"),
    ("--no-prefill-assistant", "NO_PREFILL_ASSISTANT", "none", "a trailing assistant message is continued"),
    ("--no-cache-prompt", "NO_CACHE_PROMPT", "none", "send cache_prompt: false, or use --cache-ram 0"),
    ("--chat-template", "CHAT_TEMPLATE", "one", _TEMPLATE),
    ("--chat-template-file", "CHAT_TEMPLATE_FILE", "one", _TEMPLATE),
    ("--skip-chat-parsing", "SKIP_CHAT_PARSING", "none", "use /completion for text that is not parsed"),
    ("--chat-template-kwargs", "CHAT_TEMPLATE_KWARGS", "one", _SEND),
    ("-rea --reasoning", "REASONING", "one", "send chat_template_kwargs or reasoning_effort with the request"),
    ("--reasoning-budget-message", "THINK_BUDGET_MESSAGE", "one", _SEND),
    ("--spm-infill", "", "none", "code around a gap is put in the order prefix, suffix, middle"),
    ("-sp --special", "", "none", "name the tokens to be shown in preserved_tokens"),
    ("-r --reverse-prompt", "", "one", "send it with the request, as stop"),
    ("--grammar", "", "one", _SEND),
    ("--grammar-file", "", "one", _SEND),
    ("-j --json-schema", "", "one", _SEND),
    ("-jf --json-schema-file", "", "one", _SEND),
    ("-l --logit-bias", "", "one", _SEND),
    ("--ignore-eos", "", "none", _SEND),
    ("--samplers", "", "one", _DEFAULTS),
    ("--sampler-seq --sampling-seq", "", "one", _DEFAULTS),
    ("--backend-sampling -bs", "", "none", "tokens are drawn where the engine has it"),
    ("--dry-sequence-breaker", "", "one", _DEFAULTS),
    ("--adaptive-target", "", "one", _DEFAULTS),
    ("--adaptive-decay", "", "one", _DEFAULTS),
    ("--lora-init-without-apply", "", "none", "use dragoman serve --adapter NAME=PATH:0"),
    ("--log-file", "=LLAMA_LOG_FILE", "one", "redirect standard error"),
    ("-cl --cache-list", "", "none", "use dragoman ls"),
    ("--completion-bash", "", "none", "it has other flags than dragoman"),
    ("--list-devices", "", "none", "use dragoman doctor"),
    *(
        (names, env, "one", _NOT_BUNDLED)
        for names, env in (
            ("-ts --tensor-split", "TENSOR_SPLIT"),
            ("-dev --device", "DEVICE"),
            ("--override-kv", ""),
            ("-ncmoe --n-cpu-moe", "N_CPU_MOE"),
            ("-ncmoed --n-cpu-moe-draft --spec-draft-n-cpu-moe", "N_CPU_MOE_DRAFT"),
            ("--control-vector", ""),
            ("--control-vector-scaled", ""),
            ("-C --cpu-mask", ""),
            ("-Cr --cpu-range", ""),
            ("-fitt --fit-target", "FIT_TARGET"),
            ("--rpc", "RPC"),
        )
    ),
    ("-cmoe --cpu-moe", "CPU_MOE", "none", _NOT_BUNDLED),
    ("-cmoed --cpu-moe-draft --spec-draft-cpu-moe", "CPU_MOE_DRAFT", "none", _NOT_BUNDLED),
    ("--cors-methods", "CORS_METHODS", "one", "browsers get the methods there are"),
    ("--cors-headers", "CORS_HEADERS", "one", "browsers may send the headers there are"),
    ("--cors-credentials", "CORS_CREDENTIALS", "none", "they are allowed for the origins that are"),
)
"""Flags that are not honoured, with the reason."""

_ENGINE_ENV: Mapping[str, str] = {
    "--batch-size": "BATCH",
    "--ubatch-size": "UBATCH",
    "--mlock": "MLOCK",
    "--no-mmap": "NO_MMAP",
    "--mmap": "MMAP",
    "--numa": "NUMA",
    "--split-mode": "SPLIT_MODE",
    "--main-gpu": "MAIN_GPU",
    "--cont-batching": "CONT_BATCHING",
    "--no-cont-batching": "NO_CONT_BATCHING",
    "--swa-full": "SWA_FULL",
    "--no-kv-offload": "NO_KV_OFFLOAD",
    "--override-tensor": "OVERRIDE_TENSOR",
    "--rope-scaling": "ROPE_SCALING_TYPE",
    "--rope-scale": "ROPE_SCALE",
    "--rope-freq-base": "ROPE_FREQ_BASE",
    "--rope-freq-scale": "ROPE_FREQ_SCALE",
    "--yarn-orig-ctx": "YARN_ORIG_CTX",
    "--ctx-checkpoints": "CTX_CHECKPOINTS",
    "--warmup": "WARMUP",
    "--no-warmup": "NO_WARMUP",
    "--fit": "FIT",
    "--threads-batch": "THREADS_BATCH",
    "--load-mode": "LOAD_MODE",
}
"""Variables of flags that go to the engine."""


def _words(names: str) -> tuple[str, ...]:
    return tuple(names.split())


def _own() -> Iterator[Flag]:
    yield from (Flag(_words(names), env, "one", "ours", ours) for names, env, ours in _OURS)
    yield from (Flag(_words(names), env, argument, "made", by) for names, env, argument, by in _MADE)
    yield from (Flag(_words(names), env, argument, "nothing", why=why) for names, env, argument, why in _NOTHING)
    yield from (Flag(_words(names), env, argument, "refused", why=why) for names, env, argument, why in _REFUSED)


def _engine(taken: frozenset[str]) -> Iterator[Flag]:
    """What the bundled llama.cpp takes and nobody here means anything else by."""
    groups: dict[tuple[str, object, bool], list[str]] = defaultdict(list)
    for name, flag in ENGINE_FLAGS.items():
        if name not in taken:
            groups[flag.path, flag.value, flag.read is None].append(name)
    for (_, _, switch), names in groups.items():
        ordered = tuple(sorted(names, key=len))
        yield Flag(ordered, _ENGINE_ENV.get(ordered[-1], ""), "none" if switch else "one", "engine")


def _table() -> tuple[Flag, ...]:
    own = tuple(_own())
    return (*own, *_engine(frozenset(name for flag in own for name in flag.names)))


FLAGS: tuple[Flag, ...] = _table()
BY_NAME: Mapping[str, Flag] = {name: flag for flag in FLAGS for name in flag.names}
