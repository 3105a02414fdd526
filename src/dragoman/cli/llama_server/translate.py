"""Flags of llama-server as those of `dragoman serve`. Reads no command line, starts nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field

from dragoman.cli.llama_server.read import BadFlag, Given
from dragoman.config import EngineSettings

_LANES = EngineSettings().max_lanes
"""llama-server's `-np -1` is as many as ours by default."""
_KV_BITS = {"q8_0": "8", "q4_0": "4"}
_DRAFTERS = {"none", "ngram-simple", "ngram-map-k", "ngram-map-k4v", "ngram-mod", "ngram-cache"}
_MIB = 1 << 20


class Serving(Struct, frozen=True):
    """What to serve and how: the model as `dragoman serve` takes it, whether it may be fetched, and the flags."""

    model: str | None
    fetch: bool
    flags: tuple[str, ...]


class _Draft(Struct):
    """What the flags read so far come to: `single` ones, of which the last counts ('' for a switch), those that may be
    repeated, and values that only together make a flag."""

    single: dict[str, str] = field(default_factory=dict[str, str])

    values: dict[str, str] = field(default_factory=dict[str, str])
    flags: list[str] = field(default_factory=list[str])


def translate(given: Sequence[Given]) -> Serving:
    """The same server in our words. Raises BadFlag for a value that cannot be had."""
    draft = _Draft()
    for one in given:
        match one.flag.means:
            case "ours":
                draft.single[one.flag.to] = one.value
            case "engine":
                draft.flags.append(f"--engine-arg={one.flag.name}{f' {one.value}' if one.value else ''}")
            case "made":
                MAKERS[one.flag.to](draft, one)
            case _:
                pass
    model = _model(draft.values)
    single = [word for name, value in draft.single.items() for word in ((name, value) if value else (name,))]
    flags = (*single, *draft.flags, *_window(draft.values, model), *_cache_types(draft.values))
    return Serving(model, "repository" in draft.values and "offline" not in draft.values, flags)


def _model(values: Mapping[str, str]) -> str | None:
    path = values.get("model")
    if path is None:
        return values.get("repository")
    # A bare name is a file, as a script means it, and no alias.
    return path if "/" in path or "\\" in path or not Path(path).exists() else f"./{path}"


