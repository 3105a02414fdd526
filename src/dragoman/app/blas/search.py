"""Where fast BLAS libraries lie on a Linux machine. Loads none of them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

HOW_TO_GET_ONE = "install the system's libopenblas0 (apt) or openblas (dnf, pacman), or pip install mkl"

# Sonames in order of preference; of OpenBLAS the builds that use threads first. Names such as libblas.so.3 may stand
# for a reference BLAS and are not looked for.
_SONAMES = (
    "libopenblasp.so.0",
    "libopenblas.so.0",
    "libopenblaso.so.0",
    "libmkl_rt.so.3",
    "libmkl_rt.so.2",
    "libnvpl_blas_lp64_gomp.so.0",
    "libarmpl_lp64_mp.so",
    "libblis.so.4",
)
_LDCONFIG = ("/sbin/ldconfig", "/usr/sbin/ldconfig", "/usr/bin/ldconfig")


class Candidate(Struct, frozen=True):
    """A library that might serve. `origin` says where it was found."""

    path: Path
    origin: str


def candidates() -> Iterator[Candidate]:
    """Libraries on this machine in order of preference: the system's, then those of this Python environment."""
    yield from search(loader_cache(), Path(sys.prefix))


def search(cache: str, prefix: Path) -> Iterator[Candidate]:
    """Candidates in `cache` (the output of `ldconfig -p`) and in an environment's `prefix`; each file once."""
    seen: set[Path] = set()
    for candidate in (*_system(cache), *_environment(prefix)):
        real = candidate.path.resolve()
        if candidate.path.is_file() and real not in seen:
            seen.add(real)
            yield candidate


def _system(cache: str) -> Iterator[Candidate]:
    entries: list[tuple[str, str]] = re.findall(r"^\s*(\S+) \(.*\) => (/.*)$", cache, re.MULTILINE)
    for soname in _SONAMES:
        for name, path in entries:
            if name == soname:
                yield Candidate(Path(path), "found among the system's libraries")


def _environment(prefix: Path) -> Iterator[Candidate]:
    for soname in _SONAMES:
        yield Candidate(prefix / "lib" / soname, "found in the Python environment")


def loader_cache() -> str:
    """What `ldconfig -p` prints: all libraries the loader knows. Empty where there is no such program."""
    for program in filter(os.path.exists, _LDCONFIG):
        try:
            return subprocess.run([program, "-p"], capture_output=True, timeout=10, check=True, text=True).stdout  # noqa: S603
        except (OSError, subprocess.SubprocessError):
            continue
    return ""
