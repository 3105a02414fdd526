"""Whole servers on the scripted engine, each with a script of its own."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2

from dragoman.config import AnswerSettings
from dragoman.engines.fake import FAKE_TEMPLATE
from tests.support.running import running
from tests.wire.conftest import settings

PRIMER = "{{- '<|im_start|>assistant\\n' -}}\n{%- if enable"
OPEN_THOUGHT = FAKE_TEMPLATE.replace(PRIMER, PRIMER.replace("assistant\\n", "assistant\\n<think>\\n"))
THINKING: dict[str, dict[str, Any]] = {
    "openai_chat": {},
    "openai_responses": {},
    "anthropic": {"thinking": {"type": "adaptive"}},
    "ollama": {"think": True},
}
UNTHINKING: dict[str, dict[str, Any]] = {
    "openai_chat": {"reasoning_effort": "none"},
    "openai_responses": {"reasoning": {"effort": "none"}},
    "anthropic": {"thinking": {"type": "disabled"}},
    "ollama": {"think": False},
}


@contextmanager
def scripted(
    folder: Path, script: dict[str, Any], *, engine: dict[str, Any] | None = None, **answer: Any
) -> Iterator[httpx2.Client]:
    """A client of a server with this script; `answer` are fields of AnswerSettings, `engine` of EngineSettings."""
    path = folder / "script.json"
    path.write_text(json.dumps(script))
    config = dataclasses.replace(
        settings(engine="fake", script=path, **(engine or {})), answer=AnswerSettings(**answer)
    )
    with running(config) as server, httpx2.Client(base_url=server.url, timeout=30) as client:
        yield client
