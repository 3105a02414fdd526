"""How each coding agent is pointed at a server: settings of the child process only. Starts nothing, asks no server.

An agent's own settings files are never written. What cannot be said in the environment or on the command line stands
in files of a temporary folder.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

KEY = "DRAGOMAN_API_KEY"
"""The variable agents that can be told a variable's name read the key from."""

_NO_KEY = "dragoman"
_PATIENT_MS = 3_600_000
_LEAST_COMPACTED = 50_000
_ANSWER_SHARE = 4
_PI_RESERVED = 16_384
_PI_KEPT = 20_000
"""Tokens that pi leaves free in the window, and that it does not sum up, unless its settings say otherwise."""


@dataclass(frozen=True, kw_only=True)
class Served:
    """A server and the model an agent shall use there. `url` has no trailing slash, `window` is in tokens, 0 where it
    is not known; without `key` the server asks for none."""

    url: str
    model: str
    key: str = ""
    window: int = 0

    @property
    def shown_key(self) -> str:
        """A key in any case, since agents refuse to start without."""
        return self.key or _NO_KEY


@dataclass(frozen=True, kw_only=True)
class Launch:
    """A child process. `unset` variables are taken out of its environment; `files` are written to a temporary folder
    that the variable `folder` names, beside what is taken over from `template`, the user's own. `settings` are put into
    JSON files there, where the user's own do not say otherwise. `kept` are folders there for what the agent writes and
    reads again, such as sessions; they are made where they are missing."""

    command: tuple[str, ...]
    env: dict[str, str] = field(default_factory=dict[str, str])
    unset: tuple[str, ...] = ()
    folder: str = ""
    files: dict[str, str] = field(default_factory=dict[str, str])
    settings: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    template: Path | None = None
    kept: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Agent:
    """An agent we know: its program, how to install it, and how to launch it with further arguments."""

    title: str
    program: str
    install: str
    launch: Callable[[Served, Sequence[str]], Launch]


def claude(served: Served, arguments: Sequence[str]) -> Launch:
    """Claude Code, on the Messages wire; every class of model it knows is the one served."""
    env = {
        "ANTHROPIC_BASE_URL": served.url,
        "ANTHROPIC_MODEL": served.model,
        "ANTHROPIC_DEFAULT_OPUS_MODEL": served.model,
        "ANTHROPIC_DEFAULT_SONNET_MODEL": served.model,
        "ANTHROPIC_DEFAULT_HAIKU_MODEL": served.model,
        "ANTHROPIC_SMALL_FAST_MODEL": served.model,
        "CLAUDE_CODE_SUBAGENT_MODEL": served.model,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_ATTRIBUTION_HEADER": "0",
        "API_TIMEOUT_MS": str(_PATIENT_MS),
    }
    if served.window >= _LEAST_COMPACTED:
        env["CLAUDE_CODE_AUTO_COMPACT_WINDOW"] = str(served.window)
    # Bare, it reads no token; otherwise it would ask whether a key in the environment may be used.
    bare = "--bare" in arguments
    env["ANTHROPIC_API_KEY" if bare else "ANTHROPIC_AUTH_TOKEN"] = served.shown_key
    unset = (
        "ANTHROPIC_AUTH_TOKEN" if bare else "ANTHROPIC_API_KEY",
        "CLAUDE_CODE_USE_BEDROCK",
        "CLAUDE_CODE_USE_VERTEX",
    )
    return Launch(command=("claude", *arguments), env=env, unset=unset)


def codex(served: Served, arguments: Sequence[str]) -> Launch:
    """Codex, on the Responses wire as a provider of its own, or with `--oss` as the local server it asks for."""
    settings: dict[str, Any] = {"model_context_window": served.window} if served.window else {}
    env = {KEY: served.shown_key}
    if "--oss" in arguments:
        env["CODEX_OSS_BASE_URL"] = f"{served.url}/v1"
        return Launch(command=("codex", *_overrides(settings), *_oss(served.model, arguments), *arguments), env=env)
    provider = "model_providers.dragoman"
    settings |= {
        "model_provider": "dragoman",
        "model": served.model,
        f"{provider}.name": "Dragoman",
        f"{provider}.base_url": f"{served.url}/v1",
        f"{provider}.wire_api": "responses",
        f"{provider}.env_key": KEY,
        f"{provider}.stream_idle_timeout_ms": _PATIENT_MS,
        "web_search": "disabled",
    }
    return Launch(command=("codex", *_overrides(settings), *arguments), env=env)


