"""Random bodies, valid and not, of llama-server's routes. Made from the dialect's own table of fields, so that a new
field is tried the day it is read."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dragoman.dialects.llamacpp.schema import FIELDS, SHAPES, Field

WRONG: tuple[Any, ...] = ("x", "", 7, -3, 1.5, True, False, [], [1], ["a", 2], {}, {"a": 1}, None)
"""Values of every JSON type."""

NUMBERS: tuple[Any, ...] = (0, 1, -1, 2, 5, 0.5, -0.5, 1.0, 2.7, 1e9, -1e9, 2**31, 2**40, 1e300, True)

NEVER = frozenset({"n_predict", "max_tokens", "max_completion_tokens", "n_probs", "logprobs", "t_max_predict_ms"})
"""Fields that have values of their own below: others would make long answers, or none two servers agree on."""

LITTLE: Mapping[str, tuple[Any, ...]] = {
    "n_predict": (0, 1, 2, 3, 4, 2.7, -2, "4", None, True, [3]),
    "max_tokens": (0, 1, 3, -2, "4", None),
    "max_completion_tokens": (1, 2, -5, {}, None),
    "n_probs": (0, 1, 2, 3, "2", None, 1.5),
    "logprobs": (0, 1, 2, None, "x"),
    "t_max_predict_ms": (-1, 0, 100000, -2, "x", None),
    "stop": ("\n", ["a"], [], "", [""], ["a", 1], [None], {}, 3, None),
    "samplers": (["top_k", "temperature"], "kt", [], "", ["nonsense"], [1], {}, ["Top-P", "temp", "nucleus"], None),
    "logit_bias": ([[11, -1.0]], [[11, False]], {"11": 2}, {" the": -1}, [], {}, "x", [[1]], [["a", True]], None),
    "grammar": ('root ::= "a"', "root ::= [0-9]", "", "root ::= (", "rule ::= [a]", 3, None),
    "json_schema": ({"type": "integer"}, {}, {"type": "nonsense"}, "x", [], None, {"$ref": "#/no"}),
    "dry_sequence_breakers": (["\n"], [], "x", [1], None),
    "response_fields": (["content"], ["content", "timings/prompt_n"], ["no/such"], [], [1], "x", None),
    "lora": ([], [{"id": 0, "scale": 1.0}], [{}], "x", [1], {}, None),
    "grammar_triggers": ([{"type": 1, "value": "a"}], [], "x", [1], [{}], None),
    "preserved_tokens": ([" the"], ["<|im_end|>"], [], "x", [1], None),
    "stream_options": ({"include_usage": True}, {"include_usage": 1}, {}, "x", None),
    "reasoning_format": ("none", "deepseek", "auto", "x", 1, None),
    "id_slot": (0, 1, -1, 7, "x", None),
    "message_delimiters": ([], {}, "x", None),
    "model": ("any", "", None),
    "chat_format": (0, 1, "x", None),
    "seed": (1, 42, 0, "x", None, 1.5, True),
    "n_cmpl": (1, 2, 0, 3, "x", None),
    "n": (1, 2, 0, 99, None),
}
"""Values worth trying of fields that are no plain numbers, or whose numbers matter."""

PROMPTS: tuple[Any, ...] = (
    "The capital of France is",
    "Once",
    "",
    [504, 3575],
    ["The", 1],
    [1, "The"],
    ["One", "Two"],
    [[504], "Two"],
    {"prompt_string": "The"},
    {"prompt_string": 3},
    {},
    [],
    [[]],
    [999999],
    [-1],
    [1.5],
    5,
    None,
    True,
    [{"prompt_string": "The", "multimodal_data": ["x"]}],
    [None],
)
MESSAGES: tuple[Any, ...] = (
    [{"role": "user", "content": "Hi"}],
    [{"role": "system", "content": "S"}, {"role": "user", "content": [{"type": "text", "text": "Hi"}]}],
    [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "He"}],
    [{"role": "user"}],
    [{"content": "Hi"}],
    [{"role": "user", "content": [{"type": "nonsense"}]}],
    [{"role": "user", "content": 3}],
    [{"role": 3, "content": "x"}],
    [],
    "x",
    None,
    [1],
    [{"role": "assistant", "content": None, "tool_calls": []}],
    [{"role": "tool", "content": "x"}],
)
EXTRA: tuple[Any, ...] = ([], [{"text": "def f(): pass", "filename": "a.py"}], [{"text": 1}], [{}], "x", [1], None)


@dataclass(frozen=True)
class Case:
    """One request. `tried` names the fields it was given beside those it needs."""

    path: str
    body: bytes
    tried: tuple[str, ...] = ()
    method: str = "POST"

    def told(self) -> str:
        """On one line."""
        return f"{self.method} {self.path} {self.body.decode(errors='replace')[:400]}"


@dataclass(frozen=True)
class Route:
    """What a body of `paths` is made of: fields that make it whole with values to choose from (the first is what most
    bodies have), and those that may be added."""

    paths: tuple[str, ...]
    needed: Mapping[str, tuple[Any, ...]]
    extra: Mapping[str, tuple[Any, ...]] = field(default_factory=dict[str, tuple[Any, ...]])
    fixed: Mapping[str, Any] = field(default_factory=dict[str, Any])
    weight: int = 1


def values_of(row: Field) -> tuple[Any, ...]:
    """What to try for a field of the table: what its kind and limits make interesting, and every wrong type."""
    if row.kind == "bool":
        return (True, False, True, *WRONG)
    ends = [end for limit in (row.limits.low, row.limits.high) if limit is not None for end in (limit, limit + 1)]
    return (row.default, row.default, *NUMBERS, *ends, *WRONG)


def _table() -> dict[str, tuple[Any, ...]]:
    found = {name: values_of(row) for row in FIELDS for name in (row.name, *row.aliases)}
    found |= {name: WRONG for shape in SHAPES for name in (shape.name, *shape.aliases)}
    return {**found, "unheard_of": WRONG, **LITTLE}


TABLE = _table()
_SHORT = {"n_predict": 3, "temperature": 0, "seed": 1}
ROUTES: tuple[Route, ...] = (
    Route(("/completion", "/completions"), {"prompt": PROMPTS}, TABLE, _SHORT, 24),
    Route(
        ("/infill",),
        {"input_prefix": ("def f(", "", 3, None), "input_suffix": ("return 1", "", [], None)},
        {**TABLE, "input_extra": EXTRA, "prompt": ("", "x", 3, None)},
        _SHORT,
        3,
    ),
    Route(("/v1/completions",), {"prompt": PROMPTS}, TABLE, {"max_tokens": 3, "temperature": 0, "seed": 1}, 4),
    Route(
        ("/tokenize",),
        {"content": ("Hello", "<|im_start|>", "", ["a", 3], [1, 2], 5, {}, None, [None])},
        {"add_special": WRONG, "parse_special": WRONG, "with_pieces": (True, False, "x", None)},
        weight=3,
    ),
    Route(("/detokenize",), {"tokens": ([1, 2], [], [999999], ["x"], "x", {}, None, [-1], [1.5], [True])}, weight=2),
    Route(
        ("/apply-template",),
        {"messages": MESSAGES},
        {
            "add_generation_prompt": (True, False, "x", None),
            "continue_final_message": (True, False, "content", "x", 3, None),
            "tools": ([], "x", None),
            "tool_choice": ("auto", "none", "x", 3, None),
            "chat_template_kwargs": ({}, {"a": 1}, "x", None),
            "reasoning_effort": ("none", "low", 3, None),
            "grammar": ("", 'root ::= "a"', None),
        },
        weight=4,
    ),
    Route(
        ("/v1/chat/completions/input_tokens", "/v1/responses/input_tokens", "/responses/input_tokens"),
        {"messages": MESSAGES},
        {"tools": ([], "x", None)},
        weight=1,
    ),
    Route(("/v1/chat/completions/control",), {"id": ("x", "", 3, None), "action": ("reasoning_end", "x", 3, None)}),
    Route(("/v1/streams/lookup",), {"conversation_ids": (["a"], [], "x", [1], None)}),
    Route(("/lora-adapters",), {"id": (0, "x", None), "scale": (1.0, "x", None)}),
    Route(("/slots/0?action=erase", "/slots/1?action=nonsense", "/slots/x?action=erase"), {"filename": ("a", 3, None)}),
    Route(("/embedding", "/embeddings"), {"content": PROMPTS}, {"encoding_format": WRONG, "embd_normalize": NUMBERS}),
    Route(("/rerank", "/reranking"), {"query": ("a", 3, None), "documents": (["a"], [], "x", None)}),
    Route(("/props",), {"x": (1,)}),
    Route(("/models/load", "/models/unload", "/models"), {"model": ("x", 3, None)}),
)
BROKEN: tuple[bytes, ...] = (
    b"",
    b"{",
    b"[]",
    b'"x"',
    b"3",
    b"null",
    b"true",
    b'{"prompt": "a",}',
    b"{'a': 1}",
    b"\xff",
)


def case(dice: random.Random) -> Case:
    """The next request."""
    route = dice.choices(ROUTES, [route.weight for route in ROUTES])[0]
    path = dice.choice(route.paths)
    if dice.random() < 0.02:
        return Case(path, dice.choice(BROKEN), ("(body)",))
    body = dict(route.fixed)
    tried: list[str] = []
    for name, values in route.needed.items():
        chosen = _pick(dice, values, usual=0.8)
        if chosen is not values[0]:
            tried.append(name)
        if chosen is not None or dice.random() < 0.5:
            body[name] = chosen
    for name in dice.sample(list(route.extra), min(len(route.extra), dice.choice((0, 1, 1, 1, 2, 3, 5)))):
        body[name] = dice.choice(route.extra[name])
        tried.append(name)
    return Case(path, json.dumps(body).encode(), tuple(sorted(tried)))


def _pick(dice: random.Random, values: tuple[Any, ...], *, usual: float) -> Any:
    return values[0] if dice.random() < usual else dice.choice(values)


Maker = Callable[[random.Random], Case]
