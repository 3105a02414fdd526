"""`dragoman agent`: whose words are whose, what a child process is given, and what is said when it cannot start."""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from dragoman.cli import main as command
from dragoman.cli.agent import find_model, server_url, shielded
from dragoman.cli.launch import AGENTS, KEY, Launch, Served
from dragoman.core.errors import AuthenticationFailed, InvalidField, NotFound, Unavailable

SERVED = Served(url="http://127.0.0.1:8080", model="m", key="secret", window=100_000)
REPORT = """#!{python}
import json, os, sys
folder = os.environ.get("PI_CODING_AGENT_DIR", "")
names = sorted(os.listdir(folder)) if folder else []
model = json.load(open(os.path.join(folder, "models.json"))) if folder else {{}}
settings = open(os.path.join(folder, "settings.json")).read() if "settings.json" in names else ""
told = {{"words": sys.argv[1:], "env": dict(os.environ), "names": names, "models": model, "settings": settings}}
print(json.dumps(told))
sys.exit(7)
"""


class Models(BaseHTTPRequestHandler):
    """A server that lists models, to whoever has the key."""

    def do_GET(self) -> None:
        known = self.headers.get("authorization") == "Bearer secret"
        found = {"data": [{"id": "one", "context_length": 4096}, {"id": "two", "max_model_len": 8192}]}
        body = {"/v1/models": found, "/empty/v1/models": {"data": []}, "/odd/v1/models": ["x"]}.get(self.path)
        self.send_response((200 if body is not None else 404) if known else 401)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Models)
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder where every agent is a program that tells how it was called, and nothing else is in PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for agent in AGENTS.values():
        file = folder / agent.program
        file.write_text(REPORT.format(python=sys.executable))
        file.chmod(file.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return folder


def run(*arguments: str) -> int | str | None:
    with pytest.raises(SystemExit) as caught:
        command.main(arguments)
    return caught.value.code


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("agent claude -p --model x", "agent claude -- -p --model x"),
        ("agent --port 9 --print codex exec --oss", "agent --port 9 --print codex -- exec --oss"),
        ("agent --model claude pi -p", "agent --model claude pi -- -p"),
        ("agent --url=http://x claude", "agent --url=http://x claude"),
        ("agent claude -- -p", "agent claude -- -- -p"),
        ("agent --help", "agent --help"),
        ("serve --port 9", "serve --port 9"),
    ],
)
def test_words_behind_the_name_are_the_agents(given: str, wanted: str) -> None:
    assert shielded(given.split()) == wanted.split()


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ((None, "127.0.0.1", 8080), "http://127.0.0.1:8080"),
        ((None, "0.0.0.0", 1), "http://127.0.0.1:1"),
        ((None, "::1", 1), "http://[::1]:1"),
        (("https://host/v1/", "x", 1), "https://host"),
        (("http://host:1/base/", "x", 1), "http://host:1/base"),
    ],
)
def test_where_the_server_is(given: tuple[str | None, str, int], wanted: str) -> None:
    assert server_url(*given) == wanted


def test_an_address_without_a_scheme_is_refused() -> None:
    with pytest.raises(InvalidField):
        server_url("localhost:8080", "x", 1)


def test_the_model_is_found(url: str) -> None:
    assert find_model(url, "secret", None) == Served(url=url, model="one", key="secret", window=4096)
    assert find_model(url, "secret", "two").window == 8192
    assert find_model(url, "secret", "any name").model == "any name"
    with pytest.raises(AuthenticationFailed, match="--api-key"):
        find_model(url, "", None)
    for place in ("/empty", "/odd"):
        with pytest.raises(NotFound):
            find_model(f"{url}{place}", "secret", None)
    with pytest.raises(Unavailable):
        find_model(f"{url}/nowhere", "secret", None)


def test_an_agent_gets_words_and_settings_and_its_status_is_ours(
    url: str, programs: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "real")
    assert run("agent", "--url", url, "--api-key", "secret", "claude", "-p", "--model", "x", "a b") == 7
    told = json.loads(capfd.readouterr().out)
    assert told["words"] == ["-p", "--model", "x", "a b"]
    env = told["env"]
    assert (env["ANTHROPIC_BASE_URL"], env["ANTHROPIC_MODEL"], env["ANTHROPIC_AUTH_TOKEN"]) == (url, "one", "secret")
    assert "ANTHROPIC_API_KEY" not in env
    assert os.environ["ANTHROPIC_API_KEY"] == "real"


