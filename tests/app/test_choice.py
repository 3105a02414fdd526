"""Which engine serves what."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.app.choice import choose_engine, engine_states, reason
from dragoman.catalog.gguf import GgufHeader, TensorInfo
from dragoman.catalog.local import LocalModel
from dragoman.config import EngineSettings
from dragoman.core.errors import EngineFailure


def gguf(architecture: str = "llama", kind: str = "Q4_1") -> LocalModel:
    header = GgufHeader({"general.architecture": architecture}, (TensorInfo("x", (2, 2), kind),))
    return LocalModel(id="m", path=Path("m.gguf"), format="gguf", architecture=architecture, header=header)


CHECKPOINT = LocalModel(id="c", path=Path("c"), format="safetensors", architecture="qwen3")


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    names = {"mlx", "mlx_lm", "xllamacpp"}
    monkeypatch.setattr("dragoman.app.choice.find_spec", lambda name: object() if name in names else None)
    monkeypatch.setattr("dragoman.app.choice.version", lambda name: "1.0")
    return names


def test_by_format(installed: set[str]) -> None:
    assert choose_engine(gguf(), EngineSettings()) == "llamacpp"
    assert choose_engine(CHECKPOINT, EngineSettings()) == "mlx"
    assert choose_engine(gguf(), EngineSettings(engine="mlx")) == "mlx"


def test_missing_engine_names_its_command(installed: set[str]) -> None:
    installed.discard("xllamacpp")
    with pytest.raises(EngineFailure, match=r"pip install 'dragoman\[llamacpp\]'"):
        choose_engine(gguf(), EngineSettings())
    assert choose_engine(gguf(), EngineSettings(llama_server="/bin/llama-server")) == "llamacpp"
    installed.discard("mlx_lm")
    with pytest.raises(EngineFailure, match=r"pip install 'dragoman\[mlx\]'"):
        choose_engine(CHECKPOINT, EngineSettings())
    assert [state.installed for state in engine_states()] == [False, False]


@pytest.mark.parametrize(
    ("model", "engine", "said"),
    [
        (CHECKPOINT, "llamacpp", "GGUF files only"),
        (gguf("gemma3"), "mlx", "gemma3 family"),
        (gguf(kind="Q4_K"), "mlx", "Q4_K tensors"),
    ],
)
def test_misfits(installed: set[str], model: LocalModel, engine: str, said: str) -> None:
    settings = EngineSettings(engine=engine)
    with pytest.raises(EngineFailure, match=said):
        choose_engine(model, settings)
    assert said in reason(model, settings)


def test_reason(installed: set[str]) -> None:
    assert reason(gguf(), EngineSettings()) == "llamacpp, because it is gguf"
    assert reason(gguf(), EngineSettings(engine="mlx")) == "mlx, as told by --engine"