def _window(values: Mapping[str, str], model: str | None) -> list[str]:
    """`-c` is for all lanes together there, `--ctx` for each here. Without -np they share one pool, of which a request
    may take all."""
    total, told = _whole(values, "--ctx-size"), _whole(values, "--parallel")
    lanes = told if told > 0 else _LANES
    pooled = values.get("unified", "" if "--parallel" in values and told > 0 else "on") == "on"
    folder = model is not None and Path(model).is_dir()
    flags = ["--max-lanes", str(lanes)] if "--parallel" in values else []
    if total > 0:
        flags += ("--ctx", str(total if folder and told <= 0 else max(1, total // lanes)))
    if pooled and not folder and ("unified" in values or total > 0):
        flags.append("--kv-unified")
    elif values.get("unified") == "off" and not folder and not total:
        flags.append("--no-kv-unified")
    return flags


def _cache_types(values: Mapping[str, str]) -> list[str]:
    """The same 4 or 8 bits for both are a setting of ours; anything else the engine is told."""
    kinds = [values.get(name, "f16") for name in ("--cache-type-k", "--cache-type-v")]
    if kinds[0] == kinds[1] and kinds[0] in _KV_BITS:
        return ["--kv-bits", _KV_BITS[kinds[0]]]
    names = ("--cache-type-k", "--cache-type-v")
    return [f"--engine-arg={name} {values[name]}" for name in names if values.get(name, "f16") != "f16"]


def _whole(values: Mapping[str, str], name: str) -> int:
    return _number(name, values[name]) if name in values else 0


def _number(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise BadFlag(f"llama-server's {name} needs a whole number, not '{text}'.") from None


# One function for each flag that is no plain flag of ours, by its name in the table.


def _keep(draft: _Draft, given: Given) -> None:
    draft.values[given.flag.name] = given.value


def _keep_model(draft: _Draft, given: Given) -> None:
    draft.values[given.flag.to] = given.value


def _keep_window(draft: _Draft, given: Given) -> None:
    if given.flag.argument == "one":
        _number(given.said, given.value)
        draft.values[given.flag.name] = given.value
    else:
        draft.values["unified"] = "off" if given.flag.name.startswith("--no-") else "on"


def _answer_length(draft: _Draft, given: Given) -> None:
    count = _number(given.said, given.value)
    if count >= 0:
        draft.single["--default-max-tokens"] = str(max(1, count))


def _host(draft: _Draft, given: Given) -> None:
    if given.value.endswith(".sock"):
        raise BadFlag("A Unix socket cannot be listened on here.", remedy="Name an address with --host.")
    draft.single["--host"] = given.value


def _keys(draft: _Draft, given: Given) -> None:
    for key in filter(None, given.value.split(",")):
        draft.flags += ("--api-key", key)


def _keys_file(draft: _Draft, given: Given) -> None:
    try:
        lines = Path(given.value).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise BadFlag(f"The file of API keys '{given.value}' cannot be read.") from error
    for line in lines:
        if line.strip() and not line.startswith("#"):
            draft.flags += ("--api-key", line.strip())


def _aliases(draft: _Draft, given: Given) -> None:
    for name in filter(None, (name.strip() for name in given.value.split(","))):
        draft.flags += ("--alias", name)


def _cache_ram(draft: _Draft, given: Given) -> None:
    mebibytes = _number(given.said, given.value)
    draft.single["--prompt-cache-bytes"] = str(mebibytes * _MIB if mebibytes >= 0 else -1)


def _layers(draft: _Draft, given: Given) -> None:
    if given.value in ("auto", "all"):
        draft.flags.append(f"--engine-arg=--n-gpu-layers {given.value}")
    else:
        draft.single["--gpu-layers"] = str(max(-1, _number(given.said, given.value)))


def _attention(draft: _Draft, given: Given) -> None:
    words = {"1": "on", "true": "on", "enabled": "on", "0": "off", "false": "off", "disabled": "off"}
    choice = words.get(given.value.lower(), given.value.lower())
    if choice not in ("on", "off", "auto"):
        raise BadFlag(f"llama-server's {given.said} is on, off or auto, not '{given.value}'.")
    draft.single["--flash-attention"] = choice


def _no_projector(draft: _Draft, _: Given) -> None:
    draft.single["--mmproj"] = "none"


def _adapters(draft: _Draft, given: Given) -> None:
    for path in filter(None, given.value.split(",")):
        draft.flags += ("--adapter", f"{Path(path).stem}={path}")


def _scaled_adapters(draft: _Draft, given: Given) -> None:
    for item in filter(None, given.value.split(",")):
        path, colon, _ = item.rpartition(":")
        if not colon:
            raise BadFlag(f"llama-server's {given.said} needs FILE:SCALE, not '{item}'.")
        draft.flags += ("--adapter", f"{Path(path).stem}={item}")


def _origins(draft: _Draft, given: Given) -> None:
    for origin in filter(None, given.value.split(",")):
        if origin != "localhost":  # which is always allowed
            draft.flags += ("--cors-origins", origin)


def _ping(draft: _Draft, given: Given) -> None:
    draft.single["--sse-ping"] = str(max(0, _number(given.said, given.value)))


def _embeddings(draft: _Draft, _: Given) -> None:
    draft.single["--embeddings"] = ""


def _rerank(draft: _Draft, _: Given) -> None:
    draft.single["--pooling"] = "rank"


def _drafter(draft: _Draft, given: Given) -> None:
    if given.value in _DRAFTERS:
        draft.single["--drafter"] = given.value
    else:
        draft.flags.append(f"--engine-arg=--spec-type {given.value}")


def _context_shift(draft: _Draft, _: Given) -> None:
    draft.single["--context-shift"] = ""


def _verbose(draft: _Draft, _: Given) -> None:
    draft.single["--log-level"] = "debug"


def _quiet(draft: _Draft, _: Given) -> None:
    draft.single["--log-level"] = "error"


def _verbosity(draft: _Draft, given: Given) -> None:
    """Theirs: 0 output, 1 errors, 2 warnings, 3 information, 4 and more debugging."""
    level = _number(given.said, given.value)
    names = ("error", "error", "warning", "info", "debug")
    draft.single["--log-level"] = names[min(max(level, 0), 4)]


def _reasoning_format(_: _Draft, given: Given) -> None:
    if given.value == "none":
        raise BadFlag(
            f"llama-server's {given.said} none cannot be set for all requests.",
            remedy="Send reasoning_format: none with the request.",
        )


def _reasoning_budget(_: _Draft, given: Given) -> None:
    if _number(given.said, given.value) >= 0:
        raise BadFlag(
            f"llama-server's {given.said} cannot be set for all requests.",
            remedy="Send thinking_budget_tokens, or reasoning_effort: none, with the request.",
        )


def _seed(_: _Draft, given: Given) -> None:
    if _number(given.said, given.value) != -1:
        raise BadFlag(
            f"llama-server's {given.said} cannot be set for all requests.", remedy="Send seed with the request."
        )


def _vector_norm(_: _Draft, given: Given) -> None:
    if _number(given.said, given.value) != 2:
        raise BadFlag(f"llama-server's {given.said} is 2 here.", remedy="Send embd_normalize with the request.")


MAKERS: Mapping[str, Callable[[_Draft, Given], None]] = {
    "model": _keep_model,
    "repository": _keep_model,
    "offline": _keep_model,
    "window": _keep_window,
    "cache_types": _keep,
    "answer_length": _answer_length,
    "host": _host,
    "keys": _keys,
    "keys_file": _keys_file,
    "aliases": _aliases,
    "cache_ram": _cache_ram,
    "layers": _layers,
    "attention": _attention,
    "no_projector": _no_projector,
    "adapters": _adapters,
    "scaled_adapters": _scaled_adapters,
    "origins": _origins,
    "ping": _ping,
    "embeddings": _embeddings,
    "rerank": _rerank,
    "drafter": _drafter,
    "context_shift": _context_shift,
    "verbose": _verbose,
    "quiet": _quiet,
    "verbosity": _verbosity,
    "reasoning_format": _reasoning_format,
    "reasoning_budget": _reasoning_budget,
    "seed": _seed,
    "vector_norm": _vector_norm,
}