def test_pi_works_on_a_copy_of_the_users_settings(
    url: str, programs: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    own = tmp_path / "home" / ".pi" / "agent"
    own.mkdir(parents=True)
    for name in ("settings.json", "auth.json", "models.json"):
        (own / name).write_text('{"mine": true}')
    assert run("agent", "--url", url, "--api-key", "secret", "pi", "-p") == 7
    told = json.loads(capfd.readouterr().out)
    assert told["names"] == ["models.json", "sessions", "settings.json"]
    assert {entry["api"] for entry in told["models"]["providers"].values()} == {
        "openai-completions",
        "openai-responses",
        "anthropic-messages",
    }
    assert "secret" not in json.dumps(told["models"])
    assert (own / "sessions").is_dir()
    assert (own / "models.json").read_text() == '{"mine": true}'
    assert not Path(told["env"]["PI_CODING_AGENT_DIR"]).exists()


@pytest.mark.parametrize(
    ("own", "wanted"),
    [
        (None, {"enabled": None, "reserveTokens": 1024, "keepRecentTokens": 1024}),
        ('{"compaction": {"enabled": false}}', {"enabled": False, "reserveTokens": 1024, "keepRecentTokens": 1024}),
        ('{"compaction": {"reserveTokens": 9}}', {"enabled": None, "reserveTokens": 9, "keepRecentTokens": 1024}),
    ],
)
def test_pi_sums_up_late_in_a_small_window(
    url: str, programs: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], own: str | None, wanted: dict[str, int]
) -> None:
    folder = tmp_path / "home" / ".pi" / "agent"
    folder.mkdir(parents=True)
    if own is not None:
        (folder / "settings.json").write_text(own)
    assert run("agent", "--url", url, "--api-key", "secret", "pi") == 7
    settings = json.loads(json.loads(capfd.readouterr().out)["settings"])
    assert {name: settings["compaction"].get(name) for name in wanted} == wanted
    assert settings["branchSummary"] == {"reserveTokens": 1024}


def test_settings_of_pi_that_cannot_be_read_stay_as_they_are(
    url: str, programs: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "home" / ".pi" / "agent"
    folder.mkdir(parents=True)
    (folder / "settings.json").write_text("{ not JSON")
    assert run("agent", "--url", url, "--api-key", "secret", "pi") == 7
    assert json.loads(capfd.readouterr().out)["settings"] == "{ not JSON"


def test_a_large_window_is_left_to_pi() -> None:
    assert AGENTS["pi"].launch(SERVED, ()).settings == {}
    assert AGENTS["pi"].launch(Served(url="u", model="m"), ()).settings == {}


@pytest.mark.parametrize("name", AGENTS)
def test_print_starts_nothing_and_hides_the_key(
    name: str, programs: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    assert run("agent", "--port", "1", "--model", "m", "--api-key", "secret", "--print", name, "say 'hi'") == 0
    shown = capfd.readouterr().out
    assert AGENTS[name].program in shown.splitlines()[-1]
    assert "http://127.0.0.1:1" in shown
    assert "secret" not in shown


def test_what_cannot_start_says_why(
    url: str, programs: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("agent", "nobody") == 1
    assert "claude, codex, pi, opencode" in capfd.readouterr().err
    assert run("agent", "--port", "1", "codex") == 1
    assert "dragoman serve" in capfd.readouterr().err
    monkeypatch.setenv("PATH", "")
    assert run("agent", "--url", url, "codex") == 1
    assert "npm install -g @openai/codex" in capfd.readouterr().err


def words_of(launch: Launch) -> str:
    return " ".join(launch.command)


def test_codex_is_told_on_its_command_line() -> None:
    launch = AGENTS["codex"].launch(SERVED, ("exec", "hi"))
    assert launch.command[-2:] == ("exec", "hi")
    assert 'model_providers.dragoman.base_url="http://127.0.0.1:8080/v1"' in launch.command
    assert 'model_providers.dragoman.wire_api="responses"' in launch.command
    assert "model_context_window=100000" in launch.command
    assert launch.env == {KEY: "secret"}
    assert "secret" not in words_of(launch)


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("exec --oss --local-provider ollama", "-m m:latest exec"),
        ("exec --oss --local-provider=lmstudio", "-m m exec"),
        ("exec --oss", 'oss_provider="lmstudio" -m m exec'),
        ("exec --oss -m other --local-provider ollama", "exec --oss -m other"),
    ],
)
def test_codex_finds_the_local_server_it_asks_for(words: str, wanted: str) -> None:
    launch = AGENTS["codex"].launch(SERVED, words.split())
    assert wanted in words_of(launch)
    assert launch.env["CODEX_OSS_BASE_URL"] == "http://127.0.0.1:8080/v1"
    assert "model_provider=" not in words_of(launch)


def test_bare_claude_reads_no_token() -> None:
    launch = AGENTS["claude"].launch(Served(url="u", model="m", window=8192), ("--bare",))
    assert launch.env["ANTHROPIC_API_KEY"] == "dragoman"
    assert "ANTHROPIC_AUTH_TOKEN" not in launch.env
    assert "CLAUDE_CODE_AUTO_COMPACT_WINDOW" not in launch.env


def test_opencode_is_told_in_a_variable() -> None:
    launch = AGENTS["opencode"].launch(SERVED, ("run", "hi"))
    told = json.loads(launch.env["OPENCODE_CONFIG_CONTENT"])
    assert told["model"] == "dragoman/m"
    assert told["provider"]["dragoman"]["models"]["m"]["limit"]["context"] == 100_000
    assert "secret" not in launch.env["OPENCODE_CONFIG_CONTENT"]
