"""Clients of llama-server, by the requests they send: llama.vim and llama.vscode, Open WebUI, litellm, langchain."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from dragoman.core.model import ModelCard
from dragoman.dialects.base import WireRequest
from dragoman.dialects.llamacpp.infill import read_infill
from tests.support.golden import load
from tests.wire.scripts import OPEN_THOUGHT, scripted

SCRIPT: dict[str, Any] = {
    "rules": [
        {"match": "<|fim_middle|>", "pieces": ["    return", " a", "\n"]},
        {"match": "Name", "pieces": ["Pa", "ris"]},
    ],
    "control_tokens": ["<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|fim_repo|>", "<|file_sep|>"],
    "lanes": 2,
    "context_length": 8192,
}
VIM_FIELDS = [
    "content",
    "timings/prompt_n",
    "timings/prompt_ms",
    "timings/prompt_per_token_ms",
    "timings/prompt_per_second",
    "timings/predicted_n",
    "timings/predicted_ms",
    "timings/predicted_per_token_ms",
    "timings/predicted_per_second",
    "truncated",
    "tokens_cached",
]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx2.Client]:
    with scripted(tmp_path_factory.mktemp("fill"), SCRIPT) as client:
        yield client


def vim_body(**fields: Any) -> dict[str, Any]:
    """What llama.vim sends for a completion (its default settings), but for `samplers`, which the scripted engine does
    not have; see test_editors_ask_for_the_infill_stage."""
    return {
        "id_slot": 0,
        "input_prefix": "def f(a):\n",
        "input_suffix": "\n\nprint(f(1))\n",
        "input_extra": [{"text": "import os\n", "time": 0.5, "filename": "other.py"}],
        "prompt": "",
        "n_predict": 128,
        "stop": [],
        "n_indent": 0,
        "top_k": 40,
        "top_p": 0.9,
        "stream": False,
        "cache_prompt": True,
        "t_max_prompt_ms": 500,
        "t_max_predict_ms": 1000,
        "response_fields": VIM_FIELDS,
        **fields,
    }


def test_llama_vim_fills_a_gap(client: httpx2.Client) -> None:
    answer = client.post("/infill", json=vim_body())
    assert answer.status_code == 200
    body = answer.json()
    assert list(body) == VIM_FIELDS
    assert body["content"].startswith("    return a")
    assert (body["truncated"], body["timings/predicted_n"] > 0) == (False, True)
    # Its ring of other files is sent ahead, so that the cache has them when a completion is wanted.
    warm = vim_body(n_predict=0, t_max_predict_ms=1, response_fields=[""], input_prefix="", input_suffix="")
    ahead = client.post("/infill", json=warm)
    assert (ahead.status_code, ahead.json()) == (200, {})


def test_llama_vim_goes_on_from_what_was_typed(client: httpx2.Client) -> None:
    answer = client.post("/infill", json=vim_body(prompt="    re", n_indent=4, n_predict=2, id_slot=1))
    assert answer.status_code == 200
    assert answer.json()["content"]


@pytest.mark.parametrize(("engine", "drawn"), [("llamacpp", ("top_k", "infill")), ("mlx", ("top_k",))])
def test_editors_ask_for_the_infill_stage(engine: Any, drawn: tuple[str, ...]) -> None:
    """Where the engine has no such stage, it is left out and not refused."""
    card = ModelCard(id="m", path="m", format="gguf", engine=engine)
    body = json.dumps(vim_body(samplers=["top_k", "infill"])).encode()
    call = read_infill(WireRequest(method="POST", path="/infill", body=body, card_of=lambda _: card))
    assert call.requests[0].sampling.samplers == drawn


def test_llama_vscode_fills_a_gap_and_checks_health(client: httpx2.Client) -> None:
    """llama.vscode looks at /health, asks /infill like llama.vim, with a model's name and a key it may have."""
    assert client.get("/health").json() == {"status": "ok"}
    body = vim_body(model="qwen", response_fields=None, nindent=4)
    answer = client.post("/infill", json=body, headers={"authorization": "Bearer none"})
    assert answer.status_code == 200
    assert answer.json()["generation_settings"]["n_predict"] == 128
    chat = {
        "messages": [{"role": "user", "content": "Name the capital"}],
        "stream": False,
        "temperature": 0.8,
        "top_p": 0.95,
        "cache_prompt": True,
        "n_predict": 64,
    }
    said = client.post("/v1/chat/completions", json=chat).json()
    assert said["choices"][0]["message"]["content"] == "Paris"


