"""Every field of llama-server's completions: accepted as what it is, refused as anything else, in its words."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.core.errors import DragomanError, UnsupportedField
from dragoman.dialects.base import GenerateCall, WireRequest
from dragoman.dialects.llamacpp.errors import NativeError
from dragoman.dialects.llamacpp.infill import read_infill
from dragoman.dialects.llamacpp.read import read_completion
from dragoman.dialects.llamacpp.schema import BY_NAME_OF_FIELDS, FIELDS, SHAPES, Field

SPELLINGS = [name for row in FIELDS for name in (row.name, *row.aliases)]
VALID: dict[str, Any] = {
    "stream_options": {"include_usage": True},
    "response_fields": ["content"],
    "dry_sequence_breakers": ["x"],
    "lora": [{"id": 0, "scale": 0.5}],
    "json_schema": {"type": "integer"},
    "grammar": 'root ::= "a"',
    "grammar_triggers": [{"type": 2, "value": "a"}],
    "preserved_tokens": ["<a>"],
    "logit_bias": [[1, 0.5]],
    "stop": ["x"],
    "samplers": ["top_k"],
    "chat_format": 0,
    "reasoning_format": "none",
    "generation_prompt": "x",
    "parse_tool_calls": True,
    "chat_parser": "x",
    "continue_final_message": True,
    "reasoning_budget_start_tag": "<t>",
    "reasoning_budget_end_tags": ["</t>"],
    "reasoning_budget_end_tag": "</t>",
    "reasoning_budget_message": "x",
    "id_slot": 0,
    "message_delimiters": [],
    "model": "x",
}
WRONG: dict[str, Any] = {
    "stream_options": {"include_usage": 3},
    "lora": "x",
    "grammar_triggers": "x",
    "chat_format": "x",
}
LENIENT = frozenset(
    {"stop", "samplers", "logit_bias", "grammar", "response_fields", "id_slot", "message_delimiters", "model"}
)
"""Shapes of which a wrong type counts as none."""


def asked(body: dict[str, Any], path: str = "/completion") -> GenerateCall:
    wire = WireRequest(method="POST", path=path, body=json.dumps({"prompt": "a", **body}).encode())
    return read_infill(wire) if path == "/infill" else read_completion(wire)


def plain(row: Field) -> Any:
    return {"bool": True, "string": "x"}.get(row.kind, max(1, row.limits.low or 0) if row.kind != "float" else 0.5)


@pytest.mark.parametrize("name", SPELLINGS)
def test_a_field_is_read(name: str) -> None:
    row = BY_NAME_OF_FIELDS[name]
    for path in ("/completion", "/infill"):
        body = {"input_prefix": "", "input_suffix": ""} if path == "/infill" else {}
        assert asked({**body, name: plain(row)}, path).ignored == ()
        assert asked({**body, name: None}, path).ignored == ()
    wrong = "x" if row.kind != "string" else 1
    with pytest.raises(NativeError, match=rf"Field '{name}': .*type_error.302.*but is"):
        asked({name: wrong})


@pytest.mark.parametrize("name", [row.name for row in FIELDS if row.limits.hard])
def test_a_hard_limit_is_told(name: str) -> None:
    row = BY_NAME_OF_FIELDS[name]
    assert row.limits.low is not None
    with pytest.raises(NativeError, match=rf"Field '{name}': Value must be between"):
        asked({name: row.limits.low - 1})


@pytest.mark.parametrize("name", [name for shape in SHAPES for name in (shape.name, *shape.aliases)])
def test_a_shape_is_read(name: str) -> None:
    assert asked({name: VALID[name]}).ignored == ()
    if name in LENIENT:
        assert asked({name: 3.5 if name != "id_slot" else "x"}).ignored == ()
        return
    with pytest.raises(DragomanError) as raised:
        asked({name: WRONG.get(name, [3])})
    assert raised.value.message.startswith("Field '")


@pytest.mark.parametrize("name", ["sse_ping_interval", "n_cache_reuse", "verbose", "echo", "reasoning_control"])
def test_what_changes_nothing_here_is_checked_all_the_same(name: str) -> None:
    assert asked({name: plain(BY_NAME_OF_FIELDS[name])}).requests == asked({}).requests


def test_a_budget_for_thoughts_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedField) as raised:
        asked({"reasoning_budget_tokens": 5, "reasoning_budget_end_tag": "</t>"})
    assert raised.value.field == "reasoning_budget_tokens"
