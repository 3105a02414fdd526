"""Which BLAS is shared, and when none is."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dragoman.app.blas.choice import Process, TryOut, ensure, find_blas, needless, sensible_threads
from dragoman.app.blas.search import Candidate, candidates
from dragoman.app.blas.trial import Trial
from dragoman.core.errors import EngineFailure

LINUX = Process(system="Linux", reference=Path("libblas.so.3"))
GOOD = Trial(title="OpenBLAS 1", rate=50.0)


def never(path: Path, threads: int) -> Trial:
    raise AssertionError(f"{path} must not be tried")


def passing(*names: str) -> TryOut:
    return lambda path, threads: GOOD if path.name in names else Trial(fault="it crashed")


def found(*names: str) -> Iterator[Candidate]:
    return (Candidate(Path("/lib") / name, f"origin of {name}") for name in names)


def test_wanted_on_a_linux_cpu_only() -> None:
    assert needless("auto", "mlx", LINUX) == ""
    assert "not MLX" in needless("auto", "llamacpp", LINUX)
    assert "Darwin" in needless("auto", "mlx", Process(system="Darwin"))
    assert "Windows" in needless("/some/lib.so", "mlx", Process(system="Windows"))


def test_off_declines_even_where_it_would_help() -> None:
    assert needless("off", "mlx", LINUX) == "--mlx-blas is off"


def test_too_late_and_already_there() -> None:
    late = Process(system="Linux", reference=LINUX.reference, imported=True)
    assert "already loaded" in needless("auto", "mlx", late)
    preloaded = Process(system="Linux", reference=LINUX.reference, shared=Path("/lib/libopenblas.so.0"))
    assert "beforehand" in needless("/other.so", "mlx", preloaded)


def test_an_mlx_of_other_make_is_left_alone_unless_told() -> None:
    built = Process(system="Linux")
    assert "not the slow one" in needless("auto", "mlx", built)
    assert needless("/lib/libopenblas.so.0", "mlx", built) == ""


def test_the_first_that_passes() -> None:
    choice = find_blas("auto", 1, tried=passing("b", "c"), searched=lambda: found("a", "b", "c"))
    assert (choice.path, choice.kind, choice.reason) == (Path("/lib/b"), "OpenBLAS 1", "origin of b")
    assert choice.sentence == "MLX uses OpenBLAS 1: origin of b."


def test_none_passes() -> None:
    choice = find_blas("auto", 1, tried=passing(), searched=lambda: found("a", "b"))
    assert choice.path is None
    assert choice.sentence == (
        "MLX uses the BLAS it came with: no other was found; of /lib/a it crashed; of /lib/b it crashed."
    )
    assert find_blas("auto", 1, tried=never, searched=lambda: found()).reason == "no other was found"


def test_named_by_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = tmp_path / "mine.so"
    library.touch()
    assert find_blas(str(library), 1, tried=passing("mine.so"), searched=lambda: found("a")).path == library
    monkeypatch.chdir(tmp_path)
    assert find_blas("mine.so", 1, tried=passing("mine.so")).path == library
    assert find_blas("libopenblas.so.0", 1, tried=passing("libopenblas.so.0")).path == Path("libopenblas.so.0")


@pytest.mark.parametrize("content", [None, b"", b"not a library"])
def test_a_bad_path_is_one_clear_sentence(tmp_path: Path, content: bytes | None) -> None:
    bad = tmp_path / "bad.so"
    if content is not None:
        bad.write_bytes(content)
    with pytest.raises(EngineFailure) as caught:
        find_blas(str(bad), 1)
    assert caught.value.message.startswith(f"The BLAS '{bad}' named by --mlx-blas cannot be used: it cannot be loaded")
    assert "leave --mlx-blas out" in caught.value.sentence
    assert "\n" not in caught.value.sentence


def test_one_core_is_left_to_the_server() -> None:
    assert [sensible_threads(cores) for cores in (1, 2, 3, 16)] == [1, 1, 2, 15]


def test_off_does_nothing() -> None:
    assert ensure("off", "mlx").path is None
    assert ensure("auto", "llamacpp").reason == "the engine is not MLX"


def in_a_process(program: str, **environment: str) -> Any:
    """What `program` prints, as JSON."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **environment},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


linux = pytest.mark.skipif(sys.platform != "linux", reason="Linux only")

SHARES = """
import json, os
before = dict(os.environ), os.getpid()
from dragoman.app.blas.choice import ensure
first, second = ensure("auto", "mlx"), ensure("auto", "mlx")
import mlx.core as mx
import numpy as np
mx.set_default_device(mx.cpu)
chance = np.random.default_rng(1)
right = []
for m, n, k in ((1, 64, 48), (3, 5, 7), (65, 130, 70)):
    for kind in ("float32", "complex64"):
        a, b = (chance.integers(-9, 9, shape).astype(kind) for shape in ((m, k), (k, n)))
        transposed = np.ascontiguousarray(b.T)
        right.append(bool((np.array(mx.array(a) @ mx.array(b)) == a @ b).all()))
        right.append(bool((np.array(mx.array(a) @ mx.array(transposed).T) == a @ b).all()))
third = ensure("auto", "mlx")
print(json.dumps({
    "first": first.sentence, "shared": first.path is not None, "second": second.reason, "third": third.reason,
    "right": right, "same": (dict(os.environ), os.getpid()) == before,
}))
"""


@linux
@pytest.mark.mlx
def test_shared_once_and_right_and_nothing_restarted() -> None:
    pytest.importorskip("mlx")
    if not any(candidates()):
        pytest.skip("no fast BLAS here")
    result = in_a_process(SHARES, LD_PRELOAD="")
    assert result["shared"], result["first"]
    assert result["second"] == result["third"] == "it was loaded beforehand"
    assert result["right"] == [True] * 12
    assert result["same"]


RECORDER = """
static int seen[3];
int *seen_sizes(void) { return seen; }
void cblas_sgemm(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a, int lda, const float *b,
                 int ldb, float beta, float *c, int ldc) { seen[0] = m; seen[1] = n; seen[2] = k; }
"""

BOUND = """
import ctypes, json, sys
library = ctypes.CDLL(sys.argv[1], mode=ctypes.RTLD_GLOBAL)
library.seen_sizes.restype = ctypes.POINTER(ctypes.c_int)
import mlx.core as mx
mx.set_default_device(mx.cpu)
mx.eval(mx.ones((3, 50)) @ mx.ones((50, 7)))
mx.synchronize()
print(json.dumps(library.seen_sizes()[0:3]))
"""


@linux
@pytest.mark.mlx
@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_mlx_binds_what_was_shared_before_its_import(tmp_path: Path) -> None:
    pytest.importorskip("mlx")
    source, library = tmp_path / "recorder.c", tmp_path / "recorder.so"
    source.write_text(RECORDER)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    command = [sys.executable, "-c", BOUND, str(library)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, "LD_PRELOAD": ""})
    assert json.loads(done.stdout) == [3, 7, 50]


LATE = """
import json, mlx.core
from dragoman.app.blas.choice import ensure
print(json.dumps(ensure("auto", "mlx").sentence))
"""


@linux
@pytest.mark.mlx
def test_too_late_is_said() -> None:
    pytest.importorskip("mlx")
    assert in_a_process(LATE, LD_PRELOAD="") == "MLX uses the BLAS it came with: MLX is already loaded."
