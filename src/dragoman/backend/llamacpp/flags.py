"""llama-server's command line flags as settings of llama.cpp's parameter object, so that the bundled library takes
what a binary takes. Data and its reading; imports no llama.cpp."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from msgspec import Struct

from dragoman.core.errors import EngineFailure

Value = int | float | str | bool
Read = Callable[[str], Value]
_What = TypeVar("_What")


class Setting(Struct, frozen=True):
    """One field of the parameter object: `path` is dotted; where `enum` names one of the library's enumerations,
    `value` is the name of a member; `many` puts the values, separated by commas, into a list."""

    path: str
    value: Value
    enum: str = ""
    many: bool = False


class Flag(Struct, frozen=True):
    """What a flag sets. `read` turns its argument into a value, None for a switch, which sets `value`; `prefix` goes
    before the argument's upper-case form to make an enumeration member."""

    path: str
    read: Read | None = None
    value: Value = True
    enum: str = ""
    prefix: str = ""
    many: bool = False


_ON_OFF = {"on": True, "off": False, "true": True, "false": False, "1": True, "0": False}
_WITH_EQUALS = re.compile(r"(--?[A-Za-z][A-Za-z0-9-]*)[=\s]\s*(.*)", re.DOTALL)
_MOST_LAYERS = {"auto": -1, "all": -2}


def _on_off(text: str) -> bool:
    return _ON_OFF[text.lower()]


def _layers(text: str) -> int:
    return _MOST_LAYERS[text] if text in _MOST_LAYERS else int(text)


def _scale(text: str) -> float:
    return 1.0 / float(text)


_PLAIN: dict[Read, dict[str, str]] = {
    int: {
        "-t --threads": "cpuparams.n_threads",
        "-tb --threads-batch": "cpuparams_batch.n_threads",
        "--poll": "cpuparams.poll",
        "--poll-batch": "cpuparams_batch.poll",
        "-n --predict --n-predict": "n_predict",
        "-b --batch-size": "n_batch",
        "-ub --ubatch-size": "n_ubatch",
        "--keep": "n_keep",
        "-ctxcp --ctx-checkpoints --swa-checkpoints": "n_ctx_checkpoints",
        "--checkpoint-min-step": "checkpoint_min_step",
        "-kvups --kv-unified-per-slot": "kv_unified_per_slot",
        "--yarn-orig-ctx": "yarn_orig_ctx",
        "-mg --main-gpu": "main_gpu",
        "-fitc --fit-ctx": "fit_params_min_ctx",
        "-cram --cache-ram": "cache_ram_mib",
        "--cache-reuse": "n_cache_reuse",
        "--threads-http": "n_threads_http",
        "-lv --verbosity --log-verbosity": "verbosity",
        "--image-min-tokens": "image_min_tokens",
        "--image-max-tokens": "image_max_tokens",
        "--mtmd-batch-max-tokens": "mtmd_batch_max_tokens",
        "--moe-cache-mib": "moe_cache_size",
        "--sse-ping-interval": "sse_ping_interval",
        "--draft --draft-n --draft-max --spec-draft-n-max": "speculative.draft.n_max",
        "--draft-min --draft-n-min --spec-draft-n-min": "speculative.draft.n_min",
        "-td --threads-draft --spec-draft-threads": "speculative.draft.cpuparams.n_threads",
        "-tbd --threads-batch-draft --spec-draft-threads-batch": "speculative.draft.cpuparams_batch.n_threads",
        "--spec-ngram-simple-size-n": "speculative.ngram_simple.size_n",
        "--spec-ngram-simple-size-m": "speculative.ngram_simple.size_m",
        "--spec-ngram-simple-min-hits": "speculative.ngram_simple.min_hits",
        "--spec-ngram-map-k-size-n": "speculative.ngram_map_k.size_n",
        "--spec-ngram-map-k-size-m": "speculative.ngram_map_k.size_m",
        "--spec-ngram-map-k-min-hits": "speculative.ngram_map_k.min_hits",
        "--spec-ngram-map-k4v-size-n": "speculative.ngram_map_k4v.size_n",
        "--spec-ngram-map-k4v-size-m": "speculative.ngram_map_k4v.size_m",
        "--spec-ngram-map-k4v-min-hits": "speculative.ngram_map_k4v.min_hits",
        "--spec-ngram-mod-n-match": "speculative.ngram_mod.n_match",
        "--spec-ngram-mod-n-max": "speculative.ngram_mod.n_max",
        "--spec-ngram-mod-n-min": "speculative.ngram_mod.n_min",
    },
    float: {
        "--rope-freq-base": "rope_freq_base",
        "--rope-freq-scale": "rope_freq_scale",
        "--yarn-ext-factor": "yarn_ext_factor",
        "--yarn-attn-factor": "yarn_attn_factor",
        "--yarn-beta-slow": "yarn_beta_slow",
        "--yarn-beta-fast": "yarn_beta_fast",
        "-sps --slot-prompt-similarity": "slot_prompt_similarity",
        "--draft-p-min --spec-draft-p-min": "speculative.draft.p_min",
        "--draft-p-split --spec-draft-p-split": "speculative.draft.p_split",
    },
    _scale: {"--rope-scale": "rope_freq_scale"},
    str: {
        "-ot --override-tensor": "tensor_buft_overrides",
        "-mm --mmproj": "mmproj.path",
        "--mmproj-device": "mmproj_device",
        "--slot-save-path": "slot_save_path",
        "-md --model-draft --spec-draft-model": "speculative.draft.mparams.path",
        "-devd --device-draft --spec-draft-device": "speculative.draft.devices",
        "-otd --override-tensor-draft --spec-draft-override-tensor": "speculative.draft.tensor_buft_overrides",
        "-lcs --lookup-cache-static": "speculative.ngram_cache.lookup_cache_static",
        "-lcd --lookup-cache-dynamic": "speculative.ngram_cache.lookup_cache_dynamic",
    },
    _layers: {
        "-ngl --gpu-layers --n-gpu-layers": "n_gpu_layers",
        "-ngld --gpu-layers-draft --n-gpu-layers-draft --spec-draft-ngl": "speculative.draft.n_gpu_layers",
    },
    _on_off: {
        "--cpu-strict": "cpuparams.strict_cpu",
        "--cpu-strict-batch": "cpuparams_batch.strict_cpu",
        "-fit --fit": "fit_params",
    },
}
"""Flags with one argument, by what reads it: all spellings, and the field it sets."""

