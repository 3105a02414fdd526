"""What clients keep on a server over Ollama's wire: names, blobs, pulls; and the second port where it is at home."""

from __future__ import annotations

import dataclasses
import hashlib
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import httpx2
import ollama
import pytest

from dragoman.config import ListenSettings, LogSettings, Settings
from dragoman.core.errors import Unavailable
from tests.support.running import running
from tests.wire.clients import ollama_client
from tests.wire.conftest import SCRIPT, settings

ROLE_PLAY = """{{ if .System }}<{{ .System }}>{{ end }}{{ .Prompt }} -> {{ .Response }}"""
NOBODY = "sha256:" + "0" * 64


class Server:
    """A client of either port."""

    def __init__(self, client: ollama.Client, home: httpx2.Client, main: httpx2.Client) -> None:
        self.client = client
        self.home = home
        self.main = main

    def names(self) -> list[str | None]:
        return [model.model for model in self.client.list().models]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextmanager
def serving(state: Path) -> Iterator[Server]:
    port = free_port()
    config = Settings(
        listen=ListenSettings(port=0, ollama_port=port),
        engine=settings(engine="fake", script=SCRIPT).engine,
        log=LogSettings(level="error"),
        state_dir=state,
    )
    with (
        running(config) as server,
        ollama_client(f"http://127.0.0.1:{port}") as client,
        httpx2.Client(base_url=f"http://127.0.0.1:{port}") as home,
        httpx2.Client(base_url=server.url) as main,
    ):
        yield Server(client, home, main)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("state")) as server:
        yield server


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of a few kilobytes."""
    from tests.support.checkpoints import write_checkpoint

    pytest.importorskip("mlx.core")
    return write_checkpoint(tmp_path_factory.mktemp("tiny"), max_position_embeddings=64)


def refusal(call, *told, **fields) -> tuple[int, str]:
    with pytest.raises(ollama.ResponseError) as caught:
        list(call(*told, **fields) or ())
    return caught.value.status_code, caught.value.error


def ask(text: str) -> list[dict]:
    return [{"role": "user", "content": text}]


def test_the_root_is_ollamas_on_its_own_port(server: Server) -> None:
    assert server.home.get("/").text == "Ollama is running"
    assert server.home.head("/").status_code == 200
    assert server.main.get("/").json() == {"status": "ok"}, "on the main port it answers Claude Code"
    assert server.main.head("/").status_code == 200
    assert server.home.get("/nothing").json().keys() == {"error"}
    assert server.home.get("/v1/models").json()["data"][0]["id"] == "fake"
    assert server.home.post("/v1/messages", json={"model": "x", "max_tokens": 9, "messages": ask("WORDS")}).is_success


def test_a_port_that_is_taken_is_told(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        config = dataclasses.replace(
            settings(engine="fake", script=SCRIPT), listen=ListenSettings(port=0, ollama_port=port)
        )
        with pytest.raises(Unavailable, match=f"Port {port} is in use.*--ollama-port"), running(config):
            pass


def test_a_name_brings_its_settings(server: Server) -> None:
    client = server.client
    made = client.create(
        model="mario",
        from_="fake",
        system="Say EMOJI.",
        parameters={"temperature": 0.25, "stop": ["é"], "num_predict": 50, "num_ctx": 4096},
        license="MIT",
        messages=[{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}],
    )
    assert made.status == "success"
    assert "mario:latest" in server.names()
    assert client.chat("mario", ask("x")).message.content == "ok😀"
    assert client.generate("mario:latest", "x").response == "ok😀"
    shown = client.show("mario")
    assert shown.details is not None
    assert shown.details.parent_model == "fake"
    assert shown.license == "MIT"
    parameters = dict(line.split(maxsplit=1) for line in (shown.parameters or "").splitlines())
    assert parameters == {
        "num_ctx": "2048",
        "repeat_last_n": "64",
        "temperature": "0.25",
        "stop": '"é"',
        "num_predict": "50",
    }, "the window is what it is"
    assert 'SYSTEM """Say EMOJI."""' in (shown.modelfile or "")
    assert "MESSAGE assistant ho" in (shown.modelfile or "")
    assert "mario" in [model["id"] for model in server.main.get("/v1/models").json()["data"]]
    # What a request says itself counts.
    said = client.chat("mario", [{"role": "system", "content": "Say WORDS."}, *ask("x")], options={"stop": ["four"]})
    assert said.message.content == "one two three "
    assert client.delete("mario").status == "success"


def test_names_work_on_every_wire(server: Server) -> None:
    server.client.create(model="wordy", from_="fake", system="Say WORDS.", parameters={"num_predict": 2})
    body = {"model": "wordy", "messages": ask("x")}
    answer = server.main.post("/v1/chat/completions", json=body).json()["choices"][0]
    assert (answer["message"]["content"], answer["finish_reason"]) == ("one two", "length")
    answer = server.main.post("/v1/messages", json={**body, "max_tokens": 99}).json()
    assert answer["content"][0]["text"] == "one two three four five"
    server.client.delete("wordy")


def test_a_template_of_its_own(server: Server) -> None:
    server.client.create(model="plain", from_="fake", template=ROLE_PLAY, system="WORDS")
    assert server.client.generate("plain", "x").response == "one two three four five"
    assert server.client.show("plain").template == ROLE_PLAY
    answer = server.client.generate("plain", "x", template="EMOJI {{ .Prompt }}")
    assert answer.response == "ok😀é한!"
    assert refusal(server.client.create, model="broken", from_="fake", template="{{ if }}")[0] == 400
    assert "template" in refusal(server.client.generate, "fake", "x", template="{{ nope }}")[1]
    server.client.delete("plain")


def test_names_are_inherited_and_copied(server: Server) -> None:
    client = server.client
    client.create(model="one", from_="fake", system="WORDS", parameters={"stop": ["three"]})
    client.create(model="two", from_="one", parameters={"num_predict": 1})
    assert client.chat("two", ask("x")).message.content == "one"
    assert client.copy("two", "three").status == "success"
    client.delete("two")
    assert client.chat("three:latest", ask("x")).message.content == "one"
    assert {"one:latest", "three:latest"} <= set(server.names())
    client.delete("one")
    client.delete("three")


def test_what_cannot_be_named(server: Server) -> None:
    client = server.client
    assert refusal(client.create, model="x", from_="nobody") == (404, "model 'nobody' not found")
    assert refusal(client.copy, "nobody", "x") == (404, "model 'nobody' not found")
    assert refusal(client.delete, "nobody") == (404, "model 'nobody' not found")
    assert refusal(client.create, model="x")[0] == 400
    assert refusal(client.create, model="fake", from_="fake")[0] == 400
    assert refusal(client.create, model="a b", from_="fake") == (400, "invalid model name")
    assert refusal(client.delete, "fake")[0] == 400, "it is served"
    assert "--adapter" in refusal(client.create, model="x", from_="fake", adapters={"a": NOBODY})[1]
    assert refusal(client.create, model="x", from_="fake", quantize="q4_K_M")[0] == 400
    assert refusal(client.create, model="x", from_="fake", parameters={"temperature": "hot"})[0] == 400
    assert refusal(client.create, model="x", files={"a.gguf": NOBODY})[0] == 404
    assert refusal(client.push, "fake")[0] == 501


def test_names_survive_a_restart(tmp_path: Path) -> None:
    with serving(tmp_path) as first:
        first.client.create(model="kept", from_="fake", system="WORDS", parameters={"num_predict": 3})
        assert first.client.create(model="gone", from_="fake", stream=False).status == "success"
        first.client.delete("gone")
    with serving(tmp_path) as second:
        assert second.names() == ["fake:latest", "kept:latest"]
        assert second.client.chat("kept", ask("x")).message.content == "one two three"


def test_an_uploaded_model_is_listed_and_not_served(server: Server, tiny: Path) -> None:
    client = server.client
    digests = {file.name: client.create_blob(file) for file in sorted(tiny.iterdir()) if file.is_file()}
    a_digest = next(iter(digests.values()))
    assert server.home.head(f"/api/blobs/{a_digest}").status_code == 200
    assert server.home.head(f"/api/blobs/{NOBODY}").status_code == 404
    assert server.home.head("/api/blobs/md5:1").status_code == 400
    steps = [step.status for step in client.create(model="mine", files=digests, stream=True)]
    assert steps[-1] == "success"
    assert "mine:latest" in server.names()
    assert client.show("mine").modelinfo
    status, said = refusal(client.chat, "mine", ask("x"))
    assert status == 400
    assert "dragoman serve given-mine" in said
    assert server.main.post("/v1/chat/completions", json={"model": "mine", "messages": ask("x")}).status_code == 400
    listed = server.main.get("/v1/models").json()["data"]
    assert [one["status"]["value"] for one in listed if one["id"] == "mine"] == ["unloaded"]
    assert [model.model for model in client.ps().models] == ["fake:latest"]
    client.copy("mine", "also")
    client.delete("mine")
    assert client.show("also").modelinfo, "its files stay as long as one name needs them"
    client.delete("also")
    assert refusal(client.show, "also")[0] == 404
    assert not {"mine:latest", "also:latest"} & set(server.names())


def test_bad_uploads(server: Server) -> None:
    assert server.home.post(f"/api/blobs/{NOBODY}", content=b"x").status_code == 400
    digest = f"sha256:{hashlib.sha256(b'no model').hexdigest()}"
    assert server.home.post(f"/api/blobs/{digest}", content=b"no model").status_code == 201
    assert "no model" in refusal(server.client.create, model="bad", files={"a.gguf": digest})[1]
    assert refusal(server.client.create, model="bad", files={"..": digest})[0] == 400


def test_pulls(server: Server) -> None:
    steps = list(server.client.pull("fake", stream=True))
    assert [step.status for step in steps][0] == "pulling manifest"
    assert [step.status for step in steps][-1] == "success"
    assert server.client.pull("fake:latest").status == "success"
    assert refusal(server.client.pull, "nobody-knows") == (404, "pull model manifest: file does not exist")
    with pytest.raises(ollama.ResponseError, match="file does not exist"):
        list(server.client.pull("nobody-knows", stream=True))
    assert refusal(server.client.pull, str(Path(__file__)))[0] == 404, "no file of this machine"


def expiry(server: Server) -> datetime:
    (model,) = server.client.ps().models
    assert model.expires_at is not None
    return model.expires_at


def test_keep_alive_is_told_again(server: Server) -> None:
    client = server.client
    unloaded = client.generate("fake", "", keep_alive=0)
    assert (unloaded.done, unloaded.done_reason) == (True, "unload")
    gone = expiry(server)
    assert client.chat("fake", [], keep_alive="10m").done_reason == "load"
    assert expiry(server).timestamp() - gone.timestamp() > 500
    assert client.generate("fake", "WORDS", keep_alive=-1).done_reason == "stop"
    assert expiry(server).year == 9999
    assert client.ps().models[0].context_length == 2048
    assert refusal(client.generate, "fake", "x", keep_alive="soon")[0] == 400


def test_there_is_no_account(server: Server) -> None:
    for path in ("/api/me", "/api/signout"):
        reply = server.home.post(path)
        assert (reply.status_code, reply.json()) == (401, {"error": "unauthorized"})
