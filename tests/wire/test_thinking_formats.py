"""A spent thinking budget and a constraint in one answer: the thought is closed, what follows fits (cases 12, 15)."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.support.checkpoints import write_checkpoint
from tests.support.running import running
from tests.wire.asking import ASKS, Said, as_format, as_tools, asking
from tests.wire.conftest import settings
from tests.wire.scripts import OPEN_THOUGHT, scripted

STREAMS = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
BUDGET = 12
BUDGETS: dict[str, dict[str, Any]] = {
    "openai_chat": {"thinking_budget": BUDGET},
    "anthropic": {"thinking": {"type": "adaptive"}},
    "openai_responses": {"thinking_budget": BUDGET},
    # A fifth of the limit, where the template reads no effort.
    "ollama": {"think": "low"},
}
FORCED: dict[str, Any] = {
    "openai_chat": {"type": "function", "function": {"name": "look"}},
    "openai_responses": {"type": "function", "name": "look"},
    "anthropic": {"type": "tool", "name": "look"},
}
FORMED = {"openai_chat": "stop", "openai_responses": "completed", "anthropic": "end_turn", "ollama": "stop"}
CALLED = {"openai_chat": "tool_calls", "openai_responses": "function_call", "anthropic": "tool_use"}
PLACE = {
    "type": "object",
    "properties": {"place": {"enum": ["Oslo", "Rome"]}, "days": {"type": "integer", "minimum": 1, "maximum": 7}},
    "required": ["place", "days"],
    "additionalProperties": False,
}
LOOK = {"name": "look", "parameters": PLACE}
SMOLLM2 = Path(__file__).parents[1] / "prompt" / "data" / "smollm2_template.json"
THINKING_TEMPLATE = (
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n'}}"
    "{% if message.reasoning_content %}{{'<think>\n' + message.reasoning_content + '\n</think>\n\n'}}{% endif %}"
    "{{message['content'] + '<|im_end|>\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{'<|im_start|>assistant\n<think>\n'}}{% endif %}"
)


def thinking_checkpoint(folder: Path) -> Path:
    """A tiny model with random weights and a template that opens a thought."""
    write_checkpoint(folder, max_position_embeddings=2048)
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"chat_template": THINKING_TEMPLATE}))
    return folder


def thinking_gguf(starter_gguf: Path, folder: Path) -> Path:
    """The starter model with a template that opens a thought, as long as its own, so that nothing else moves."""
    own: bytes = json.loads(SMOLLM2.read_text())["chat_template"].encode()
    other = THINKING_TEMPLATE.encode()
    comment = b"{#" + b" " * (len(own) - len(other) - 4) + b"#}"
    data = starter_gguf.read_bytes()
    assert data.count(own) == 1
    path = folder / "thinking.gguf"
    path.write_bytes(data.replace(own, other + comment))
    return path


@pytest.fixture(
    scope="module",
    params=[
        "fake",
        pytest.param("llamacpp", marks=pytest.mark.llamacpp),
        pytest.param("mlx", marks=pytest.mark.mlx),
    ],
)
def thinker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx2.Client]:
    """Models that would think for ever."""
    if request.param == "fake":
        rules = [{"match": "weather", "pieces": [" so", " it", " goes"], "repeat": True}]
        script = {"rules": rules, "grammar": True, "chat_template": OPEN_THOUGHT}
        with scripted(tmp_path_factory.mktemp("endless"), script) as client:
            yield client
        return
    pytest.importorskip("xllamacpp" if request.param == "llamacpp" else "mlx.core")
    folder = tmp_path_factory.mktemp("thinking")
    if request.param == "llamacpp":
        model = thinking_gguf(request.getfixturevalue("starter_gguf"), folder)
    else:
        model = thinking_checkpoint(folder)
    config = settings(engine=request.param, ctx=2048, max_lanes=1, threads=2)
    with (
        running(dataclasses.replace(config, model=str(model))) as server,
        httpx2.Client(base_url=server.url, timeout=300) as client,
    ):
        yield client


def ask(client: httpx2.Client, dialect: str, stream: bool, **fields: Any) -> Said:
    if dialect == "anthropic":
        # No budget is this small there; of few tokens the least effort is a few.
        fields["output_config"] = {**fields.get("output_config", {}), "effort": "minimal"}
    return ASKS[dialect](client, asking(dialect, "What is the weather?", **fields, **BUDGETS[dialect]), stream)


@STREAMS
@pytest.mark.parametrize("dialect", BUDGETS)
def test_case_15_a_format_behind_a_closed_thought(thinker: httpx2.Client, dialect: str, stream: bool) -> None:
    said = ask(thinker, dialect, stream, **as_format(dialect, PLACE))
    assert (said.error, said.finish) == (None, FORMED[dialect])
    check(json.loads(said.text))
    assert said.reasoning.strip()
    assert "think" not in said.text + said.reasoning


@STREAMS
@pytest.mark.parametrize("dialect", FORCED)
def test_case_12_a_forced_call_behind_a_closed_thought(thinker: httpx2.Client, dialect: str, stream: bool) -> None:
    said = ask(thinker, dialect, stream, tools=as_tools(dialect, LOOK), tool_choice=FORCED[dialect])
    assert (said.error, said.finish) == (None, CALLED[dialect])
    ((name, arguments),) = said.calls
    assert name == "look"
    check(arguments)
    assert said.reasoning.strip()
    assert said.text.strip() == ""


def test_the_thought_has_no_more_than_its_budget(thinker: httpx2.Client) -> None:
    said = ask(thinker, "openai_chat", False, **as_format("openai_chat", PLACE))
    details = said.frames[0]["usage"]["completion_tokens_details"]
    # A few more where the budget ends inside a character, and the closing tag.
    assert BUDGET <= details["reasoning_tokens"] <= BUDGET + 10


def check(place: Any) -> None:
    assert set(place) == {"place", "days"}
    assert place["place"] in ("Oslo", "Rome")
    assert 1 <= place["days"] <= 7
