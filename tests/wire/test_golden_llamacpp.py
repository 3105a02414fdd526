"""All recorded llama-server exchanges, replayed over HTTP against whole servers with the llama.cpp engine.

See `golden_account` for what is compared how, and for every recording that is not equal.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.golden import Exchange, Reply, all_names, differences, folded, load, send
from tests.support.running import RunningServer, running
from tests.wire.conftest import settings
from tests.wire.golden_account import (
    BEGINS,
    BY_DESIGN,
    ELSEWHERE,
    GIST,
    HELD_BACK,
    LONG,
    SLOTS_SHOWN,
    STOPS_OF_FLAGS,
    STORIES,
    UNANSWERED,
    UNREACHED,
    replayed,
    server_for,
)

pytestmark = pytest.mark.llamacpp

RECORDINGS = 268


class Servers:
    """The servers of these recordings, each started when it is first asked for."""

    def __init__(self, model: Path, folder: Path) -> None:
        self._model = model
        self._folder = folder
        self._running: dict[str, RunningServer] = {}
        self.stack = contextlib.ExitStack()

    def __getitem__(self, name: str) -> RunningServer:
        if name not in self._running:
            self._running[name] = self.stack.enter_context(running(self._settings(name)))
        return self._running[name]

    def _settings(self, name: str):
        engine: dict[str, Any] = {
            "one": {"ctx": 2048, "max_lanes": 1, "slot_save_path": self._folder},
            "b64": {"ctx": 1024, "max_lanes": 1, "engine_args": ("-b 64", "-ub 64")},
            "keys": {"ctx": 512, "max_lanes": 1, "context_shift": True},
            "two": {"ctx": 512, "max_lanes": 2},
            "four": {"ctx": 512, "max_lanes": 4},
        }[name]
        config = dataclasses.replace(settings(engine="llamacpp", threads=2, **engine), model=str(self._model))
        if name == "b64":
            return dataclasses.replace(
                config, answer=dataclasses.replace(config.answer, temperature=0.0, default_max_tokens=5)
            )
        if name != "keys":
            return config
        return dataclasses.replace(
            config, alias=("my-model", "other"), listen=dataclasses.replace(config.listen, api_keys=("k1", "k2"))
        )


@pytest.fixture(scope="module")
def servers(starter_gguf: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    pytest.importorskip("xllamacpp")
    every = Servers(starter_gguf, tmp_path_factory.mktemp("slots"))
    with every.stack:
        yield every


def cases() -> list[object]:
    """In the order of servers, so that one is not started and idle while another works."""
    ordered = sorted(replayed(), key=lambda name: server_for(load(name)) or "")
    return [pytest.param(name, marks=pytest.mark.long) if name in LONG else name for name in ordered]


@pytest.mark.parametrize("name", cases())
def test_answers_as_recorded(name: str, servers: Servers) -> None:
    exchange = load(name)
    url = servers[server_for(exchange) or ""].url
    for earlier in STORIES.get(name, ()):
        send(url, load(earlier), timeout=600.0)
    assert unequal(name, exchange, send(url, exchange, timeout=600.0)) == []


@pytest.mark.parametrize("name", sorted(set(BY_DESIGN) - UNANSWERED))
def test_what_is_by_design_still_differs(name: str, servers: Servers) -> None:
    """An entry that has become equal is to be taken out of the manifest."""
    exchange = load(name)
    assert unequal(name, exchange, send(servers[server_for(exchange) or "four"].url, exchange, timeout=600.0)) != []


def unequal(name: str, exchange: Exchange, reply: Reply) -> list[str]:
    """Where the reply is not the recorded answer."""
    if name in GIST:
        return differences(gist(exchange), gist(reply))
    expected_type = exchange.content_type
    if exchange.path.startswith("/v1/messages"):
        expected_type = "application/json"  # Anthropic's
    head = differences([exchange.status, expected_type], [reply.status, reply.content_type])
    if exchange.text is not None:
        return head + differences(exchange.text, reply.text or "")
    expected, actual = (exchange.answer, reply.answer) if exchange.frames is None else (exchange.frames, reply.frames)
    if name in STOPS_OF_FLAGS:
        (expected if exchange.frames is None else expected[-1])["generation_settings"]["stop"] = []
    if name in HELD_BACK:
        expected, actual = folded(expected), folded(actual or [])
    if name in SLOTS_SHOWN:
        for wanted, shown in zip(expected, actual, strict=True):
            shown["params"] |= {key: wanted["params"][key] for key in UNREACHED}
    if b'"id_slot"' in (exchange.body or b""):
        head += differences([expected["id_slot"]], [actual["id_slot"]], "$.slots")
    if name in BEGINS:
        message = expected["error"]["message"]
        actual["error"]["message"] = actual["error"]["message"][: len(message)]
    return head + differences(expected, actual)


def gist(answer: Exchange | Reply) -> list[Any]:
    """What an OpenAI client reads: status class, then texts and reasons by choice."""
    if answer.status >= 400:
        return [answer.status // 100]
    frames = [answer.answer] if answer.frames is None else [frame for frame in answer.frames if frame != "[DONE]"]
    texts: dict[int, str] = {}
    reasons: dict[int, str] = {}
    for frame in frames:
        for choice in frame["choices"]:
            said = choice.get("message") or choice.get("delta") or choice
            texts[choice["index"]] = texts.get(choice["index"], "") + (said.get("content") or said.get("text") or "")
            if choice.get("finish_reason"):
                reasons[choice["index"]] = choice["finish_reason"]
    return [answer.status // 100, [texts[key] for key in sorted(texts)], [reasons[key] for key in sorted(reasons)]]


def test_slots_that_are_all_busy(servers: Servers) -> None:
    url = servers["one"].url
    body = {"prompt": "Once upon a time", "n_predict": 400, "stream": True, "ignore_eos": True}
    with httpx.stream("POST", f"{url}/completion", json=body, timeout=60) as answer:
        lines = answer.iter_lines()
        next(line for line in lines if line)
        busy = httpx.get(f"{url}/slots?fail_on_no_slot=1", timeout=60)
        plain = httpx.get(f"{url}/slots", timeout=60).json()
    recorded = load("slots_fail_on_no_slot_503")
    assert (busy.status_code, busy.json()) == (recorded.status, recorded.answer)
    one_idle = load("np2_slots_fail_on_no_slot_one_idle_200").answer
    known = [key for key in one_idle[0] if key not in ("prompt", "generated")]
    assert (plain[0]["is_processing"], list(plain[0])) == (True, known)
    httpx.post(f"{url}/slots/0?action=erase", json={}, timeout=60)  # waits until it is free again


def test_a_named_stream_is_kept(servers: Servers) -> None:
    url = servers["one"].url
    body = {"prompt": "The capital of France is", "n_predict": 4, "temperature": 0, "stream": True}
    whole = httpx.post(f"{url}/completion", json=body, headers={"X-Conversation-Id": "conv1"}, timeout=60).content
    found = httpx.post(f"{url}/v1/streams/lookup", json={"conversation_ids": ["conv1", "zz"]}, timeout=60).json()
    assert [list(entry) for entry in found] == [list(entry) for entry in load("stream_session_lookup").answer]
    assert (found[0]["is_done"], found[0]["total_bytes"]) == (True, len(whole))
    rest = httpx.get(f"{url}/v1/stream", params={"conv_id": "conv1", "from": 7}, timeout=60)
    assert (rest.headers["content-type"], rest.content) == ("text/event-stream", whole[7:])
    gone = httpx.delete(f"{url}/v1/stream?conv_id=conv1", timeout=60)
    assert gone.status_code == load("stream_session_delete").status
    lost = httpx.get(f"{url}/v1/stream?conv_id=conv1", timeout=60)
    assert (lost.status_code, lost.json()["error"]["message"]) == (404, "File Not Found")


def test_metric_families(servers: Servers) -> None:
    """Names, kinds, words and order are llama-server's; the numbers are this server's own."""
    reply = httpx.get(f"{servers['one'].url}/metrics", timeout=60)
    recorded = load("metrics_after")
    assert (reply.status_code, reply.headers["content-type"]) == (recorded.status, recorded.content_type)
    shown = [line for line in reply.text.splitlines() if "llamacpp:" in line]
    assert _unnumbered(shown) == _unnumbered((recorded.text or "").splitlines())
    assert "dragoman_requests_total" in reply.text


def _unnumbered(lines: list[str]) -> list[str]:
    return [re.sub(r" [0-9.e+-]+$", "", line) for line in lines if line]


def test_every_recording_is_accounted_for(capsys: pytest.CaptureFixture[str]) -> None:
    names = all_names()
    accounted = [*replayed(), *ELSEWHERE, *BY_DESIGN]
    assert sorted(accounted) == names
    assert len(names) == RECORDINGS
    assert all(server_for(load(name)) for name in replayed())
    assert set(STORIES) | HELD_BACK | LONG | BEGINS <= set(replayed())
    assert all(json.dumps(reason) for reason in BY_DESIGN.values())
    with capsys.disabled():
        print(f"\n{len(accounted)} of {RECORDINGS} accounted for: {len(replayed())} replayed here", end=" ")
        by_gist = len(GIST & set(replayed()))
        print(f"({by_gist} by their gist), {len(ELSEWHERE)} by other tests, {len(BY_DESIGN)} not equal")
