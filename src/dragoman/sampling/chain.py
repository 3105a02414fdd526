"""Which stages a spec runs through, and in which order. Computes nothing on logits."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from dragoman.core.errors import InvalidField, UnsupportedField
from dragoman.core.sampling import SamplingSpec

DEFAULT_ORDER = ("penalties", "dry", "top_n_sigma", "top_k", "typ_p", "top_p", "min_p", "xtc", "temperature")
"""The order of stages when a request names none; llama-server's, so both engines agree."""

PROCESSORS = frozenset({"penalties", "dry"})
"""Stages that are part of the reported distribution where they lead the chain."""

_SWITCHES: dict[str, tuple[str, ...]] = {
    "penalties": ("repetition_penalty", "presence_penalty", "frequency_penalty"),
    "dry": ("dry_multiplier",),
    "top_n_sigma": ("top_n_sigma",),
    "top_k": ("top_k",),
    "typ_p": ("typical_p",),
    "top_p": ("top_p",),
    "min_p": ("min_p",),
    "xtc": ("xtc_probability",),
    "temperature": ("temperature", "dynatemp_range"),
    "adaptive_p": ("adaptive_target",),
}
"""The fields that switch a stage on."""

_NATURAL = {name: place for place, name in enumerate(DEFAULT_ORDER)} | {"hlg": len(DEFAULT_ORDER) - 1}


def chain_of(spec: SamplingSpec) -> tuple[str, ...]:
    """The stages that do something, in order.

    `samplers` is the whole chain: what it leaves out is off, whatever the fields say. Mirostat takes the place of the
    chain but for the temperature, as in llama.cpp. The HLG curve takes the place of filters and temperature.
    adaptive-p picks the token, so it comes last wherever it is listed; without `samplers` its target switches it on.
    """
    if spec.mirostat in (1, 2):
        return ("temperature", f"mirostat_{spec.mirostat}")
    active = spec.active()
    listed = (*DEFAULT_ORDER, "adaptive_p") if spec.samplers is None else spec.samplers
    running = [name for name in listed if active.intersection(_SWITCHES.get(name, ()))]
    last = ("adaptive_p",) if "adaptive_p" in running else ()
    running = [name for name in running if name != "adaptive_p"]
    if "hlg_width" in active:
        running = [*(name for name in running if name in PROCESSORS), "hlg"]
    return (*running, *last)


def is_natural(chain: tuple[str, ...]) -> bool:
    """Whether the chain is the default order with some stages left out, and none that needs the row's own history of
    draws or its tokens one by one."""
    places = [_NATURAL.get(name, -1) for name in chain]
    return "dry" not in chain and -1 not in places and all(a < b for a, b in pairwise(places))


def in_force(spec: SamplingSpec, chain: tuple[str, ...]) -> dict[str, Any]:
    """The fields of `spec` that are set, without the switches of stages that are not in its chain."""
    fields = spec.given()
    for stage, switches in _SWITCHES.items():
        if stage not in chain and not (stage == "temperature" and "hlg" in chain):
            for name in switches:
                fields.pop(name, None)
    if "hlg" in chain:
        fields.pop("dynatemp_range", None)
    else:
        fields.pop("hlg_width", None)
    return fields


def check_chain(spec: SamplingSpec) -> None:
    """Raises UnsupportedField for a stage in `samplers` that does not exist here, InvalidField for other mirostats."""
    for name in spec.samplers or ():
        if name not in _SWITCHES:
            raise UnsupportedField(
                f"This engine has no sampling stage '{name}'.",
                field="samplers",
                remedy=f"Use some of {', '.join(_SWITCHES)}.",
            )
    if spec.mirostat not in (None, 0, 1, 2):
        raise InvalidField("'mirostat' must be 0, 1 or 2.", field="mirostat")
