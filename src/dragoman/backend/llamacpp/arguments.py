"""The flags of llama-server that our options amount to. Knows no process and no library."""

from __future__ import annotations

from collections.abc import Sequence

from dragoman.backend.llamacpp.adapters import Adapter
from dragoman.backend.llamacpp.flags import words_of
from dragoman.backend.llamacpp.options import LlamaCppOptions
from dragoman.core.errors import EngineFailure

_OURS = frozenset(
    {"--host", "--port", "--api-key", "--api-key-file", "--api-prefix", "--ssl-key-file", "--ssl-cert-file"}
)
"""Arguments that would only hide the engine from us."""

_INSTEAD = {
    "MODEL": "-m --model -mu --model-url -hf -hfr --hf-repo -hff --hf-file -dr --docker-repo",
    "--ctx": "-c --ctx-size",
    "--context-shift": "--context-shift",
    "--max-lanes": "-np --parallel",
    "--adapter": "--lora --lora-scaled --lora-init-without-apply",
}
_ELSEWHERE = {flag: ours for ours, flags in _INSTEAD.items() for flag in flags.split()}

_PROMPT_CACHE = ("-cram", "--cache-ram")

_NGRAM_BOUNDS = {
    "ngram-simple": {"--draft-max": "--spec-ngram-simple-size-m"},
    "ngram-map-k": {"--draft-max": "--spec-ngram-map-k-size-m"},
    "ngram-map-k4v": {"--draft-max": "--spec-ngram-map-k4v-size-m"},
    "ngram-mod": {"--draft-max": "--spec-ngram-mod-n-max", "--draft-min": "--spec-ngram-mod-n-min"},
}

_KV_TYPES = {4: "q4_0", 8: "q8_0"}


def engine_flags(options: LlamaCppOptions) -> tuple[str, ...]:
    """What both a binary and the bundled library understand; the user's own come last and win. Raises EngineFailure
    for options that contradict each other and arguments that are not the user's to give."""
    flags = [*_memory(options), *_speculation(options)]
    if options.mmproj:
        flags += ("--mmproj", options.mmproj)
    return (*flags, *user_arguments(options))


def user_arguments(options: LlamaCppOptions) -> list[str]:
    """`engine_args`, one word each. Raises EngineFailure for those that are ours."""
    words = words_of(options.engine_args)
    for word in words:
        if word in _OURS:
            raise EngineFailure(f"The engine argument {word} cannot be used: the engine listens where we tell it.")
        if word in _ELSEWHERE:
            raise EngineFailure(
                f"The engine argument {word} cannot be used.", remedy=f"Use {_ELSEWHERE[word]} instead."
            )
        if options.adapters and word in _PROMPT_CACHE:
            raise EngineFailure(
                f"The engine argument {word} cannot be used with adapters: that cache does not tell them apart."
            )
    return words


def lora_flags(adapters: Sequence[Adapter]) -> list[str]:
    """A binary's flags for adapters, and against llama.cpp's prompt cache, which does not tell them apart. Raises
    EngineFailure for a path that a binary cannot be told."""
    flags: list[str] = []
    for adapter in adapters:
        if any(mark in adapter.path for mark in ",:"):
            raise EngineFailure(f"llama-server cannot be told the path '{adapter.path}': it has a comma or a colon.")
        flags += ("--lora-scaled", f"{adapter.path}:{adapter.scale:g}")
    return [*flags, "-cram", "0"] if flags else []


def _memory(options: LlamaCppOptions) -> list[str]:
    flags: list[str] = []
    if options.gpu_layers >= 0:
        flags += ("-ngl", str(options.gpu_layers))
    attention = options.flash_attention
    if options.kv_bits:
        if attention == "off":
            raise EngineFailure("A quantised key/value cache needs flash attention.", remedy="Leave one of them out.")
        attention = "on"
        kind = _KV_TYPES[options.kv_bits]
        flags += ("-ctk", kind, "-ctv", kind)
    if attention != "auto":
        flags += ("-fa", attention)
    if options.context_shift:
        flags.append("--context-shift")
    if options.kv_unified:
        flags.append("-kvu")
    return flags


def _speculation(options: LlamaCppOptions) -> list[str]:
    kinds: list[str] = []
    flags: list[str] = []
    if options.draft_model:
        kinds.append("draft-simple")
        flags += ("-md", options.draft_model)
    if options.drafter != "none":
        kinds.append(options.drafter)
    bounds = {"--draft-max": options.draft_max, "--draft-min": options.draft_min, "--draft-p-min": options.draft_p_min}
    given = {flag: bound for flag, bound in bounds.items() if bound is not None}
    if given and not kinds:
        raise EngineFailure(f"{next(iter(given))} needs something that drafts.", remedy="Name a --draft-model.")
    for flag, bound in given.items():
        # The bounds are the draft model's, or the n-gram drafter's where there is no such model.
        name = flag if options.draft_model else _NGRAM_BOUNDS.get(options.drafter, {}).get(flag)
        if name is None:
            raise EngineFailure(f"The drafter '{options.drafter}' has no {flag}.", remedy="Leave it out.")
        flags += (name, f"{bound:g}")
    return ["--spec-type", ",".join(kinds), *flags] if kinds else []
