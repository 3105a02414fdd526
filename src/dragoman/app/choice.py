"""Which engine serves a model, and what is missing when none can."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Literal

from msgspec import Struct

from dragoman.catalog.local import LocalModel
from dragoman.config import EngineSettings
from dragoman.core.errors import EngineFailure

EngineName = Literal["mlx", "llamacpp"]

_PACKAGES: dict[EngineName, tuple[str, ...]] = {"mlx": ("mlx", "mlx_lm"), "llamacpp": ("xllamacpp",)}
_MLX_GGUF_ARCHITECTURES = ("llama", "qwen2", "qwen3")
_USE_LLAMACPP = "Leave --engine out to use llama.cpp."
_MLX_GGUF_TYPES = ("F32", "F16", "Q4_0", "Q4_1", "Q8_0")


class EngineState(Struct, frozen=True, kw_only=True):
    """Whether an engine is installed: `detail` is its version, or the command that installs it."""

    name: EngineName
    installed: bool
    detail: str


def engine_states() -> tuple[EngineState, ...]:
    """All engines of this build."""
    return tuple(_state(name) for name in _PACKAGES)


def choose_engine(model: LocalModel, settings: EngineSettings) -> EngineName:
    """The engine for `model`: as told, else llama.cpp for GGUF and MLX for safetensors. Raises EngineFailure with the
    install command when it is missing, or with the reason when the two do not fit together."""
    if settings.engine in ("mlx", "llamacpp"):
        chosen: EngineName = settings.engine
    else:
        chosen = "llamacpp" if model.format == "gguf" else "mlx"
    misfit = _misfit(model, chosen)
    if misfit:
        raise EngineFailure(misfit)
    state = _state(chosen)
    if not state.installed and not (chosen == "llamacpp" and settings.llama_server):
        raise EngineFailure(f"The engine {chosen} is not installed.", remedy=f"Run: {state.detail}")
    return chosen


def reason(model: LocalModel, settings: EngineSettings) -> str:
    """One line for `doctor`: which engine would serve `model` and why, or why none can."""
    try:
        chosen = choose_engine(model, settings)
    except EngineFailure as failure:
        return failure.sentence
    told = "as told by --engine" if settings.engine != "auto" else f"because it is {model.format}"
    return f"{chosen}, {told}"


def _misfit(model: LocalModel, engine: EngineName) -> str:
    if engine == "llamacpp" and model.format != "gguf":
        return f"llama.cpp serves GGUF files only; '{model.id}' is {model.format}. Leave --engine out to use MLX."
    if engine == "mlx" and model.header is not None:
        unfit = sorted({tensor.type for tensor in model.header.tensors} - set(_MLX_GGUF_TYPES))
        if model.architecture not in _MLX_GGUF_ARCHITECTURES:
            return (
                f"MLX cannot read GGUF files of the {model.architecture} family. Leave --engine out to use llama.cpp."
            )
        if unfit:
            return f"MLX cannot read {unfit[0]} tensors from GGUF. Leave --engine out to use llama.cpp."
    return ""


def _state(name: EngineName) -> EngineState:
    if any(find_spec(package) is None for package in _PACKAGES[name]):
        return EngineState(name=name, installed=False, detail=f"pip install 'dragoman[{name}]'")
    try:
        return EngineState(name=name, installed=True, detail=version(_PACKAGES[name][0]))
    except PackageNotFoundError:
        return EngineState(name=name, installed=True, detail="unknown version")


def machine() -> str:
    """The machine in one line."""
    return f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