def _oss(model: str, arguments: Sequence[str]) -> list[str]:
    """What is not said of the local server: which kind it is, and the model by the name that kind lists it under."""
    said = " ".join(arguments).replace("=", " ")
    ollama = "--local-provider ollama" in said
    kind = [] if "--local-provider" in said else ["-c", 'oss_provider="lmstudio"']
    if any(word in ("-m", "--model") or word.startswith("--model=") for word in arguments):
        return kind
    return [*kind, "-m", f"{model}:latest" if ollama and ":" not in model else model]


def _overrides(settings: dict[str, Any]) -> list[str]:
    """`-c key=value` for each; JSON's strings and numbers are TOML's."""
    return [word for key, value in settings.items() for word in ("-c", f"{key}={json.dumps(value)}")]


def pi(served: Served, arguments: Sequence[str]) -> Launch:
    """pi, on Chat; `--provider dragoman-responses` and `--provider dragoman-messages` choose the other wires."""
    apis = {
        "dragoman": ("openai-completions", f"{served.url}/v1"),
        "dragoman-responses": ("openai-responses", f"{served.url}/v1"),
        "dragoman-messages": ("anthropic-messages", served.url),
    }
    model: dict[str, Any] = {"id": served.model, "name": served.model, "input": ["text"]}
    if served.window:
        model |= {"contextWindow": served.window, "maxTokens": max(1, served.window // _ANSWER_SHARE)}
    providers = {
        name: {"baseUrl": base, "api": api, "apiKey": KEY, "models": [model]} for name, (api, base) in apis.items()
    }
    return Launch(
        command=("pi", "--provider", "dragoman", "--model", served.model, *arguments),
        env={KEY: served.shown_key},
        folder="PI_CODING_AGENT_DIR",
        files={"models.json": json.dumps({"providers": providers}, indent=2)},
        settings=_compaction(served.window),
        template=Path("~/.pi/agent"),
        kept=("sessions",),
    )


def _compaction(window: int) -> dict[str, dict[str, Any]]:
    """pi's own figures are made for windows of a hundred thousand tokens; in a small one it would sum the conversation
    up after each turn, which costs a request and the prefix."""
    share = window // _ANSWER_SHARE
    if not window or share >= _PI_KEPT:
        return {}
    reserved = min(_PI_RESERVED, share)
    compaction = {"reserveTokens": reserved, "keepRecentTokens": share}
    return {"settings.json": {"compaction": compaction, "branchSummary": {"reserveTokens": reserved}}}


def opencode(served: Served, arguments: Sequence[str]) -> Launch:
    """opencode, on Chat; its settings are merged over the user's."""
    model: dict[str, Any] = {"name": served.model}
    if served.window:
        model["limit"] = {"context": served.window, "output": max(1, served.window // _ANSWER_SHARE)}
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "Dragoman",
        "options": {"baseURL": f"{served.url}/v1", "apiKey": f"{{env:{KEY}}}", "timeout": _PATIENT_MS},
        "models": {served.model: model},
    }
    name = f"dragoman/{served.model}"
    settings = {"provider": {"dragoman": provider}, "model": name, "small_model": name}
    env = {KEY: served.shown_key, "OPENCODE_CONFIG_CONTENT": json.dumps(settings)}
    return Launch(command=("opencode", *arguments), env=env)


AGENTS: dict[str, Agent] = {
    "claude": Agent(
        title="Claude Code", program="claude", install="npm install -g @anthropic-ai/claude-code", launch=claude
    ),
    "codex": Agent(title="Codex", program="codex", install="npm install -g @openai/codex", launch=codex),
    "pi": Agent(title="pi", program="pi", install="npm install -g @mariozechner/pi-coding-agent", launch=pi),
    "opencode": Agent(title="opencode", program="opencode", install="npm install -g opencode-ai", launch=opencode),
}
"""By the name on our command line."""
