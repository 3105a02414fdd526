"""What the scripted engine says in a scenario: a call for each step, then the answer.

A step's rule holds when the prompt ends in what the step before brought to light, so that the answer is only reached
by an agent whose tools had their effect and which sent what they said back.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

ANSWER = "All of it is done."
FAILED = "A tool did not do what it should."
WINDOW = 200_000


@dataclass(frozen=True)
class Step:
    """One call, and a text its result has. `thought` comes before the call and must be in the prompt afterwards."""

    tool: str
    arguments: dict[str, Any]
    result: str
    thought: str = ""


def script(steps_of: dict[str, tuple[Step, ...]]) -> dict[str, Any]:
    """The whole script; the keys are marks in the users' words. Prompts without tools (a title is wanted) and other
    prompts get a few words."""
    rules = [rule for mark, steps in steps_of.items() for rule in _rules(mark, steps)]
    return {"context_length": WINDOW, "rules": [*rules, {"pieces": ["A", " few", " words"]}]}


def _rules(mark: str, steps: tuple[Step, ...]) -> list[dict[str, Any]]:
    """Latest first, since every prompt has those before it in it."""
    said = [_call(step) for step in steps] + [ANSWER]
    rules: list[dict[str, Any]] = []
    seen = f"<tools>.*{re.escape(mark)}"
    for at, text in enumerate(said):
        thought = steps[at].thought if at < len(steps) else ""
        pieces = [*(["<think>", *_pieces(thought), "</think>"] if thought else []), *_pieces(text)]
        rules.append({"regex": seen, "pieces": pieces})
        if at < len(steps):
            seen += f".*{re.escape(thought)}" if thought else ""
            rules.append({"regex": f"{seen}.*<tool_response>", "pieces": _pieces(FAILED)})
            seen += f".*<tool_response>.*{re.escape(steps[at].result)}"
    return rules[::-1]


def _call(step: Step) -> str:
    return f"<tool_call>\n{json.dumps({'name': step.tool, 'arguments': step.arguments})}\n</tool_call>"


def _pieces(text: str) -> list[str]:
    """As a tokenizer would cut it, roughly."""
    return re.findall(r"<[a-z_/]+>|\s*\w{1,6}|\s*[^\w<]{1,3}|.", text, re.DOTALL)
