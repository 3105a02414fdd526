"""Ollama's `options` to the core's sampling spec, token limit and stop strings. Knows no defaults: what is not given
stays unset."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from msgspec import Struct

from dragoman.core.errors import InvalidField
from dragoman.core.sampling import SamplingSpec

_FLOATS: dict[str, tuple[str, float | None, float | None]] = {
    "temperature": ("temperature", 0.0, None),
    "top_p": ("top_p", 0.0, 1.0),
    "min_p": ("min_p", 0.0, 1.0),
    "typical_p": ("typical_p", 0.0, 1.0),
    "repeat_penalty": ("repetition_penalty", 0.01, None),
    "presence_penalty": ("presence_penalty", None, None),
    "frequency_penalty": ("frequency_penalty", None, None),
}
_MOST = 2**31 - 1
_MIROSTAT = ("mirostat_tau", "mirostat_eta")
_READ = frozenset(
    {*_FLOATS, *_MIROSTAT, "top_k", "repeat_last_n", "seed", "num_predict", "stop", "mirostat"},
)


class Options(Struct, frozen=True, kw_only=True):
    """Options as read. `ignored` names those that were given but have no effect here, such as `options.num_ctx`:
    the window is set when a model is loaded, which no request does."""

    sampling: SamplingSpec = SamplingSpec()
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()


def read_options(options: Mapping[str, Any] | None, at: str = "options") -> Options:
    """`at` is where they stand in the body. Raises InvalidField with the dotted name of the option."""
    given = {name: value for name, value in (options or {}).items() if value is not None}
    fields: dict[str, Any] = {}
    for name, (target, low, high) in _FLOATS.items():
        if name in given:
            fields[target] = _within(name, _number(name, given[name]), low, high)
    if fields.get("typical_p") == 1.0:
        del fields["typical_p"]  # 1 switches the stage off, so no engine need have it.
    fields |= _whole_numbers(given) | _mirostat(given)
    return Options(
        sampling=SamplingSpec(**fields),
        max_tokens=_limit(given),
        stop=_stop(given.get("stop")),
        ignored=tuple(f"{at}.{name}" for name in sorted(set(given) - _READ)),
    )


def _whole_numbers(given: dict[str, Any]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    if "top_k" in given:
        fields["top_k"] = min(max(0, _integer("top_k", given["top_k"])), _MOST)
    if "repeat_last_n" in given:
        fields["penalty_window"] = min(max(-1, _integer("repeat_last_n", given["repeat_last_n"])), _MOST)
    if "seed" in given:
        seed = _integer("seed", given["seed"])
        # Negative seeds ask for a random one.
        fields["seed"] = None if seed < 0 else seed % 2**64
    return fields


def _mirostat(given: dict[str, Any]) -> dict[str, Any]:
    version = _integer("mirostat", given.get("mirostat", 0))
    if not 0 <= version <= 2:
        raise _invalid("mirostat", "must be 0, 1 or 2")
    settings = {name: _number(name, given[name]) for name in _MIROSTAT if name in given}
    return {"mirostat": version, **settings} if version else {}


def _limit(given: dict[str, Any]) -> int | None:
    """-1 (no limit), -2 (fill the window) and 0 all mean the room left."""
    limit = _integer("num_predict", given.get("num_predict", -1))
    return min(limit, _MOST) if limit > 0 else None


def _stop(value: object) -> tuple[str, ...]:
    if value is None:
        return ()
    if isinstance(value, str):
        return (value,) if value else ()
    words = cast("list[object]", value) if isinstance(value, list) else [None]
    if not all(isinstance(word, str) for word in words):
        raise _invalid("stop", "must be an array of strings")
    return tuple(word for word in cast("list[str]", words) if word)


def _number(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _invalid(name, "must be a number")
    return float(min(max(value, -3.4e38), 3.4e38))


def _integer(name: str, value: object) -> int:
    """Whole numbers; a fraction is cut, as Ollama does with the floats some clients send."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _invalid(name, "must be an integer")
    return int(value)


def _within(name: str, value: float, low: float | None, high: float | None) -> float:
    if (low is not None and value < low) or (high is not None and value > high):
        ends = f"at least {low:g}" if high is None else f"between {low:g} and {high:g}"
        raise _invalid(name, f"must be {ends}")
    return value


def _invalid(name: str, problem: str) -> InvalidField:
    return InvalidField(f"option '{name}' {problem}", field=f"options.{name}")
