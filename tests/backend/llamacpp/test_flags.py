"""llama-server's flags as fields of the library's parameter object."""

from __future__ import annotations

import functools

import pytest

from dragoman.backend.llamacpp.flags import FLAGS, Setting, settings_of, words_of
from dragoman.core.errors import EngineFailure


def test_words_are_taken_apart() -> None:
    assert words_of(["--mlock", "--numa distribute", "--override-kv=a.b=int:3", "-ngl", "3", "a=b"]) == [
        "--mlock", "--numa", "distribute", "--override-kv", "a.b=int:3", "-ngl", "3", "a=b",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "settings"),
    [
        ("-tb 3", [Setting("cpuparams_batch.n_threads", 3)]),
        ("--rope-scale 4", [Setting("rope_freq_scale", 0.25)]),
        ("-ngl all", [Setting("n_gpu_layers", -2)]),
        ("--no-warmup --cpu-strict 1", [Setting("warmup", False), Setting("cpuparams.strict_cpu", True)]),
        ("-fa on", [Setting("flash_attn_type", "LLAMA_FLASH_ATTN_TYPE_ENABLED", "llama_flash_attn_type")]),
        ("-ctk q8_0", [Setting("cache_type_k", "GGML_TYPE_Q8_0", "ggml_type")]),
        ("--mlock", [Setting("load_mode", "LLAMA_LOAD_MODE_MMAP_MLOCK", "llama_load_mode")]),
        ("--prio 2", [Setting("cpuparams.priority", "GGML_SCHED_PRIO_HIGH", "ggml_sched_priority")]),
    ],
)
def test_what_flags_set(arguments: str, settings: list[Setting]) -> None:
    assert list(settings_of(arguments.split())) == settings


def test_several_drafters() -> None:
    (setting,) = settings_of(["--spec-type", "ngram-mod,draft-simple"])
    assert setting.many
    assert str(setting.value).split(",") == [
        "COMMON_SPECULATIVE_TYPE_NGRAM_MOD",
        "COMMON_SPECULATIVE_TYPE_DRAFT_SIMPLE",
    ]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--rpc host:1", "'--rpc' is not known"),
        ("stray", "'stray' is not known"),
        ("--threads-batch", "'--threads-batch' needs a value"),
        ("--threads-batch many", "'--threads-batch' cannot have the value 'many'"),
        ("--rope-scale 0", "cannot have the value '0'"),
        ("--prio 9", "cannot have the value '9'"),
    ],
)
def test_refusals_name_the_flag(arguments: str, words: str) -> None:
    with pytest.raises(EngineFailure, match=words):
        settings_of(arguments.split())


@pytest.mark.llamacpp
def test_the_library_has_every_field() -> None:
    library = pytest.importorskip("xllamacpp")
    for name, flag in FLAGS.items():
        made = library.CommonParams()
        *way, last = flag.path.split(".")
        owner = functools.reduce(getattr, way, made)
        before = getattr(owner, last)
        if flag.enum:
            assert all(member.name.startswith(flag.prefix) for member in getattr(library, flag.enum)), name
        elif flag.read is None:
            setattr(owner, last, flag.value)
            assert getattr(owner, last) is flag.value, name
        elif "device" not in flag.path:  # those are looked for on this machine
            kind = {bool: "on", str: "x=CPU"}.get(type(before), "7")
            setattr(owner, last, flag.read(kind))
            assert getattr(owner, last) == pytest.approx(flag.read(kind)) if kind == "7" else True, name
