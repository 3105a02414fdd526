"""Native sampling fields to the core's spec: sampler names, biases, and which stages are on. Draws nothing."""

from __future__ import annotations

import math
import re
from typing import Any, cast

from msgspec import Struct
from msgspec.structs import replace

from dragoman.core.sampling import SamplingSpec
from dragoman.dialects.llamacpp.casts import to_float
from dragoman.dialects.llamacpp.errors import NativeError, field_error, wrong_type
from dragoman.dialects.llamacpp.schema import RANDOM_SEED

DEFAULT_CHAIN = ("penalties", "dry", "top_n_sigma", "top_k", "typ_p", "top_p", "min_p", "xtc", "temperature")
DEFAULT_BREAKERS = ("\n", ":", '"', "*")

_NAMES = ("dry", "top_k", "top_p", "top_n_sigma", "typ_p", "min_p", "temperature", "xtc", "infill", "penalties")
_BY_NAME = {name.replace("_", ""): name for name in (*_NAMES, "adaptive_p")} | {
    "nucleus": "top_p",
    "temp": "temperature",
    "typ": "typ_p",
}
_BY_CHAR = {
    "d": "dry",
    "k": "top_k",
    "y": "typ_p",
    "p": "top_p",
    "s": "top_n_sigma",
    "m": "min_p",
    "t": "temperature",
    "x": "xtc",
    "i": "infill",
    "e": "penalties",
    "a": "adaptive_p",
}
_WHOLE_NUMBER = re.compile(r"[ \t\n\v\f\r]*[+-]?[0-9]+")


class Chain(Struct, frozen=True):
    """What is drawn with beside the scalar fields. `biases` keeps the order and repetitions of the request."""

    samplers: tuple[str, ...]
    breakers: tuple[str, ...]
    biases: tuple[tuple[int | str, float], ...]


def read_chain(body: dict[str, Any]) -> Chain:
    """The structured sampling fields of `body`. Raises NativeError."""
    return Chain(
        samplers=_samplers(body.get("samplers")),
        breakers=_breakers(body.get("dry_sequence_breakers")),
        biases=_biases(body.get("logit_bias")),
    )


def without_infill(chain: Chain) -> Chain:
    """The chain for an engine that has no such stage."""
    return replace(chain, samplers=tuple(name for name in chain.samplers if name != "infill"))


def sampling_spec(values: dict[str, Any], chain: Chain) -> SamplingSpec:
    """The spec in force. Everyday fields are always set, since this wire has defaults of its own; the rarer stages
    are set only where they do something, so that an engine without them is not asked for nothing."""
    if values["repeat_penalty"] <= 0.0:
        raise NativeError(
            "Failed to initialize samplers: penalty_repeat must be finite and greater than 0", field="repeat_penalty"
        )
    rare: dict[str, Any] = {}
    for stage in _RARE:
        rare |= stage(values, chain)
    return SamplingSpec(
        temperature=values["temperature"],
        top_k=values["top_k"],
        top_p=values["top_p"],
        min_p=values["min_p"],
        repetition_penalty=values["repeat_penalty"],
        presence_penalty=values["presence_penalty"],
        frequency_penalty=values["frequency_penalty"],
        penalty_window=values["repeat_last_n"],
        seed=None if values["seed"] == RANDOM_SEED else values["seed"],
        **rare,
    )


def _chain_changes(values: dict[str, Any], chain: Chain) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    if chain.samplers != DEFAULT_CHAIN:
        changes["samplers"] = chain.samplers
    if values["ignore_eos"]:
        changes["ignore_eos"] = True
    if "adaptive_p" in chain.samplers:
        changes |= {name: values[name] for name in ("adaptive_target", "adaptive_decay")}
    return changes


def _filters(values: dict[str, Any], chain: Chain) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    if values["typical_p"] != 1.0:
        changes["typical_p"] = values["typical_p"]
    if values["top_n_sigma"] > 0.0:
        changes["top_n_sigma"] = values["top_n_sigma"]
    if values["xtc_probability"] > 0.0:
        changes |= {name: values[name] for name in ("xtc_probability", "xtc_threshold")}
    if values["min_keep"]:
        changes["min_keep"] = values["min_keep"]
    return changes


def _temperatures(values: dict[str, Any], chain: Chain) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    if values["dynatemp_range"] > 0.0:
        changes |= {name: values[name] for name in ("dynatemp_range", "dynatemp_exponent")}
    if values["mirostat"]:
        changes |= {name: values[name] for name in ("mirostat", "mirostat_tau", "mirostat_eta")}
    return changes


def _dry(values: dict[str, Any], chain: Chain) -> dict[str, Any]:
    if values["dry_multiplier"] == 0.0:
        return {}
    return {
        "dry_multiplier": values["dry_multiplier"],
        "dry_base": values["dry_base"],
        "dry_allowed_length": values["dry_allowed_length"],
        "dry_penalty_window": values["dry_penalty_last_n"],
        "dry_sequence_breakers": chain.breakers,
    }


_RARE = (_chain_changes, _filters, _temperatures, _dry)


def _samplers(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return tuple(_BY_CHAR[char] for char in value if char in _BY_CHAR)
    if not isinstance(value, list):
        return DEFAULT_CHAIN
    chain: list[str] = []
    for item in cast("list[object]", value):
        if not isinstance(item, str):
            raise field_error("samplers", wrong_type("string", item))
        name = _BY_NAME.get(item.casefold().replace("-", "").replace("_", ""))
        if name:
            chain.append(name)
    return tuple(chain)


def _breakers(value: object) -> tuple[str, ...]:
    if value is None:
        return DEFAULT_BREAKERS
    items = cast("list[object]", value) if isinstance(value, list) else []
    words = tuple(item for item in items if isinstance(item, str))
    if not words or len(words) != len(items):
        problem = "Error: dry_sequence_breakers must be a non-empty array of strings"
        raise field_error("dry_sequence_breakers", problem)
    return words


def _biases(value: object) -> tuple[tuple[int | str, float], ...]:
    """Pairs of id or text and addend. Wrong items are dropped without a word, as llama-server does; what a text stands
    for is the vocabulary's affair."""
    biases: list[tuple[int | str, float]] = []
    for key, addend in _bias_items(value):
        bias = _bias(addend)
        if bias is None or not isinstance(key, int | str) or isinstance(key, bool):
            continue
        if isinstance(key, str) or 0 <= key < 2**31:
            biases.append((key, bias))
    return tuple(biases)


def _bias_items(value: object) -> list[tuple[object, object]]:
    if isinstance(value, dict):
        return [
            (int(key) if _WHOLE_NUMBER.fullmatch(key) and len(key) < 32 else key, addend)
            for key, addend in cast("dict[str, object]", value).items()
        ]
    items = cast("list[object]", value) if isinstance(value, list) else []
    pairs = [cast("list[object]", item) for item in items if isinstance(item, list)]
    return [(pair[0], pair[1]) for pair in pairs if len(pair) == 2]


def _bias(addend: object) -> float | None:
    if addend is False:
        return -math.inf
    if isinstance(addend, bool) or not isinstance(addend, int | float):
        return None
    return to_float(addend)
