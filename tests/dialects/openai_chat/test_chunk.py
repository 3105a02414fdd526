"""The chunks described in the OpenAPI document are the ones that are written, of both generation wires."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from dragoman.core.events import (
    Event,
    Finished,
    Logprobs,
    PartDelta,
    PartEnd,
    PartKind,
    PartStart,
    PromptProgress,
    Started,
)
from dragoman.core.finish import Finish, FinishReason
from dragoman.core.logprobs import LogprobEntry
from dragoman.core.usage import Timings, Usage
from dragoman.dialects.base import Dialect, GenerateCall
from dragoman.dialects.openai_chat.endpoints import DIALECT as CHAT
from dragoman.dialects.openai_completions.endpoints import DIALECT as COMPLETIONS
from tests.dialects.answers import CONTEXT
from tests.dialects.wire import post

RIVAL = LogprobEntry(2, "b", b"b", "b", -2.0)
ENTRY = LogprobEntry(1, "a", b"a", "a", -1.0, (RIVAL,))
PARTS: tuple[tuple[PartKind, str], ...] = (("reasoning", "r"), ("text", "a"), ("refusal", "no"), ("tool_call", "{}"))
ASKED = {"stream": True, "return_progress": True, "stream_options": {"include_usage": True}}
BODIES: list[tuple[Dialect, dict[str, Any]]] = [
    (CHAT, {"messages": [{"role": "user", "content": "x"}], "logprobs": True, "top_logprobs": 1, "timings": True}),
    (CHAT, {"messages": [{"role": "user", "content": "x"}], "functions": [{"name": "look"}]}),
    (COMPLETIONS, {"prompt": "x", "logprobs": 1}),
    (COMPLETIONS, {"prompt": "x", "echo": True}),
]


def events() -> Iterator[Event]:
    yield Started(0, 5, 2, prompt_text="x")
    yield PromptProgress(0, 5, 2, 4, 1.5)
    for index, (kind, text) in enumerate(PARTS):
        yield PartStart(0, index, kind, "call_1" if kind == "tool_call" else "", "look" if kind == "tool_call" else "")
        yield PartDelta(0, index, text, (1,))
        if kind != "tool_call":
            yield Logprobs(0, (ENTRY,))
        yield PartEnd(0, index)
    yield Finished(0, Finish(FinishReason.TOOL_CALLS), Usage(5, 4, 2, 1), Timings(1.0, 2.0, 0.0, "batched", 4, 3))


def strangers(value: Any, kind: Any, at: str = "") -> list[str]:
    """Paths of what is in `value` and not in the type `kind`."""
    [schema], components = msgspec.json.schema_components([kind], ref_template="{name}")

    def walk(value: Any, schema: dict[str, Any], at: str) -> Iterator[str]:
        options = [schema, *schema.get("anyOf", ())]
        found = [components[one["$ref"]] if "$ref" in one else one for one in options]
        if isinstance(value, list):
            items = next((one["items"] for one in found if "items" in one), {})
            for entry in value:
                yield from walk(entry, items, f"{at}[]")
        known = next((one["properties"] for one in found if "properties" in one), None)
        if isinstance(value, dict) and known is not None:
            yield from (f"{at}.{name}" for name in value if name not in known)
            for name in set(value) & set(known):
                yield from walk(value[name], known[name], f"{at}.{name}")

    return list(walk(value, schema, at))


@pytest.mark.parametrize(("dialect", "body"), BODIES)
def test_chunks_are_as_described(dialect: Dialect, body: dict[str, Any]) -> None:
    row = dialect.endpoints[0]
    call = row.read(post(row.path, body | ASKED))
    assert isinstance(call, GenerateCall)
    assert row.frame is not None
    writer = call.writer(CONTEXT)
    *frames, done = [frame for event in events() for frame in writer.frames(event)] + writer.end()
    assert done.data == b"[DONE]"
    for frame in frames:
        msgspec.json.decode(frame.data, type=row.frame)
        assert strangers(json.loads(frame.data), row.frame) == []
    last = json.loads(frames[-1].data)["usage"]
    assert (last["lane"], last["speculation"]) == ("batched", {"drafted": 4, "accepted": 3})


def test_strangers_are_found() -> None:
    assert strangers({"id": "x", "sparkle": 1, "choices": [{"delta": {"odd": 1}}]}, CHAT.endpoints[0].frame) == [
        ".sparkle",
        ".choices[].delta.odd",
    ]
