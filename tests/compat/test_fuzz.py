"""The tool that asks random things: what it makes, and what it finds."""

from __future__ import annotations

import json
import random

import pytest

from dragoman.dialects.llamacpp.schema import FIELDS
from tools.compat.manifest import FuzzEntry, load
from tools.fuzz_native.__main__ import explained
from tools.fuzz_native.bodies import ROUTES, case
from tools.fuzz_native.compare import Answer, answer_of, differences


def json_answer(status: int, value: object) -> Answer:
    return answer_of(status, "application/json; charset=utf-8", json.dumps(value).encode())


def error(message: str, kind: str = "invalid_request_error", status: int = 400) -> Answer:
    return json_answer(status, {"error": {"code": status, "message": message, "type": kind}})


def test_the_same_seed_asks_the_same_and_every_field_is_tried() -> None:
    dice, again = random.Random(3), random.Random(3)
    asked = [case(dice) for _ in range(4000)]
    assert asked == [case(again) for _ in range(4000)]
    tried = {name for one in asked if one.path.startswith("/completion") for name in one.tried}
    assert {row.name for row in FIELDS} <= tried
    assert {path for route in ROUTES for path in route.paths} == {one.path for one in asked}


@pytest.mark.parametrize(
    ("theirs", "ours", "found"),
    [
        (json_answer(200, {"a": 1}), error("no"), "status 400 instead of 200, by 'invalid_request_error: no'"),
        (json_answer(200, {"a": [{"b": 1}]}), json_answer(200, {"a": [{"c": 2}]}), "missing $.a[]{b}"),
        (json_answer(200, {"a": 1, "b": 2}), json_answer(200, {"b": 2, "a": 1}), "missing ${a,b}"),
        (error("value 3"), error("other 4"), "words: 'invalid_request_error: other N'"),
        (error("x", status=400), error("x", status=404), "status 404 instead of 400"),
        (
            json_answer(200, {"generation_settings": {"seed": 1, "top_k": 40}}),
            json_answer(200, {"generation_settings": {"seed": 1, "top_k": 39}}),
            "setting top_k: 39 instead of 40",
        ),
        (
            answer_of(200, "text/event-stream", b'data: {"a":1}\n\ndata: null\n\n'),
            json_answer(200, {"a": 1}),
            "content application/json instead of text/event-stream",
        ),
    ],
)
def test_what_differs_is_found(theirs: Answer, ours: Answer, found: str) -> None:
    assert differences(theirs, ours)[0].startswith(found)
    assert differences(theirs, theirs) == differences(ours, ours) == []


def test_numbers_in_words_and_a_choice_of_faults_do_not_count() -> None:
    assert differences(error("got 3"), error("got 17.5")) == []
    assert differences(error("one"), error("other"), words=False) == []


def test_what_is_meant_has_its_reason_in_the_manifest() -> None:
    known = [FuzzEntry(path="^/models", what="^status 501", why="Because.")]
    assert explained("status 501 instead of 404", "/models/load", known)
    assert not explained("status 500 instead of 404", "/models/load", known)
    assert not explained("status 501 instead of 404", "/completion", known)
    assert all(entry.why for entry in load().fuzz)