_SWITCHES: dict[str, tuple[str, bool]] = {
    "--context-shift": ("ctx_shift", True),
    "--swa-full": ("swa_full", True),
    "-kvu --kv-unified": ("kv_unified", True),
    "-no-kvu --no-kv-unified": ("kv_unified", False),
    "--perf": ("no_perf", False),
    "--no-perf": ("no_perf", True),
    "-kvo --kv-offload": ("no_kv_offload", False),
    "-nkvo --no-kv-offload": ("no_kv_offload", True),
    "--op-offload": ("no_op_offload", False),
    "--no-op-offload": ("no_op_offload", True),
    "--repack": ("no_extra_bufts", False),
    "-nr --no-repack": ("no_extra_bufts", True),
    "--no-host": ("no_host", True),
    "--check-tensors": ("check_tensors", True),
    "-cb --cont-batching": ("cont_batching", True),
    "-nocb --no-cont-batching": ("cont_batching", False),
    "--warmup": ("warmup", True),
    "--no-warmup": ("warmup", False),
    "--cache-idle-slots": ("cache_idle_slots", True),
    "--no-cache-idle-slots": ("cache_idle_slots", False),
    "--mmproj-offload": ("mmproj_use_gpu", True),
    "--no-mmproj-offload": ("mmproj_use_gpu", False),
    "--spec-draft-backend-sampling": ("speculative.draft.backend_sampling", True),
    "--no-spec-draft-backend-sampling": ("speculative.draft.backend_sampling", False),
    "--offline": ("offline", True),
    "--embedding --embeddings": ("embedding", True),
}
_CHOICES: dict[str, tuple[str, str, str]] = {
    "-ctk --cache-type-k": ("cache_type_k", "ggml_type", "GGML_TYPE_"),
    "-ctv --cache-type-v": ("cache_type_v", "ggml_type", "GGML_TYPE_"),
    "-ctkd --cache-type-k-draft --spec-draft-type-k": ("speculative.draft.cache_type_k", "ggml_type", "GGML_TYPE_"),
    "-ctvd --cache-type-v-draft --spec-draft-type-v": ("speculative.draft.cache_type_v", "ggml_type", "GGML_TYPE_"),
    "-fa --flash-attn": ("flash_attn_type", "llama_flash_attn_type", "LLAMA_FLASH_ATTN_TYPE_"),
    "-sm --split-mode": ("split_mode", "llama_split_mode", "LLAMA_SPLIT_MODE_"),
    "--rope-scaling": ("rope_scaling_type", "llama_rope_scaling_type", "LLAMA_ROPE_SCALING_TYPE_"),
    "--numa": ("numa", "ggml_numa_strategy", "GGML_NUMA_STRATEGY_"),
    "-lm --load-mode": ("load_mode", "llama_load_mode", "LLAMA_LOAD_MODE_"),
    "-lzm --lazy-mode": ("lazy_mode", "llama_lazy_mode", "LLAMA_LAZY_MODE_"),
    "--pooling": ("pooling_type", "llama_pooling_type", "LLAMA_POOLING_TYPE_"),
    "--attention": ("attention_type", "llama_attention_type", "LLAMA_ATTENTION_TYPE_"),
}
_RENAMED = {"ON": "ENABLED", "OFF": "DISABLED"}
_PRIORITIES = {"-1": "LOW", "0": "NORMAL", "1": "MEDIUM", "2": "HIGH", "3": "REALTIME"}


