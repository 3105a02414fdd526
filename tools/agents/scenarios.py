"""Each agent at work: its command line, what the model shall do, and what must have become of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tools.agents.script import Step
from tools.agents.tap import Exchange

NOTE = "note.txt"
OLD, NEW = "an old line", "a new line"
PATCH = f"*** Begin Patch\n*** Update File: {NOTE}\n@@\n-{OLD}\n+{NEW}\n*** End Patch\n"
THOUGHT = "Reading before writing is wise."
COMMAND = f"cat {NOTE} && echo made > made.txt"


@dataclass(frozen=True)
class Ended:
    """What a run left: the folder it worked in, and what went over the wire."""

    folder: Path
    exchanges: list[Exchange]


Check = Callable[[Ended], str]
"""What is wrong, '' for nothing."""


@dataclass(frozen=True)
class Scenario:
    """`words` follow `dragoman agent --url …`; PROMPT among them stands for the user's words."""

    words: tuple[str, ...]
    steps: tuple[Step, ...]
    checks: tuple[Check, ...]
    env: dict[str, str] = field(default_factory=dict)


def made(ended: Ended) -> str:
    """The shell command had its effect."""
    return "" if (ended.folder / "made.txt").is_file() else "the command did not run"


def patched(ended: Ended) -> str:
    """The file was changed."""
    text = (ended.folder / NOTE).read_text()
    return "" if text == f"{NEW}\n" else f"the file was not changed: {text!r}"


def grammar_sent(ended: Ended) -> str:
    """The tool was a custom one, with a grammar."""
    bodies = [json.loads(exchange.sent) for exchange in ended.exchanges if exchange.path.endswith("/responses")]
    tools = [tool for body in bodies for tool in body["tools"] if tool["type"] == "custom"]
    return "" if any("grammar" in json.dumps(tool) for tool in tools) else "no custom tool with a grammar was offered"


def many_tools(ended: Ended) -> str:
    """The whole tool prompt was sent."""
    most = max(len(json.loads(exchange.sent).get("tools", ())) for exchange in _messages(ended))
    return "" if most >= 20 else f"only {most} tools were sent"


def thought_omitted(ended: Ended) -> str:
    """The thought came back in a signature only."""
    last = json.loads(_messages(ended)[-1].sent)
    blocks = [block for turn in last["messages"] if isinstance(turn["content"], list) for block in turn["content"]]
    thoughts = [block for block in blocks if block["type"] == "thinking"]
    if not thoughts:
        return "no thought was sent back"
    if any(block["thinking"] for block in thoughts):
        return "the thought was not omitted"
    return "" if all(block["signature"] for block in thoughts) else "a thought came back without a signature"


def _messages(ended: Ended) -> list[Exchange]:
    return [exchange for exchange in ended.exchanges if exchange.route == "POST /v1/messages"]


_CODEX = ("codex", "exec", "--skip-git-repo-check", "--json", "--dangerously-bypass-approvals-and-sandbox")
_CLAUDE = ("claude", "-p", "--output-format", "json", "--allowedTools", "Bash,Read,Edit")
_PI = ("pi", "-p", "--no-session")
_CODEX_SHELL = (Step("exec_command", {"cmd": COMMAND}, OLD),)
_BASH = Step("Bash", {"command": COMMAND, "description": "Read the note"}, OLD)
_READ = Step("Read", {"file_path": f"{{FOLDER}}/{NOTE}"}, OLD)
_PI_STEPS = (Step("read", {"path": NOTE}, OLD), Step("bash", {"command": COMMAND}, OLD))

SCENARIOS: dict[str, Scenario] = {
    "codex-shell": Scenario((*_CODEX, "PROMPT"), _CODEX_SHELL, (made,)),
    "codex-patch": Scenario(
        (*_CODEX, "PROMPT"),
        (Step("exec_command", {"cmd": f"apply_patch <<'EOF'\n{PATCH}EOF\n"}, "Success"),),
        (patched,),
    ),
    # A model Codex knows gets its patch tool as a custom tool with a Lark grammar.
    "codex-custom": Scenario(
        ("--model", "gpt-5.5", *_CODEX, "PROMPT"),
        (Step("apply_patch", {"input": PATCH}, "Success"),),
        (patched, grammar_sent),
    ),
    "codex-oss-ollama": Scenario((*_CODEX, "--oss", "--local-provider", "ollama", "PROMPT"), _CODEX_SHELL, (made,)),
    "codex-oss-lmstudio": Scenario((*_CODEX, "--oss", "--local-provider", "lmstudio", "PROMPT"), _CODEX_SHELL, (made,)),
    "claude-bare": Scenario((*_CLAUDE, "--bare", "--tools", "Read,Bash", "--", "PROMPT"), (_READ, _BASH), (made,)),
    "claude-full": Scenario((*_CLAUDE, "--", "PROMPT"), (_READ, _BASH), (made, many_tools)),
    "claude-omitted": Scenario(
        (*_CLAUDE, "--bare", "--thinking-display", "omitted", "--tools", "Bash", "--", "PROMPT"),
        (Step("Bash", {"command": COMMAND, "description": "Read the note"}, OLD, THOUGHT),),
        (made, thought_omitted),
    ),
    "pi-chat": Scenario((*_PI, "PROMPT"), _PI_STEPS, (made,)),
    "pi-responses": Scenario((*_PI, "--provider", "dragoman-responses", "PROMPT"), _PI_STEPS, (made,)),
    "pi-messages": Scenario((*_PI, "--provider", "dragoman-messages", "PROMPT"), _PI_STEPS, (made,)),
    "opencode": Scenario(
        ("opencode", "run", "PROMPT"),
        (Step("bash", {"command": COMMAND, "description": "Read the note"}, OLD),),
        (made,),
    ),
}
