"""Which matrix library MLX multiplies with under each server on a Linux CPU. Loads none itself."""

from __future__ import annotations

import ctypes.util
import sys
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path

from dragoman.config import EngineSettings

FLAG = "mlx_blas"


def find_blas() -> str | None:
    """A BLAS installed on this system that a process can be started with, by the name the linker knows; None: none, or
    none is needed because MLX brings its own (macOS)."""
    if not sys.platform.startswith("linux"):
        return None
    names = (ctypes.util.find_library(name) for name in ("openblas", "mkl_rt", "blis"))
    return next((name for name in names if name), None)


def preload(blas: str | None) -> Mapping[str, str]:
    """The environment of a process that is to use `blas`."""
    return {} if blas is None else {"LD_PRELOAD": blas}


def by_itself(blas: str | None) -> tuple[tuple[str, ...], Mapping[str, str]]:
    """Flags and environment of our server with the defaults: it looks for a BLAS itself, unless `blas` is the path of
    one. A server without that flag gets it preloaded."""
    if blas is None or not _has_flag():
        return (), preload(blas)
    return (("--mlx-blas", blas) if Path(blas).is_file() else ()), {}


def on_equal_terms(blas: str | None) -> tuple[tuple[str, ...], Mapping[str, str]]:
    """The same for a comparison in which the peer gets `blas` preloaded, or nothing: ours looks for none."""
    return (("--mlx-blas", "off") if _has_flag() else ()), preload(blas)


def _has_flag() -> bool:
    return FLAG in {field.name for field in fields(EngineSettings)}