def _flags() -> dict[str, Flag]:
    found: dict[str, Flag] = {}
    for read, group in _PLAIN.items():
        found |= _spelled(group, lambda path, read=read: Flag(path, read))
    found |= _spelled(_SWITCHES, lambda switch: Flag(switch[0], value=switch[1]))
    found |= _spelled(_CHOICES, lambda choice: Flag(choice[0], str, enum=choice[1], prefix=choice[2]))
    for name, path in (("--prio", "cpuparams.priority"), ("--prio-batch", "cpuparams_batch.priority")):
        found[name] = Flag(path, _PRIORITIES.__getitem__, enum="ggml_sched_priority", prefix="GGML_SCHED_PRIO_")
    found["--spec-type"] = Flag(
        "speculative.types", str, enum="common_speculative_type", prefix="COMMON_SPECULATIVE_TYPE_", many=True
    )
    for name, mode in (("--mlock", "MMAP_MLOCK"), ("--no-mmap", "NONE"), ("--mmap", "MMAP"), ("-dio", "DIRECT_IO")):
        found[name] = Flag("load_mode", value=f"LLAMA_LOAD_MODE_{mode}", enum="llama_load_mode")
    found["--direct-io"] = found["-dio"]
    return found


def _spelled(group: Mapping[str, _What], make: Callable[[_What], Flag]) -> Iterator[tuple[str, Flag]]:
    for names, what in group.items():
        for name in names.split():
            yield name, make(what)


FLAGS: Mapping[str, Flag] = _flags()


def words_of(arguments: Sequence[str]) -> list[str]:
    """One word each: '--flag=value' and '--flag value' are taken apart."""
    words: list[str] = []
    for argument in arguments:
        match = _WITH_EQUALS.fullmatch(argument)
        words += match.groups() if match else (argument,)
    return words


def settings_of(arguments: Sequence[str]) -> tuple[Setting, ...]:
    """The settings that flags ask for, in order. Raises EngineFailure naming the flag that cannot be honoured."""
    words = iter(words_of(arguments))
    return tuple(_setting(word, words) for word in words)


def _setting(name: str, words: Iterator[str]) -> Setting:
    flag = FLAGS.get(name)
    if flag is None:
        raise EngineFailure(
            f"The engine argument '{name}' is not known to the bundled llama.cpp.",
            remedy="Leave it out, or name a llama-server binary that knows it with --llama-server.",
        )
    if flag.read is None:
        return Setting(flag.path, flag.value, flag.enum)
    text = next(words, None)
    if text is None:
        raise EngineFailure(f"The engine argument '{name}' needs a value.")
    try:
        value = flag.read(text)
    except (ValueError, KeyError, ZeroDivisionError):
        raise EngineFailure(f"The engine argument '{name}' cannot have the value '{text}'.") from None
    return Setting(flag.path, _member(flag, str(value)) if flag.enum else value, flag.enum, flag.many)


def _member(flag: Flag, text: str) -> str:
    """Members of an enumeration, as the library spells them; commas stay."""
    words = (word.strip().upper().replace("-", "_").replace("+", "_") for word in text.split(","))
    return ",".join(flag.prefix + (_RENAMED.get(word, word) if "FLASH" in flag.prefix else word) for word in words)
