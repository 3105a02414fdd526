"""Gives MLX on a Linux CPU a fast BLAS in place of the one in its wheel. Knows no engine and no model.

The wheel `mlx-cpu` brings the reference BLAS of Netlib, one to two orders of magnitude slower than an optimized one.
MLX binds `cblas_sgemm` when it is imported, to the first library in the process's global scope that has it. So a fast
library is found, tried out in a process of its own, and shared before MLX is imported; nothing is restarted and no
environment variable is set. Where that fails MLX works as before, only slower. A library the user has preloaded
(LD_PRELOAD) comes first.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

from msgspec import Struct

from dragoman.app.blas.library import BlasLibrary, shared_blas
from dragoman.app.blas.search import Candidate, candidates
from dragoman.app.blas.trial import Trial, try_out
from dragoman.backend.llamacpp.threads import usable_cores
from dragoman.core.errors import EngineFailure

TryOut = Callable[[Path, int], Trial]


class BlasChoice(Struct, frozen=True, kw_only=True):
    """What MLX multiplies with. `path` is None when it keeps what it was linked with; `kind` is the library's name and
    version; `rate` its float32 GFLOP/s on a small product; `reason` says why this one."""

    path: Path | None = None
    kind: str = ""
    rate: float = 0.0
    reason: str

    @property
    def sentence(self) -> str:
        """For the log."""
        return f"MLX uses {self.kind if self.path else 'the BLAS it came with'}: {self.reason}."


class Process(Struct, frozen=True, kw_only=True):
    """What decides whether a BLAS is wanted. `reference` is the slow library MLX was installed with, if it was;
    `imported`: MLX has been imported; `shared`: the library in the global scope, if there is one."""

    system: str
    reference: Path | None = None
    imported: bool = False
    shared: Path | None = None


def ensure(choice: str, engine: str, threads: int = 0) -> BlasChoice:
    """Share a BLAS for MLX if that is wanted and possible; to be called before MLX is imported, and harmless at any
    other time. `choice` is `auto`, `off` or the path of a library; `threads` 0 means `sensible_threads`. Blocks for
    some tenths of a second. Raises EngineFailure when a library named by path cannot be used."""
    process = this_process()
    declined = needless(choice, engine, process)
    if declined:
        return BlasChoice(path=process.shared, kind=str(process.shared or ""), reason=declined)
    threads = threads or sensible_threads(usable_cores())
    found = find_blas(choice, threads)
    if found.path is None:
        return found
    try:
        library = BlasLibrary(found.path)
        library.share()
    except OSError as error:
        return BlasChoice(reason=f"{found.path} could not be shared ({error})")
    library.set_threads(threads)
    return found


def needless(choice: str, engine: str, process: Process) -> str:
    """Why no BLAS is to be shared; empty when one is."""
    if engine != "mlx":
        return "the engine is not MLX"
    if process.system != "Linux":
        return f"MLX needs no other on {process.system}"
    if choice == "off":
        return "--mlx-blas is off"
    if process.shared is not None:
        return "it was loaded beforehand"
    if process.imported:
        return "MLX is already loaded"
    if choice == "auto" and process.reference is None:
        return "it is not the slow one of the mlx-cpu wheel"
    return ""


def sensible_threads(cores: int) -> int:
    """One core is left to the server. Threads of a BLAS wait for each other in busy loops: where one of them has to
    share its core, all of them stand still, and the product takes many times as long as on a single core."""
    return max(1, cores - 1)


def this_process() -> Process:
    """The process as it is."""
    system = platform.system()
    return Process(
        system=system,
        reference=reference_blas(),
        imported="mlx.core" in sys.modules,
        shared=shared_blas() if system == "Linux" else None,
    )


def reference_blas() -> Path | None:
    """The BLAS inside the mlx-cpu wheel; None when MLX is absent or was built in another way."""
    spec = find_spec("mlx")
    folders = list(spec.submodule_search_locations or ()) if spec else []
    found = [path for folder in folders for path in sorted(Path(folder).parent.glob("mlx_cpu.libs/libblas*.so*"))]
    return found[0] if found else None


def find_blas(
    choice: str, threads: int, *, tried: TryOut = try_out, searched: Callable[[], Iterator[Candidate]] | None = None
) -> BlasChoice:
    """The library named by `choice`, or for `auto` the first candidate that passes its trial. Raises EngineFailure
    when the named one does not."""
    if choice != "auto":
        return _named(choice, threads, tried)
    faults: list[str] = []
    for candidate in (searched or candidates)():
        trial = tried(candidate.path, threads)
        if not trial.fault:
            return BlasChoice(path=candidate.path, kind=trial.title, rate=trial.rate, reason=candidate.origin)
        faults.append(f"of {candidate.path} {trial.fault}")
    return BlasChoice(reason="no other was found" + "".join(f"; {fault}" for fault in faults))


def _named(choice: str, threads: int, tried: TryOut) -> BlasChoice:
    path = Path(choice).expanduser()
    # A bare name that is no file here is left to the loader's own search.
    path = path.absolute() if path.exists() or path.name != choice else path
    trial = tried(path, threads)
    if trial.fault:
        raise EngineFailure(
            f"The BLAS '{choice}' named by --mlx-blas cannot be used: {trial.fault}.",
            remedy="Name a shared library that exports cblas_sgemm, or leave --mlx-blas out.",
        )
    return BlasChoice(path=path, kind=trial.title, rate=trial.rate, reason="named by --mlx-blas")
