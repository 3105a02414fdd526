"""Options as flags."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.backend.llamacpp.adapters import Adapter
from dragoman.backend.llamacpp.arguments import engine_flags, lora_flags
from dragoman.backend.llamacpp.flags import settings_of
from dragoman.backend.llamacpp.options import LlamaCppOptions
from dragoman.core.errors import EngineFailure


def flags(**fields: Any) -> str:
    return " ".join(engine_flags(LlamaCppOptions(model="m.gguf", **fields)))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, ""),
        ({"gpu_layers": 0}, "-ngl 0"),
        ({"kv_bits": 8}, "-ctk q8_0 -ctv q8_0 -fa on"),
        ({"kv_bits": 4, "flash_attention": "on"}, "-ctk q4_0 -ctv q4_0 -fa on"),
        ({"flash_attention": "off"}, "-fa off"),
        ({"kv_unified": True}, "-kvu"),
        ({"context_shift": True}, "--context-shift"),
        (
            {"draft_model": "d.gguf", "draft_max": 6, "draft_p_min": 0.25},
            "--spec-type draft-simple -md d.gguf --draft-max 6 --draft-p-min 0.25",
        ),
        (
            {"drafter": "ngram-mod", "draft_max": 6, "draft_min": 2},
            "--spec-type ngram-mod --spec-ngram-mod-n-max 6 --spec-ngram-mod-n-min 2",
        ),
        ({"draft_model": "d.gguf", "drafter": "ngram-cache"}, "--spec-type draft-simple,ngram-cache -md d.gguf"),
        ({"mmproj": "p.gguf", "engine_args": ("--numa=isolate",)}, "--mmproj p.gguf --numa isolate"),
    ],
)
def test_flags(fields: dict[str, Any], words: str) -> None:
    assert flags(**fields) == words
    settings_of(words.split())


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"kv_bits": 4, "flash_attention": "off"}, "needs flash attention"),
        ({"draft_max": 3}, "--draft-max needs something that drafts"),
        ({"drafter": "ngram-simple", "draft_p_min": 0.5}, "'ngram-simple' has no --draft-p-min"),
        ({"engine_args": ("--host", "0.0.0.0")}, "--host cannot be used"),
        ({"engine_args": ("-c=512",)}, "-c cannot be used. Use --ctx"),
        ({"engine_args": ("--lora", "x")}, "--lora cannot be used. Use --adapter"),
        ({"engine_args": ("-np", "3")}, "Use --max-lanes"),
        ({"engine_args": ("-cram 99",), "adapters": (Adapter("a", "a.gguf"),)}, "-cram cannot be used with adapters"),
    ],
)
def test_contradictions(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(EngineFailure) as caught:
        flags(**fields)
    assert words in caught.value.sentence


def test_adapters_of_a_binary() -> None:
    assert lora_flags([Adapter("a", "x.gguf", 0.5), Adapter("b", "y.gguf")]) == [
        "--lora-scaled", "x.gguf:0.5", "--lora-scaled", "y.gguf:1", "-cram", "0",
    ]  # fmt: skip
    with pytest.raises(EngineFailure, match="comma or a colon"):
        lora_flags([Adapter("a", "x,y.gguf")])
