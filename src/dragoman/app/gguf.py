"""The settings that only llama.cpp has: as its options, and as refusals where another engine serves."""

from __future__ import annotations

from pathlib import Path

import msgspec

from dragoman.backend.llamacpp.adapters import parse_adapter, require_adapters
from dragoman.backend.llamacpp.journal import journal_folder
from dragoman.backend.llamacpp.options import LlamaCppOptions
from dragoman.catalog.local import LocalModel
from dragoman.catalog.projector import find_projector
from dragoman.catalog.store import default_state_dir
from dragoman.config import EngineSettings, Settings
from dragoman.core.errors import EngineFailure

_LLAMACPP_ONLY = {
    "llama_server": "--llama-server",
    "engine_args": "--engine-arg",
    "adapters": "--adapter",
    "draft_model": "--draft-model",
    "drafter": "--drafter",
    "kv_unified": "--kv-unified",
    "context_shift": "--context-shift",
    "flash_attention": "--flash-attention",
    "gpu_layers": "--gpu-layers",
}


def tuned(options: LlamaCppOptions, model: LocalModel, settings: Settings) -> LlamaCppOptions:
    """`options` with these settings. Raises EngineFailure for files that are not there."""
    engine = settings.engine
    adapters = tuple(map(parse_adapter, engine.adapters))
    require_adapters(adapters)
    return msgspec.structs.replace(
        options,
        gpu_layers=engine.gpu_layers,
        kv_bits=engine.kv_bits,
        context_shift=engine.context_shift,
        flash_attention=engine.flash_attention,
        draft_model=_file(engine.draft_model, "draft model") if engine.draft_model else "",
        drafter=engine.drafter,
        draft_max=engine.draft_max,
        draft_min=engine.draft_min,
        draft_p_min=engine.draft_p_min,
        adapters=adapters,
        mmproj="" if options.remote else _mmproj(model, engine.mmproj),
        silence=engine.engine_silence,
        stall=engine.engine_stall,
        journal=journal_folder(settings.state_dir or default_state_dir()),
    )


def require_for_mlx(engine: EngineSettings) -> None:
    """Raises EngineFailure for a setting that MLX would pass over."""
    usual = EngineSettings()
    for name, flag in _LLAMACPP_ONLY.items():
        if getattr(engine, name) != getattr(usual, name):
            raise EngineFailure(f"{flag} is for GGUF models on llama.cpp; MLX serves this one.", remedy="Leave it out.")


def _mmproj(model: LocalModel, choice: str) -> str:
    if choice == "none":
        return ""
    if choice == "auto":
        return str(find_projector(model) or "")
    return _file(choice, "image encoder")


def _file(path: str, what: str) -> str:
    if not Path(path).is_file():
        raise EngineFailure(f"There is no file '{path}' for the {what}.")
    return path
