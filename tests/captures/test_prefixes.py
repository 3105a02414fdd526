"""Recorded conversations of agents: the prompt of a turn is a prefix of the next one's, up to what the turn itself says
may melt into the answer, on every family of templates, however the client spells the same things anew."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from dragoman.core.prompt import Prompt
from dragoman.core.request import ChatInput
from dragoman.core.responses import Recalled
from dragoman.dialects.anthropic.read import read_messages
from dragoman.dialects.base import WireRequest
from dragoman.dialects.openai_chat.read import read_chat
from dragoman.dialects.openai_responses.read import read_response
from tests.dialects.wire import post
from tests.prompt.test_prefix_stability import FAMILIES, REWRITES, builder

FOLDERS = (
    Path(__file__).parents[1] / "dialects" / "data" / "captures",
    Path(__file__).parents[1] / "dialects" / "openai_responses" / "data",
)
SMALL = (("claude-code-07", "claude-code-08"), ("pi-01", "pi-02"), ("pi-03", "pi-04"), ("pi-05", "pi-06"))
LARGE = (("claude-code-02", "claude-code-03"), ("codex-01", "codex-02"), ("codex-13", "codex-14"))
PRIMER = 12
"""Tokens of a prompt's end that may be left out of its prefix, where nothing is rewritten."""
BILLING = "x-anthropic-billing-header:"


@lru_cache
def recorded(name: str) -> dict[str, Any]:
    [file] = [folder / f"{name}.json" for folder in FOLDERS if (folder / f"{name}.json").is_file()][:1]
    return json.loads(file.read_text())


def chat_of(wire: WireRequest) -> ChatInput:
    readers: dict[str, Callable[[WireRequest], Any]] = {
        "/v1/chat/completions": lambda wire: read_chat(wire).requests[0],
        "/v1/messages": lambda wire: read_messages(wire).requests[0],
        "/v1/responses": lambda wire: read_response(wire).build(Recalled()).request,
    }
    found = readers[wire.path](wire).input
    assert isinstance(found, ChatInput)
    return found


def prompt_of(name: str, family: str, spell: Callable[[dict[str, Any]], Any] = lambda body: body) -> Prompt:
    record = recorded(name)
    body = spell(copy.deepcopy(record["body"]))
    return builder(family).build(chat_of(post(record["path"].partition("?")[0], body, record["headers"])))


def spelled_anew(body: dict[str, Any]) -> Any:
    """The same request from another run of the client: keys in another order, other ids, cache marks elsewhere, another
    billing line."""
    chance = random.Random(7)
    renamed: dict[str, str] = {}

    def walk(value: Any, key: str = "") -> Any:
        if isinstance(value, list):
            return [walk(item) for item in value]
        if isinstance(value, dict):
            names = [name for name in value if name != "cache_control"]
            if key != "input":  # arguments stay as the model wrote them
                chance.shuffle(names)
            return {name: walk(value[name], name) for name in names}
        if key in ("call_id", "tool_call_id", "tool_use_id") or (key == "id" and isinstance(value, str)):
            return renamed.setdefault(value, f"other_{len(renamed)}")
        if isinstance(value, str) and value.startswith(BILLING):
            return f"{BILLING} cc_version=9.9.9.abc; cch=zzzzz;"
        return value

    return walk(body)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("before", "after"), SMALL)
def test_a_turn_is_a_prefix_of_the_next(family: str, before: str, after: str) -> None:
    check(prompt_of(before, family), prompt_of(after, family), family)


@pytest.mark.parametrize(("before", "after"), LARGE)
def test_so_is_one_with_all_tools(before: str, after: str) -> None:
    check(prompt_of(before, "chatml"), prompt_of(after, "chatml"), "chatml")


def check(before: Prompt, after: Prompt, family: str) -> None:
    assert before.stable_boundary is not None
    assert len(after.ids) > len(before.ids)
    assert after.ids[: before.stable_boundary] == before.ids[: before.stable_boundary]
    if family not in REWRITES:
        assert before.stable_boundary >= len(before.ids) - PRIMER


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", [after for _, after in SMALL])
def test_spelling_does_not_matter(family: str, name: str) -> None:
    assert prompt_of(name, family, spelled_anew).ids == prompt_of(name, family).ids


@pytest.mark.parametrize("name", ["claude-code-03", "codex-14"])
def test_nor_does_it_with_all_tools(name: str) -> None:
    assert prompt_of(name, "chatml", spelled_anew).ids == prompt_of(name, "chatml").ids


def test_late_system_text_stays_in_its_place() -> None:
    """Claude Code's second message is one of the system; it must not move to the top, nor vanish."""
    body = recorded("claude-code-02")["body"]
    assert [turn["role"] for turn in body["messages"]] == ["user", "system"]
    prompt = prompt_of("claude-code-02", "chatml")
    said = body["messages"][1]["content"]
    asked = body["messages"][0]["content"]
    first = asked if isinstance(asked, str) else asked[-1]["text"]
    assert 0 < prompt.text.index(first) < prompt.text.index(said)
