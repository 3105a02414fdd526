"""JSON schemas: what the masks let through is valid, what cannot be enforced is refused with its path."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from dragoman.core.constraint import Constraint
from dragoman.core.errors import InvalidRequest
from dragoman.grammar.mask import GrammarMask
from tests.grammar.rig import COMPILER, REFUSED, SCHEMAS, TOKENIZER, accepts, schema_format, text_of, verdict, walk

WALKS = 6


def judge(schema: Any) -> Any:
    made = jsonschema.validators.validator_for(schema, jsonschema.Draft202012Validator)
    return made(schema, format_checker=made.FORMAT_CHECKER)


def test_the_corpus_is_whole() -> None:
    assert len(SCHEMAS) == 40
    for schema in SCHEMAS.values():
        judge(schema).check_schema(schema)


@pytest.mark.parametrize("whitespace", [True, False], ids=["spaced", "compact"])
@pytest.mark.parametrize("name", SCHEMAS)
def test_what_a_mask_lets_through_is_valid(name: str, whitespace: bool) -> None:
    schema = SCHEMAS[name]
    grammar = text_of(schema_format(schema, whitespace=whitespace))
    ended = 0
    for seed in range(WALKS):
        text = walk(GrammarMask(COMPILER.matcher(grammar), TOKENIZER.size), seed)
        if text is None:
            continue
        ended += 1
        value = json.loads(text)
        judge(schema).validate(value)
        separators = (", ", ": ") if whitespace else (",", ":")
        if name not in ("number_bounds", "number_multiple", "one_of_tagged"):
            again = json.dumps(value, separators=separators, ensure_ascii=False)
            assert json.loads(again) == value
            assert len(again) <= len(text.decode())
    assert ended >= WALKS // 2


@pytest.mark.parametrize(("schema", "path"), REFUSED, ids=[json.dumps(entry[0])[:50] for entry in REFUSED])
def test_what_cannot_be_enforced_is_refused_with_its_path(schema: Any, path: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        text_of(schema_format(schema, field="response_format.json_schema.schema"))
    assert refused.value.field == f"response_format.json_schema.schema{path}"
    assert f"'${path}'" in refused.value.message or f"'${path.rpartition('.')[0]}'" in refused.value.message


def test_the_place_is_found_among_thousands() -> None:
    keys: dict[str, Any] = {f"key{index}": {"type": "string"} for index in range(1500)}
    schema = {"type": "object", "properties": keys | {"x": {"type": "string", "pattern": "["}}}
    with pytest.raises(InvalidRequest) as refused:
        text_of(schema_format(schema))
    assert refused.value.field == "response_format.properties.x.pattern"


@pytest.mark.parametrize("text", ["", "{", "nonsense", '{"type": "object"} x', '{"a": NaN}', '{"minimum": 1e999}'])
def test_what_is_no_json_is_refused(text: str) -> None:
    format = schema_format({})
    with pytest.raises(InvalidRequest):
        COMPILER.compile(Constraint(format=type(format)("json_schema", text)))


@pytest.mark.parametrize(
    ("schema", "right", "wrong"),
    [
        # an enum behind a reference and an optional value (case 13)
        (SCHEMAS["ref_enum"], '{"c": "red", "m": null}', '{"c": "green", "m": null}'),
        (SCHEMAS["ref_enum"], '{"c": "blue", "m": -5}', '{"c": "blue", "m": -6}'),
        # keys that nobody named are left out where a schema names some
        ({"properties": {"a": {"type": "null"}}, "required": ["a"]}, '{"a": null}', '{"a": null, "b": 1}'),
        ({"properties": {"a": {"type": "null"}}, "additionalProperties": True}, '{"a": null, "b": 1}', "[]"),
        # but not where other schemas name them
        (SCHEMAS["all_of"], '{"a": 1, "b": "v"}', '{"a": 1}'),
        (
            {
                "$defs": {"b": {"properties": {"x": {"type": "null"}}}},
                "allOf": [{"$ref": "#/$defs/b"}],
                "required": ["y"],
            },
            '{"x": null, "y": 1}',
            '{"x": null}',
        ),
        ({"type": "integer", "maximum": 9007199254740993}, "9007199254740992", "9007199254740994"),
        # digits end, where there are bounds; other numbers keep their exponents
        ({"type": "number", "minimum": 0, "maximum": 5}, "2.123456", "2.1234567"),
        ({"type": "number", "minimum": 0, "maximum": 1e-5}, "0.00000012345", "0.1"),
        ({"type": "number"}, "1.6021766e-19", "x"),
        ({"type": "string", "format": "no-standard-knows-it"}, '"x"', "1"),
        ({"type": "string", "format": "date"}, '"2024-02-29"', '"2023-02-29"'),
        ({"type": "string", "format": "date", "pattern": "^2024"}, '"2024-02-29"', '"2020-02-29"'),
        ({"type": "array", "uniqueItems": True, "maxItems": 1}, "[1]", "[1, 1]"),
        ({"type": "array", "maxItems": 10**9, "items": {"const": 1}}, "[1, 1]", "[2]"),
        ({"type": "object", "unevaluatedProperties": False, "properties": {"a": {}}}, '{"a": 1}', '{"b": 1}'),
        (True, '{"a": [1, null]}', "nope"),
    ],
)
def test_single_values(schema: Any, right: str, wrong: str) -> None:
    grammar = text_of(schema_format(schema))
    assert accepts(grammar, right)
    assert not accepts(grammar, wrong)


def test_an_answer_ends_where_its_value_ends() -> None:
    grammar = text_of(schema_format(SCHEMAS["ref_enum"]))
    assert verdict(grammar, '{"c": "red", "m": null}') == "whole"
    assert verdict(grammar, '{"c": "red", "m": null} ') == "no"


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", SCHEMAS)
def test_accepts_judges_as_jsonschema_does(name: str, seed: int) -> None:
    schema = SCHEMAS[name]
    format = schema_format(schema)
    text = walk(GrammarMask(COMPILER.matcher(text_of(format)), TOKENIZER.size), seed)
    if text is None:
        pytest.skip("this walk did not end")
    value = json.loads(text)
    assert COMPILER.accepts(format, json.dumps(value, indent=2))
    if isinstance(value, dict):
        assert COMPILER.accepts(format, json.dumps(dict(reversed(value.items()))))
    for other in (None, True, 3, -1, "x", [], {}, [value], {"x": value}, {"c": "green", "m": 1}):
        # That library checks no durations.
        if not (name == "duration" and isinstance(other, str)):
            assert COMPILER.accepts(format, json.dumps(other)) == judge(schema).is_valid(other), other
    assert not COMPILER.accepts(format, text.decode() + "x")


def test_accepts_has_nothing_against_a_text_when_the_schema_cannot_be_compiled() -> None:
    assert COMPILER.accepts(schema_format({"not": {}}), "anything")
