"""`dragoman llama-server`: command lines people have in scripts, as ours or refused by name."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from dragoman.backend.llamacpp.flags import FLAGS as ENGINE_FLAGS
from dragoman.cli import main as command
from dragoman.cli.llama_server import command as llama_command
from dragoman.cli.llama_server.flags import BY_NAME, FLAGS, Flag
from dragoman.cli.llama_server.read import BadFlag, read
from dragoman.cli.llama_server.translate import MAKERS, translate
from dragoman.config import Settings


def words(line: str, **environ: str) -> str:
    serving = translate(read(shlex.split(line), environ))
    return shlex.join([*([serving.model] if serving.model else []), *serving.flags])


@pytest.mark.parametrize(
    ("line", "ours"),
    [
        ("-m a/b.gguf --host 0.0.0.0 --port 9000", "a/b.gguf --host 0.0.0.0 --port 9000"),
        ("-c 8192 -np 2", "--max-lanes 2 --ctx 4096"),
        ("-c 8192", "--ctx 2048 --kv-unified"),
        ("-c 8192 -np -1", "--max-lanes 4 --ctx 2048 --kv-unified"),
        ("-c 8192 -np 2 -kvu", "--max-lanes 2 --ctx 4096 --kv-unified"),
        ("-c 8192 -no-kvu", "--ctx 2048"),
        ("-no-kvu", "--no-kv-unified"),
        ("-c 0", ""),
        (
            "--repeat-penalty 1.1 --repeat-last-n 128 --typical 0.9 --mirostat-ent 4",
            "--repetition-penalty 1.1 --penalty-window 128 --typical-p 0.9 --mirostat-tau 4",
        ),
        ("-n 128", "--default-max-tokens 128"),
        ("-n -1 -s -1 --jinja --metrics --props --slots --no-webui -to 600", ""),
        ("-t 3 -tb 4 -b 512 -ub=64", None),
        ("-t 3 -tb 4 -b 512", "--threads 3 '--engine-arg=--threads-batch 4' '--engine-arg=--batch-size 512'"),
        ("--api-key a,b --alias x,y", "--api-key a --api-key b --alias x --alias y"),
        (
            "-ngl 99 -fa --no-mmap --mlock",
            "--gpu-layers 99 --flash-attention on --engine-arg=--no-mmap --engine-arg=--mlock",
        ),
        ("-ngl all -fa off", "--flash-attention off '--engine-arg=--n-gpu-layers all'"),
        ("-ctk q8_0 -ctv q8_0", "--kv-bits 8"),
        ("-ctk q8_0 -ctv f16", "'--engine-arg=--cache-type-k q8_0'"),
        ("--cache-ram 256 --slot-save-path /tmp/s", "--prompt-cache-bytes 268435456 --slot-save-path /tmp/s"),
        ("--cache-ram -1", "--prompt-cache-bytes -1"),
        ("--lora x/l.gguf --lora-scaled y.gguf:0.5", "--adapter l=x/l.gguf --adapter y=y.gguf:0.5"),
        ("--embedding --pooling mean", "--embeddings --pooling mean"),
        ("--reranking", "--pooling rank"),
        ("--mmproj p.gguf --no-mmproj", "--mmproj none"),
        ("-md d.gguf --draft-max 8 --draft-min 2", "--draft-model d.gguf --draft-max 8 --draft-min 2"),
        ("--spec-type ngram-mod", "--drafter ngram-mod"),
        ("--context-shift", "--context-shift"),
        ("--port 1 --port=2", "--port 2"),
        ("-v", "--log-level debug"),
        ("-lv 1", "--log-level error"),
        ("--reasoning-format deepseek --reasoning-budget -1", ""),
        ("--sse-ping-interval -1 --cors-origins localhost", "--sse-ping 0"),
        ("--n_predict 5", "--default-max-tokens 5"),
    ],
)
def test_command_lines(line: str, ours: str | None) -> None:
    if ours is None:
        with pytest.raises(BadFlag, match="-ub=64"):
            words(line)
    else:
        assert words(line) == ours


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("--ssl-key-file k.pem", "--ssl-key-file"),
        ("--chat-template chatml", "--chat-template"),
        ("-ts 1,1", "-ts"),
        ("--dry-sequence-breaker x", "--dry-sequence-breaker"),
        ("-r User:", "-r"),
        ("--models-dir x", "--models-dir"),
        ("--frobnicate", "--frobnicate"),
        ("--port", "--port"),
        ("-c many", "-c"),
        ("--host /tmp/x.sock", "socket"),
        ("--reasoning-format none", "--reasoning-format"),
        ("-s 42", "-s"),
        ("--jinja=yes", "--jinja"),
        ("-fa sometimes-not", "sometimes-not"),
        ("--api-key-file /no/such", "/no/such"),
        ("--lora-scaled x", "FILE:SCALE"),
    ],
)
def test_refusals_name_the_flag(line: str, named: str) -> None:
    with pytest.raises(BadFlag) as raised:
        words(line)
    assert named in raised.value.message


def test_the_environment_counts_where_the_command_line_is_silent() -> None:
    given = {"LLAMA_ARG_PORT": "1", "LLAMA_ARG_CTX_SIZE": "1024", "LLAMA_API_KEY": "k", "LLAMA_ARG_JINJA": "true"}
    assert words("--port 2 -np 1", **given) == "--port 2 --api-key k --max-lanes 1 --ctx 1024"
    assert words("", LLAMA_ARG_EMBEDDINGS="0") == ""
    with pytest.raises(BadFlag, match="LLAMA_ARG_EMBEDDINGS"):
        words("", LLAMA_ARG_EMBEDDINGS="maybe")
    with pytest.raises(BadFlag, match="LLAMA_ARG_SSL_KEY_FILE"):
        words("", LLAMA_ARG_SSL_KEY_FILE="k.pem")


def test_a_file_of_keys_and_a_file_by_its_bare_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "keys").write_text("# mine\na\n\nb\n")
    (tmp_path / "m.gguf").write_bytes(b"")
    assert words("--api-key-file keys -m m.gguf") == "./m.gguf --api-key a --api-key b"


def test_checkpoint_folders_have_no_pool(tmp_path: Path) -> None:
    assert words(f"-m {tmp_path} -c 4096") == f"{tmp_path} --ctx 4096"


def value_for(flag: Flag) -> list[str]:
    return [] if flag.argument == "none" else ["1"]


@pytest.mark.parametrize("name", [flag.name for flag in FLAGS if flag.means == "engine"])
def test_engine_flags_are_passed_on(name: str) -> None:
    """In every spelling, under the longest one, which is what the bundled llama.cpp is asked for."""
    for spelling in BY_NAME[name].names:
        told = " ".join([name, *value_for(BY_NAME[name])])
        assert translate(read([spelling, *value_for(BY_NAME[name])], {})).flags == (f"--engine-arg={told}",)
    assert name in ENGINE_FLAGS


@pytest.mark.parametrize("name", [flag.name for flag in FLAGS if flag.means == "nothing"])
def test_what_changes_nothing_is_accepted(name: str) -> None:
    for spelling in BY_NAME[name].names:
        assert translate(read([spelling, *value_for(BY_NAME[name])], {})).flags == ()


@pytest.mark.parametrize("name", [flag.name for flag in FLAGS if flag.means == "refused"])
def test_what_is_not_honoured_is_refused_with_the_reason(name: str) -> None:
    flag = BY_NAME[name]
    for spelling in flag.names:
        with pytest.raises(BadFlag) as raised:
            read([spelling, *value_for(flag)], {})
        assert spelling in raised.value.message
        assert flag.why in raised.value.message


def test_the_table_is_whole() -> None:
    names = [name for flag in FLAGS for name in flag.names]
    assert len(names) == len(set(names))
    assert {flag.to for flag in FLAGS if flag.means == "made"} == set(MAKERS)
    assert all(flag.why for flag in FLAGS if flag.means in ("nothing", "refused"))
    assert set(ENGINE_FLAGS) <= set(BY_NAME)
    variables = [variable for flag in FLAGS for variable in flag.variables]
    assert len(variables) == len(set(variables))


def test_the_command_serves(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    served: list[Settings] = []
    monkeypatch.setattr(command, "run_server", lambda settings: served.append(settings) or 0)
    for name in ("LLAMA_ARG_PORT", "LLAMA_ARG_HOST"):
        monkeypatch.delenv(name, raising=False)
    line = "-m x/y.gguf -c 2048 -np 2 --port 0 --api-key secret --presence-penalty -0.5 --repeat-last-n -1"
    with pytest.raises(SystemExit) as ended:
        command.main(["llama-server", *line.split()])
    assert ended.value.code == 0
    [settings] = served
    assert (settings.model, settings.engine.ctx, settings.engine.max_lanes) == ("x/y.gguf", 1024, 2)
    assert (settings.listen.port, settings.listen.api_keys) == (0, ("secret",))
    assert (settings.sampling.presence_penalty, settings.sampling.penalty_window) == (-0.5, -1)
    told = capsys.readouterr().err
    assert "Serving as: dragoman serve x/y.gguf" in told
    assert "secret" not in told


def test_a_repository_is_fetched_unless_told_not_to(monkeypatch: pytest.MonkeyPatch) -> None:
    fetched: list[str] = []
    monkeypatch.setattr(llama_command, "find_model", lambda name, store: None)
    monkeypatch.setattr(llama_command, "fetch", lambda name, store, say: fetched.append(name))
    assert llama_command.serve_words(["-hf", "a/b:Q4_0"], {}) == ["serve", "a/b:Q4_0"]
    assert llama_command.serve_words(["-hf", "a/b:Q4_0", "--offline"], {}) == ["serve", "a/b:Q4_0"]
    assert fetched == ["a/b:Q4_0"]
