"""What an agent's second turn costs on a real model: the tokens it finds in the prefix cache, the time to its first
token. The first turn runs on a server that has seen nothing.

The second prompt must repeat the first conversation, which is checked; the share that was cached is told of the shorter
prompt, which is no less than what the two share."""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.servers import dragoman
from tools.agents.scenarios import NOTE
from tools.agents.stage import prepared, refused, run_agent
from tools.agents.tap import Exchange, Tap, tapped

WINDOW = 4096
ANSWER = 48
"""Tokens of an answer at most; the model's own is shorter. Claude Code gives up on one that is cut again and again."""
LEAST_CACHED = 0.95
MOST_TIME = 0.25
FIRST = f"Tell me in one sentence what a file called {NOTE} may be good for."
SECOND = "And in which folder would you put it?"
BILLING = "x-anthropic-billing-header: cc_version=2.1.197.{0}; cc_entrypoint=cli; cch={0};"


@dataclass(frozen=True)
class Turns:
    """An agent's words for a first turn, and for a second one of the same session."""

    first: tuple[str, ...]
    second: tuple[str, ...]
    route: str
    token: str
    """A regex that the answer matches from its first token on."""


_CLAUDE = ("claude", "-p", "--bare", "--tools", "Read", "--output-format", "json")
_PI = ("pi", "-p", "--no-extensions", "--no-skills")
_ANTHROPIC = ("POST /v1/messages", r'"content_block_delta"')
_CHAT = ("POST /v1/chat/completions", r'"(?:content|reasoning_content)": ?"[^"]')
_RESPONSES = ("POST /v1/responses", r'"type": ?"response\.output_text\.delta"')
AGENTS = {
    "claude --bare": Turns((*_CLAUDE, "--", "PROMPT"), (*_CLAUDE, "--continue", "--", "PROMPT"), *_ANTHROPIC),
    "pi, chat": Turns((*_PI, "PROMPT"), (*_PI, "--continue", "PROMPT"), *_CHAT),
    "pi, responses": Turns(
        (*_PI, "--provider", "dragoman-responses", "PROMPT"),
        (*_PI, "--provider", "dragoman-responses", "--continue", "PROMPT"),
        *_RESPONSES,
    ),
    "pi, messages": Turns(
        (*_PI, "--provider", "dragoman-messages", "PROMPT"),
        (*_PI, "--provider", "dragoman-messages", "--continue", "PROMPT"),
        *_ANTHROPIC,
    ),
}


@dataclass(frozen=True)
class Figures:
    """A turn's prompt, how much of it was cached, and seconds to the first token."""

    prompt: int
    cached: int
    seconds: float


def measure(model: str, names: list[str], programs: Path) -> bool:
    """Print the figures of the agents whose names begin so. Whether one of them is worse than it should be."""
    print(f"{'agent':24} {'prompt 1':>9} {'prompt 2':>9} {'cached':>7} {'of 1':>7} {'first token':>18} {'ratio':>6}")
    chosen = {name: one for name, one in AGENTS.items() if not names or name.startswith(tuple(names))}
    failed = [name for name, turns in chosen.items() if _agent(name, turns, model, programs)]
    return bool(failed)


def _short(body: bytes) -> bytes:
    """The request with a short answer: a small model would ramble to the end of its window."""
    if not body:
        return body
    fields: dict[str, Any] = json.loads(body)
    known = [name for name in ("max_tokens", "max_completion_tokens", "max_output_tokens") if name in fields]
    for name in known or (["max_output_tokens"] if "input" in fields else []):
        fields[name] = ANSWER
    return json.dumps(fields).encode()


def _agent(name: str, turns: Turns, model: str, programs: Path) -> bool:
    options = ("--ctx", str(WINDOW), "--max-lanes", "1", "--ephemeral", "--temperature", "0")
    with (
        tempfile.TemporaryDirectory() as folder,
        dragoman(model, *options) as server,
        tapped(server.url, _short) as tap,
    ):
        prepared(Path(folder))
        try:
            one = _turn(turns, turns.first, FIRST, tap, Path(folder), programs)
            two = _turn(turns, turns.second, SECOND, tap, Path(folder), programs)
            _check_repeated(one, two)
        except (RuntimeError, ValueError, subprocess.TimeoutExpired) as error:
            print(f"{name:24} failed: {error}")
            return True
        cold = _figures(one, turns.token)
        bad = _tell(name, cold, _figures(two, turns.token))
        if turns.route == _ANTHROPIC[0]:
            bad |= _tell(f"{name}, billed anew", cold, _billed(two, turns, tap))
    return bad