def test_open_webui_lists_models_and_chats(client: httpx2.Client) -> None:
    """As an OpenAI connection with llama.cpp as its provider: the list, then streams with usage asked for."""
    listed = client.get("/v1/models").json()
    assert listed["data"][0]["id"]
    body = {
        "model": listed["data"][0]["id"],
        "messages": [{"role": "user", "content": "Name the capital"}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "chat_template_kwargs": {"enable_thinking": False},
    }
    with client.stream("POST", "/v1/chat/completions", json=body) as answer:
        frames = [line[6:] for line in answer.iter_lines() if line.startswith("data: ")]
    assert frames[-1] == "[DONE]"
    parts = [json.loads(frame) for frame in frames[:-1]]
    text = "".join(choice["delta"].get("content") or "" for part in parts for choice in part["choices"])
    assert (text, parts[-1]["usage"]["completion_tokens"] > 0) == ("Paris", True)


def test_litellm_asks_what_is_served(client: httpx2.Client) -> None:
    """Its llama.cpp mode is OpenAI's wire, with /props for the window and /tokenize for counting."""
    props = client.get("/props").json()
    assert props["default_generation_settings"]["n_ctx"] == 8192
    assert props["total_slots"] == 2
    prompt = client.post("/apply-template", json={"messages": [{"role": "user", "content": "Name it"}]}).json()[
        "prompt"
    ]
    tokens = client.post("/tokenize", json={"content": prompt, "add_special": True, "with_pieces": True}).json()[
        "tokens"
    ]
    assert "".join(token["piece"] for token in tokens if isinstance(token["piece"], str)).endswith("assistant\n")


def test_langchain_reads_native_streams(client: httpx2.Client) -> None:
    """Its llama.cpp server client streams /completion and reads `content` until `stop`."""
    body = {
        "prompt": "Name the capital",
        "n_predict": -1,
        "temperature": 0.8,
        "stop": [],
        "stream": True,
        "grammar": "",
    }
    with client.stream("POST", "/completion", json=body) as answer:
        assert answer.headers["content-type"] == "text/event-stream"
        frames = [json.loads(line[6:]) for line in answer.iter_lines() if line.startswith("data: ")]
    assert "".join(frame["content"] for frame in frames) == "Paris"
    assert [frame["stop"] for frame in frames] == [False] * (len(frames) - 1) + [True]


@pytest.mark.parametrize("prefix", ["/v1", ""])
def test_prompts_are_counted(client: httpx2.Client, prefix: str) -> None:
    chat = {"messages": [{"role": "user", "content": "Name it"}]}
    counts = {
        json.dumps(client.post(f"{prefix}/chat/completions/input_tokens", json=chat).json()),
        json.dumps(client.post(f"{prefix}/responses/input_tokens", json={"input": "Name it"}).json(), sort_keys=True),
    }
    assert len(counts) == 1
    [count] = counts
    assert json.loads(count)["object"] == "response.input_tokens"


@pytest.mark.parametrize("stream", [False, True])
def test_verbose_shows_what_an_answer_came_to(client: httpx2.Client, stream: bool) -> None:
    body = {"messages": [{"role": "user", "content": "Name it"}], "verbose": True, "stream": stream, "timings": True}
    text = client.post("/v1/chat/completions", json=body).text
    last = text.split("data: ")[-2] if stream else text
    answer = json.loads(last)
    recorded = load("chat_verbose").answer
    shown = answer["__verbose"]
    assert list(shown) == [key for key in recorded["__verbose"] if key != "generation_settings"]
    assert "Name it" in shown["prompt"]
    assert (shown["content"], shown["stop_type"], shown["id_slot"]) == ("" if stream else "Paris", "eos", 0)
    assert shown["tokens_cached"] == shown["tokens_predicted"] + shown["tokens_evaluated"] - 1
    assert "timings" in answer
    assert "__verbose" not in client.post("/v1/chat/completions", json={**body, "verbose": False}).text


@pytest.mark.parametrize("stream", [False, True])
def test_completions_are_verbose_too(client: httpx2.Client, stream: bool) -> None:
    body = {"prompt": "Name it", "verbose": True, "stream": stream, "timings": True}
    text = client.post("/v1/completions", json=body).text
    answer = json.loads(text.split("data: ")[-2] if stream else text)
    shown = answer["__verbose"]
    assert list(shown) == [key for key in load("chat_verbose").answer["__verbose"] if key != "generation_settings"]
    assert shown["prompt"].endswith("Name it")
    assert (shown["content"], shown["stop_type"]) == ("" if stream else "Paris", "eos")
    assert answer["timings"]["predicted_n"] == shown["tokens_predicted"]
    assert [*shown["timings"], "queued_ms", "lane"] == list(answer["timings"])
    plain = client.post("/v1/completions", json={"prompt": "Name it", "stream": stream}).text
    assert "__verbose" not in plain
    assert "timings" not in plain


@pytest.mark.parametrize("stream", [False, True])
def test_thoughts_may_stay_in_the_text(tmp_path: Path, stream: bool) -> None:
    """As llama-server's `reasoning_format: none` leaves them, which Open WebUI reads tags out of."""
    script = {"chat_template": OPEN_THOUGHT, "rules": [{"match": "Name", "pieces": ["hm", "</think>", "\n\n", "Oslo"]}]}
    body = {"messages": [{"role": "user", "content": "Name it"}], "stream": stream}
    with scripted(tmp_path, {**script, "control_tokens": ["<think>", "</think>"]}) as client:
        inline = client.post("/v1/chat/completions", json={**body, "reasoning_format": "none"}).text
        apart = client.post("/v1/chat/completions", json=body).text
    assert _told(inline, stream) == ("hm</think>\n\nOslo", "")
    assert _told(apart, stream) == ("Oslo", "hm")


def _told(text: str, stream: bool) -> tuple[str, str]:
    """Content and thoughts of a whole answer or a stream."""
    if not stream:
        message = json.loads(text)["choices"][0]["message"]
        return message["content"], message.get("reasoning_content", "")
    lines = [line[6:] for line in text.splitlines() if line.startswith("data: {")]
    deltas = [json.loads(line)["choices"][0]["delta"] for line in lines]
    content, thought = ("".join(delta.get(key) or "" for delta in deltas) for key in ("content", "reasoning_content"))
    return content, thought
