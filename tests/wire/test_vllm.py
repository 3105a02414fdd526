"""vLLM's extras on whole servers, beside llama-server's routes of the same path."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.support.lora_files import write_lora
from tests.support.running import RunningServer, running
from tests.wire.conftest import settings

HI = [{"role": "user", "content": "hi"}]


@pytest.fixture
def fake_client(fake: RunningServer) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=fake.url) as client:
        yield client


def test_the_body_tells_whose_path_it_is(fake_client: httpx2.Client) -> None:
    def post(path: str, body: object) -> dict:
        return fake_client.post(path, json=body).json()

    native = post("/tokenize", {"content": "hi", "add_special": True})
    assert native.keys() == {"tokens"}
    ours = post("/tokenize", {"prompt": "hi"})
    assert ours == {
        "count": len(native["tokens"]),
        "max_model_len": 2048,
        "tokens": native["tokens"],
        "token_strs": None,
    }
    chat = post("/tokenize", {"messages": HI, "model": "any", "return_token_strs": True})
    assert "".join(chat["token_strs"]).count("hi") == 1
    assert chat["count"] == len(chat["tokens"]) == len(chat["token_strs"])
    answered = post("/v1/chat/completions", {"model": "any", "messages": HI, "max_tokens": 1})
    assert answered["usage"]["prompt_tokens"] == chat["count"]
    assert post("/detokenize", {"tokens": ours["tokens"][1:], "model": "any"}) == {"prompt": "hi"}
    assert post("/detokenize", {"tokens": ours["tokens"][1:]}) == {"content": "hi"}
    assert post("/tokenize", {}) == {"tokens": []}, "llama-server's answer to anything"
    assert fake_client.post("/tokenize", content=b"{broken").status_code == 500, "as llama-server has it"
    refused = fake_client.post("/tokenize", json={"prompt": 5})
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "prompt")
    refused = fake_client.post("/detokenize", json={"tokens": [10**7], "model": "x"})
    assert refused.status_code == 400


def test_what_else_it_tells(fake_client: httpx2.Client) -> None:
    assert "chat_template" in fake_client.get("/tokenizer_info").json()
    assert fake_client.get("/version").json()["version"]
    assert [fake_client.request(method, "/ping").status_code for method in ("GET", "POST", "HEAD")] == [200, 200, 200]


def test_an_engine_without_adapters_says_so(fake_client: httpx2.Client) -> None:
    reply = fake_client.post("/v1/load_lora_adapter", json={"lora_name": "a", "lora_path": "a.gguf"})
    assert reply.status_code == 501
    assert "cannot mount adapters" in reply.json()["error"]["message"]


def test_without_a_folder_clients_mount_nothing(llamacpp: RunningServer) -> None:
    body = {"lora_name": "a", "lora_path": "a.gguf"}
    reply = httpx2.post(f"{llamacpp.url}/v1/load_lora_adapter", json=body)
    assert reply.status_code == 501
    assert "--adapter-dir" in reply.json()["error"]["message"]


@pytest.mark.long
def test_adapters_come_and_go(starter_gguf: Path, tmp_path: Path) -> None:
    pytest.importorskip("xllamacpp")
    write_lora(tmp_path / "one.gguf", seed=1)
    (tmp_path / "broken.gguf").write_bytes(b"no adapter")
    (tmp_path / "model.gguf").symlink_to(starter_gguf)
    config = settings(engine="llamacpp", ctx=512, max_lanes=1, threads=1, adapter_dir=tmp_path)
    config = dataclasses.replace(config, model=str(starter_gguf))
    with running(config) as server, httpx2.Client(base_url=server.url, timeout=120) as client:

        def ask(model: str) -> str:
            body = {"model": model, "messages": HI, "max_tokens": 8, "temperature": 0, "seed": 1}
            return client.post("/v1/chat/completions", json=body).json()["choices"][0]["message"]["content"]

        def change(deed: str, **body: object) -> tuple[int, str]:
            reply = client.post(f"/v1/{deed}_lora_adapter", json=body)
            return reply.status_code, reply.text

        plain = ask("x")
        assert change("load", lora_name="one", lora_path="one.gguf") == (
            200,
            "Success: LoRA adapter 'one' added successfully.",
        )
        assert ask("x") == plain, "it has a say only where it is named"
        assert ask("one") != plain
        assert change("load", lora_name="one", lora_path="one.gguf")[0] == 400
        assert change("load", lora_name="one", lora_path="one.gguf", load_inplace=True)[0] == 200
        for path in ("none.gguf", "../one.gguf", "/etc/passwd", str(starter_gguf), "broken.gguf", "model.gguf"):
            assert change("load", lora_name="two", lora_path=path)[0] == 400
            assert ask("one") != plain, "what was mounted stays"
        assert change("unload", lora_name="one")[0] == 200
        assert change("unload", lora_name="one")[0] == 400
        assert ask("one") == plain