def _turn(turns: Turns, words: tuple[str, ...], prompt: str, tap: Tap, folder: Path, programs: Path) -> Exchange:
    run_agent(words, prompt, tap.url, folder, programs, {})
    seen = tap.take()
    if faults := refused(seen):
        raise RuntimeError(faults[0])
    asked = [exchange for exchange in seen if exchange.route == turns.route]
    if not asked:
        raise RuntimeError(f"no {turns.route} was seen")
    return asked[0]


def _check_repeated(one: Exchange, two: Exchange) -> None:
    """Raises ValueError where the agent itself begins the second turn with other words, as after a compaction."""
    first, second = (_conversation(exchange) for exchange in (one, two))
    if second[: len(first)] != first:
        at = next(n for n, message in enumerate(first) if second[n : n + 1] != [message])
        raise ValueError(
            f"it sent another conversation: message {at} was {first[at]}, then {second[at : at + 1]}"[:400]
        )


def _conversation(exchange: Exchange) -> list[dict[str, Any]]:
    """The messages, without marks that are not for the model."""
    body: dict[str, Any] = json.loads(exchange.sent, object_hook=_unmarked)
    return body.get("messages") or body["input"]


def _unmarked(value: dict[str, Any]) -> dict[str, Any]:
    return {name: field for name, field in value.items() if name != "cache_control"}


def _billed(two: Exchange, turns: Turns, tap: Tap) -> Figures:
    """The second turn as two more runs of Claude Code would send it, each with a billing line of its own; the last."""
    figures: list[Figures] = []
    for mark in ("aaaaa", "bbbbb"):
        body: dict[str, Any] = json.loads(two.sent)
        system = body.get("system") or []
        blocks = system if isinstance(system, list) else [{"type": "text", "text": system}]
        body["system"] = [{"type": "text", "text": BILLING.format(mark)}, *blocks]
        figures.append(_figures(_posted(tap, two, body), turns.token))
    return figures[-1]


def _posted(tap: Tap, like: Exchange, body: dict[str, Any]) -> Exchange:
    headers = {
        name: value for name, value in like.headers.items() if name.lower() not in ("content-length", "accept-encoding")
    }
    request = urllib.request.Request(f"{tap.url}{like.path}", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=600) as reply:
        reply.read()
    time.sleep(0.2)
    return tap.take()[-1]


def _tell(name: str, one: Figures, two: Figures) -> bool:
    share = two.cached / min(one.prompt, two.prompt)
    ratio = two.seconds / one.seconds
    times = f"{one.seconds * 1000:.0f} -> {two.seconds * 1000:.0f} ms"
    bad = share < LEAST_CACHED or ratio > MOST_TIME
    print(
        f"{name:24} {one.prompt:9} {two.prompt:9} {two.cached:7} {share:7.1%} {times:>18} {ratio:6.2f}"
        f"  {'too little' if bad else 'ok'}",
        flush=True,
    )
    return bad


def _figures(exchange: Exchange, token: str) -> Figures:
    seconds = exchange.first(token)
    for read in (_messages_usage, _chat_usage, _responses_usage):
        for line in reversed(exchange.answer.decode().splitlines()):
            found = read(line)
            if found is not None:
                return Figures(*found, seconds)
    raise ValueError(f"the answer to {exchange.route} tells no usage")


Usage = tuple[int, int] | None


def _data(line: str) -> dict[str, Any]:
    try:
        return json.loads(line.removeprefix("data: ")) if line.startswith("data: {") else {}
    except ValueError:
        return {}


def _messages_usage(line: str) -> Usage:
    usage = (_data(line).get("message") or {}).get("usage")
    if not usage:
        return None
    cached = usage.get("cache_read_input_tokens") or 0
    return usage["input_tokens"] + cached + (usage.get("cache_creation_input_tokens") or 0), cached


def _chat_usage(line: str) -> Usage:
    usage = _data(line).get("usage")
    if not usage or "prompt_tokens" not in usage:
        return None
    return usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"]


def _responses_usage(line: str) -> Usage:
    usage = (_data(line).get("response") or {}).get("usage")
    if not usage:
        return None
    return usage["input_tokens"], usage["input_tokens_details"]["cached_tokens"]
