"""Loads an mlx-lm checkpoint folder. Builds the model and its facts; knows no tokenizer, cache or request."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

from msgspec import Struct

from dragoman.core.errors import EngineFailure
from dragoman.engines.mlx.arrays import finish
from dragoman.engines.mlx.facts import ModelFacts, context_of, quantization_of, width_of
from dragoman.engines.mlx.precision import Dtype, convert, stored_type, target_of


class LoadedModel(Struct, frozen=True):
    """A model with its weights in memory, and what is known of it. `facts.vocab_size` is what its config says; the
    width of its logits decides."""

    model: Any
    facts: ModelFacts


def load_checkpoint(folder: Path, dtype: Dtype = "auto") -> LoadedModel:
    """The model in `folder` (config.json and model*.safetensors, as Hugging Face and mlx-lm write them).

    Code inside the folder is never run. Raises EngineFailure when something is missing, broken or not supported.
    """
    config = _read_config(folder)
    _check_weights(folder)
    model, config = _build(folder, config)
    parameters = _count(model)
    stored = stored_type(model)
    target = target_of(dtype)
    try:
        if target is not None:
            convert(model, target)
        finish(model.parameters())
    except (RuntimeError, ValueError) as error:
        raise EngineFailure(f"The weights in {folder} could not be read: {error}") from error
    facts = ModelFacts(
        architecture=str(config.get("model_type", "")),
        parameters=parameters,
        vocab_size=_vocab_size(config),
        embedding_length=width_of(config),
        trained_context=context_of(config),
        quantization=quantization_of(config, stored),
    )
    return LoadedModel(model, facts)


def _read_config(folder: Path) -> dict[str, Any]:
    path = folder / "config.json"
    try:
        config = json.loads(path.read_bytes())
    except FileNotFoundError as error:
        raise EngineFailure(f"{folder} has no config.json, so it is no model folder MLX can load.") from error
    except (OSError, ValueError) as error:
        raise EngineFailure(f"{path} cannot be read as JSON: {error}") from error
    if not isinstance(config, dict) or not isinstance(cast("dict[str, Any]", config).get("model_type"), str):
        raise EngineFailure(f"{path} does not name a model_type, so there is not enough information to load the model.")
    config = cast("dict[str, Any]", config)
    if config.get("model_file") is not None:
        raise EngineFailure(
            f"The model in {folder} needs its own Python code ({config['model_file']}), which is never run.",
            remedy="Use a checkpoint of an architecture mlx-lm has itself.",
        )
    return config


def _check_weights(folder: Path) -> None:
    """Every weight file is there and whole. A file cut short would otherwise fail deep inside a later computation."""
    files = sorted(folder.glob("model*.safetensors"))
    if not files:
        raise EngineFailure(
            f"{folder} has no weights: no file is named model*.safetensors.",
            remedy="Download the model completely, or convert it with mlx_lm.convert.",
        )
    missing = _shards(folder) - {file.name for file in files}
    if missing:
        raise EngineFailure(
            f"{folder} lacks {len(missing)} weight file(s) its index names: {', '.join(sorted(missing)[:3])}.",
            remedy="Download the model completely.",
        )
    for file in files:
        _check_safetensors(file)


def _shards(folder: Path) -> set[str]:
    """File names in the shard index, if there is one; other indexes (consolidated.*) are not ours."""
    path = folder / "model.safetensors.index.json"
    if not path.exists():
        return set()
    try:
        names = json.loads(path.read_bytes())["weight_map"].values()
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
        raise EngineFailure(f"{path} cannot be read as an index of weight files: {error}") from error
    return {str(name) for name in names}


def _check_safetensors(path: Path) -> None:
    """The header is JSON and the file as long as it says (https://github.com/huggingface/safetensors, format)."""
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > size - 8:
            raise _broken(path, "it is shorter than its header")
        try:
            header = cast("dict[str, dict[str, Any]]", json.loads(file.read(length)))
            ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
        except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
            raise _broken(path, "its header is no valid JSON") from error
    if max(ends, default=0) > size - 8 - length:
        raise _broken(path, "it ends before its last tensor")


def _broken(path: Path, reason: str) -> EngineFailure:
    return EngineFailure(f"{path} is damaged or incomplete: {reason}.", remedy="Download it again.")


def _build(folder: Path, config: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The model with its weights mapped, and the config as mlx-lm completed it."""
    load_model: Callable[..., tuple[Any, dict[str, Any]]] = import_mlx_lm("utils").load_model
    model_type = config["model_type"]
    try:
        return load_model(folder, lazy=True)
    except (TypeError, KeyError, AttributeError) as error:
        raise EngineFailure(
            f"{folder}/config.json does not describe a {model_type} model that mlx-lm can build: {error}"
        ) from error
    except ValueError as error:
        if "not supported" in str(error) and "Model type" in str(error):
            raise EngineFailure(
                f"mlx-lm has no model of type '{model_type}'.",
                remedy="Upgrade mlx-lm, or serve a GGUF of the model with llama.cpp.",
            ) from error
        raise EngineFailure(f"{folder} cannot be loaded as a {model_type} model: {error}") from error
    except (RuntimeError, OSError, AssertionError) as error:
        raise EngineFailure(f"The weights in {folder} could not be read: {error}") from error


def import_mlx_lm(name: str) -> Any:
    """A module of mlx-lm, given back untyped.

    Importing mlx-lm lowers this process's limit of open files to 2048, soft, and 4096, hard; the soft limit is raised
    again as far as that allows, because a server needs one for each connection.
    """
    import importlib
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        module = importlib.import_module(f"mlx_lm.{name}")
    except ImportError as error:
        raise EngineFailure(
            f"mlx-lm cannot be imported: {error}.", remedy="Run pip install 'dragoman[mlx]'."
        ) from error
    except ValueError as error:
        raise EngineFailure(
            f"mlx-lm cannot be imported: {error}.", remedy="Allow at least 4096 open files (ulimit -Hn)."
        ) from error
    now, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if now < soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard))
    return module


def _count(model: Any) -> int:
    """Weights as trained: a packed one counts as what it stands for."""
    total: Callable[[Any], int] = import_mlx_lm("utils").get_total_parameters
    return int(total(model))


def _vocab_size(config: Mapping[str, Any]) -> int:
    nested = cast("Mapping[str, Any]", config.get("text_config") or {})
    return int(config.get("vocab_size") or nested.get("vocab_size") or 0)
