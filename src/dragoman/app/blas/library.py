"""A BLAS library loaded into this process: what it is, how many threads it uses. Knows no MLX and no settings.

Only libraries that export the standard `cblas_sgemm` with 32-bit integers serve, since that is what MLX is linked with.
The copies of OpenBLAS inside Python wheels name it differently, so that several can live in one process.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
from collections.abc import Mapping
from pathlib import Path

# Setters of the number of threads, and the variables that say the user has chosen it.
_THREAD_SETTERS = ("openblas_set_num_threads", "MKL_Set_Num_Threads", "bli_thread_set_num_threads")
_THREAD_VARIABLES = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "OMP_NUM_THREADS")


class BlasLibrary:
    """Opened for this process alone until it is shared. Raises OSError when the library cannot be loaded or exports
    no `cblas_sgemm`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._library = ctypes.CDLL(str(path))
        if not self._has("cblas_sgemm"):
            raise OSError(f"{path.name} exports no cblas_sgemm")

    @property
    def title(self) -> str:
        """Name and version, as far as it tells them; else its file name."""
        openblas = self._text("openblas_get_config")
        if openblas:
            version = re.match(r"OpenBLAS [\d.]+", openblas)
            kernels = self._text("openblas_get_corename")
            return f"{version[0] if version else 'OpenBLAS'} ({kernels})" if kernels else openblas
        return self._mkl() or _labelled("BLIS", self._text("bli_info_get_version_str")) or self.path.name

    def set_threads(self, count: int, environment: Mapping[str, str] = os.environ) -> None:
        """Use `count` threads, unless the user has set a number in the environment."""
        if any(environment.get(name) for name in _THREAD_VARIABLES):
            return
        for setter in _THREAD_SETTERS:
            if self._has(setter):
                self._library[setter](ctypes.c_long(count))

    def share(self) -> ctypes.CDLL:
        """Put its `cblas_sgemm` before that of every library loaded later, for good: a symbol in the global scope wins
        over the same symbol in a library that is loaded later (dlopen(3), RTLD_GLOBAL). Gives what exports it."""
        return ctypes.CDLL(str(self.path), mode=ctypes.RTLD_GLOBAL)

    def _has(self, symbol: str) -> bool:
        return hasattr(self._library, symbol)

    def _text(self, name: str) -> str:
        if not self._has(name):
            return ""
        function = self._library[name]
        function.restype = ctypes.c_char_p
        text: bytes | None = function()
        return (text or b"").decode(errors="replace").strip()

    def _mkl(self) -> str:
        if not self._has("MKL_Get_Version_String"):
            return ""
        buffer = ctypes.create_string_buffer(200)
        with contextlib.suppress(OSError):
            self._library.MKL_Get_Version_String(buffer, len(buffer) - 1)
        version = re.search(r"Version (\S+)", buffer.value.decode(errors="replace"))
        return _labelled("MKL", version[1]) if version else "MKL"


def shared_blas() -> Path | None:
    """The file whose `cblas_sgemm` a library loaded from now on would use instead of its own: one preloaded or shared
    before. None when there is none."""
    process = ctypes.CDLL(None)
    if not hasattr(process, "cblas_sgemm"):
        return None
    address = ctypes.cast(process.cblas_sgemm, ctypes.c_void_p)
    found = _Place()
    dladdr = process.dladdr
    dladdr.argtypes = (ctypes.c_void_p, ctypes.POINTER(_Place))
    return Path(found.file.decode()) if dladdr(address, ctypes.byref(found)) and found.file else Path()


class _Place(ctypes.Structure):
    """Dl_info of dladdr(3)."""

    file: bytes
    _fields_ = (
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("symbol", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    )


def _labelled(label: str, version: str) -> str:
    return f"{label} {version}" if version else ""
