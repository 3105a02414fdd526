"""The command line: flags, environment, file, errors as one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.cli import main as command
from dragoman.config import Settings


@pytest.fixture(autouse=True)
def apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DRAGOMAN_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hf"))


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[Settings]:
    seen: list[Settings] = []

    def remember(settings: Settings) -> int:
        seen.append(settings)
        return 0

    monkeypatch.setattr(command, "run_server", remember)
    return seen


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as caught:
        command.main(arguments)
    return caught.value.code


def test_flags(served: list[Settings], monkeypatch: pytest.MonkeyPatch) -> None:
    flags = ["--port", "9", "--api-key", "a", "--api-key", "b", "--engine", "mlx", "--temperature", "0.5"]
    assert run("serve", "m.gguf", *flags) == 0
    settings = served[0]
    assert (settings.model, settings.listen.port, settings.listen.api_keys) == ("m.gguf", 9, ("a", "b"))
    assert (settings.engine.engine, settings.answer.temperature) == ("mlx", 0.5)


def test_flags_win_over_environment_over_file(served: list[Settings], monkeypatch: pytest.MonkeyPatch) -> None:
    Path("dragoman.toml").write_text('port = 1\nctx = 2\nmax-lanes = 3\napi-key = ["k"]\n')
    monkeypatch.setenv("DRAGOMAN_PORT", "10")
    monkeypatch.setenv("DRAGOMAN_CTX", "20")
    assert run("serve", "--port", "100") == 0
    settings = served[0]
    assert (settings.listen.port, settings.engine.ctx, settings.engine.max_lanes) == (100, 20, 3)
    assert settings.listen.api_keys == ("k",)


@pytest.mark.parametrize("arguments", [["serve", "--prot", "1"], ["serve", "--engine", "x"], ["nonsense"]])
def test_bad_flags(served: list[Settings], monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> None:
    assert run(*arguments) != 0
    assert served == []


def test_errors_are_one_sentence(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("serve", "./missing.gguf", "--port", "0") == 1
    assert capsys.readouterr().err.splitlines()[-1] == "dragoman: There is no file or folder './missing.gguf'."
    assert run("pull", "no-such-model") == 1
    assert "is not a known model" in capsys.readouterr().err


def test_ls_and_doctor_without_models(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("ls") == 0
    assert "dragoman pull smollm2-135m" in capsys.readouterr().err
    run("doctor")
    text = capsys.readouterr().out
    assert "engine llamacpp:" in text
    assert "engine mlx:" in text


def test_run_answers_once(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    assert run("run", "fake", "parrot", "--engine", "fake") == 0
    assert "parrot" in capsys.readouterr().out
