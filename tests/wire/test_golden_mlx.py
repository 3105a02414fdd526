"""The recorded llama-server exchanges on the MLX engine, with the same weights: equal, but for what kernels round.

Slow on a CPU, so opt-in. The servers are processes of their own, where MLX finds a fast BLAS before it is imported. See
`golden_account` for what is compared how.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.golden import differences, load, send
from tests.support.server_process import ServerProcess, serving
from tests.wire.golden_account import LONG, STORIES, replayed, server_for
from tests.wire.test_golden_llamacpp import unequal

pytestmark = [pytest.mark.mlx, pytest.mark.long]

ROUNDED = frozenset(
    {
        "completion_limit",
        "completion_return_tokens_false",
        "completion_return_tokens_true",
        "completions_alias_limit",
        "n_probs_3_pre",
        "n_probs_3_stream",
        "stop_partial_then_no_match",
        "stream_normal",
        "stream_return_tokens_true",
        "v1_completions",
    }
)
"""Texts and log probabilities that depend on how kernels round: llama.cpp rounds activations of these weights to 8
bits, MLX does not. Compared are keys and kinds of values."""

DIFFERENT = {
    "cache_third_extended": "prefixes of fewer than 32 tokens are computed again",
    "generation_settings_all_set": "post_sampling_probs is refused by name",
    "n_probs_3_post_temp1": "post_sampling_probs is refused by name",
    "grammar_gbnf": "a finished grammar ends the answer at once, without an end token",
    "json_schema_and_grammar": "a finished grammar ends the answer at once, without an end token",
    "stream_return_progress_chunked": "prompts are read in pieces of this engine's own",
    "slots_after": "shows what generation_settings_all_set left behind",
    "slots_fail_on_no_slot": "shows what generation_settings_all_set left behind",
    "slot_save": "saves what generation_settings_all_set left behind; see test_a_slot_outlives_its_server",
    "slot_restore": "restores what slot_save saved; see test_a_slot_outlives_its_server",
}
"""Recordings that are not equalled on this engine, with the reason."""

OTHER_SERVERS = frozenset(name for name in replayed() if name.startswith(("b64_", "ctxshift_"))) | LONG
"""Recorded with flags that only llama.cpp has, or with prompts that take minutes on a CPU."""


KEYS = ("--api-key", "k1", "--api-key", "k2")


class Servers:
    """The servers, by the names of `golden_account`; each is started when it is first asked for, and the one before is
    stopped then."""

    def __init__(self, model: Path, folder: Path) -> None:
        if find_spec("mlx") is None:
            pytest.skip("MLX is not installed")
        self._words = (str(model), "--engine", "mlx", "--ephemeral")
        self._flags = {
            "one": ("--ctx", "2048", "--max-lanes", "1", "--slot-save-path", str(folder)),
            "keys": ("--ctx", "512", "--max-lanes", "1", *("--alias", "my-model", "--alias", "other"), *KEYS),
            "two": ("--ctx", "512", "--max-lanes", "2"),
            "four": ("--ctx", "512", "--max-lanes", "4"),
        }
        self._name = ""
        self._server: ServerProcess | None = None
        self.stack = contextlib.ExitStack()

    def __getitem__(self, name: str) -> ServerProcess:
        if self._server is None or self._name != name:
            self.stack.close()
            self._name, self._server = name, self.stack.enter_context(serving(*self._words, *self._flags[name]))
        return self._server


@pytest.fixture(scope="module")
def servers(starter_gguf: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    every = Servers(starter_gguf, tmp_path_factory.mktemp("slots"))
    with every.stack:
        yield every


def _cases() -> list[str]:
    names = set(replayed()) - DIFFERENT.keys() - OTHER_SERVERS
    return sorted(names, key=lambda name: (server_for(load(name)) or "", name))


@pytest.mark.parametrize("name", _cases())
def test_answers_as_recorded(name: str, servers: Servers) -> None:
    exchange = load(name)
    url = servers[server_for(exchange) or ""].url
    for earlier in STORIES.get(name, ()):
        send(url, load(earlier), timeout=600.0)
    reply = send(url, exchange, timeout=600.0)
    if name not in ROUNDED:
        assert unequal(name, exchange, reply) == []
        return
    assert reply.status == exchange.status
    if exchange.path.startswith("/v1/"):
        return
    assert reply.content_type == exchange.content_type
    whole = exchange.frames is None
    expected, actual = (exchange.answer, reply.answer) if whole else (exchange.frames, reply.frames or [])
    assert differences(shape(expected), shape(actual)) == []


def shape(value: Any) -> Any:
    """Keys and kinds; of a list the first and the last."""
    if isinstance(value, dict):
        return {key: shape(inner) for key, inner in value.items() if key != "logprob"}
    if isinstance(value, list):
        return [shape(inner) for inner in (value[:1] + value[-1:] if value and isinstance(value[0], dict) else [])]
    return type(value).__name__


def test_every_recording_is_accounted_for() -> None:
    assert ROUNDED | DIFFERENT.keys() | OTHER_SERVERS <= set(replayed())
    assert not ROUNDED & DIFFERENT.keys()


def test_a_slot_outlives_its_server(starter_gguf: Path, tmp_path: Path) -> None:
    """What is restored gives the same next tokens as what was saved, and is not computed again."""
    body = {"prompt": "Once upon a time there was a king who", "n_predict": 12, "temperature": 0, "id_slot": 0}
    first = Servers(starter_gguf, tmp_path)
    with first.stack:
        url = first["one"].url
        begun = httpx.post(f"{url}/completion", json=body, timeout=600).json()
        saved = httpx.post(f"{url}/slots/0?action=save", json={"filename": "king"}, timeout=600).json()
        longer = {**body, "prompt": body["prompt"] + begun["content"], "return_tokens": True}
        expected = httpx.post(f"{url}/completion", json=longer, timeout=600).json()
    assert list(saved) == list(load("slot_save").answer)
    assert saved["n_saved"] == begun["tokens_cached"]
    second = Servers(starter_gguf, tmp_path)
    with second.stack:
        url = second["one"].url
        restored = httpx.post(f"{url}/slots/0?action=restore", json={"filename": "king"}, timeout=600).json()
        [slot] = httpx.get(f"{url}/slots", timeout=600).json()
        again = httpx.post(f"{url}/completion", json=longer, timeout=600).json()
    assert list(restored) == list(load("slot_restore").answer)
    assert (restored["n_restored"], restored["n_read"]) == (saved["n_saved"], saved["n_written"])
    assert slot["n_prompt_tokens"] == saved["n_saved"]
    assert again["tokens"] == expected["tokens"]
    assert again["timings"]["cache_n"] >= saved["n_saved"] - 1
