"""One spelling for what clients spell in many."""

import random

from hypothesis import given
from hypothesis import strategies as st

from dragoman.core.messages import ToolCallPart
from dragoman.prompt.canonical import canonical_schema, with_call_ids
from dragoman.prompt.turns import Turn
from tests.prompt.test_prefix_stability import shuffled

SCHEMAS = st.recursive(
    st.fixed_dictionaries(
        {"type": st.sampled_from(["string", "integer"])}, optional={"description": st.text(max_size=3)}
    ),
    lambda inner: st.fixed_dictionaries(
        {"type": st.just("object"), "properties": st.dictionaries(st.text(min_size=1, max_size=3), inner, max_size=4)},
        optional={"required": st.just(["b", "a"]), "anyOf": st.lists(inner, max_size=2), "x-own": st.just({"q": 1})},
    ),
    max_leaves=8,
)


@given(SCHEMAS, st.integers(0, 99))
def test_the_order_of_keys_does_not_matter(schema: dict, seed: int) -> None:
    canonical = canonical_schema(schema)
    assert canonical == schema
    assert str(canonical) == str(canonical_schema(shuffled(schema, random.Random(seed))))


def test_keys_come_as_people_write_them() -> None:
    schema = {
        "required": ["path", "old"],
        "properties": {
            "new": {"enum": ["b", "a"]},
            "all": True,
            "old": {},
            "path": {"description": "d", "type": "string"},
        },
        "zeta": 1,
        "type": "object",
    }
    canonical = canonical_schema(schema)
    assert list(canonical) == ["type", "properties", "required", "zeta"]
    assert list(canonical["properties"]) == ["path", "old", "all", "new"]
    assert list(canonical["properties"]["path"]) == ["type", "description"]
    assert canonical["properties"]["new"]["enum"] == ["b", "a"]


def test_a_property_may_be_called_like_a_keyword() -> None:
    schema = {"properties": {"type": {"type": "string"}, "properties": {"type": "object"}}, "required": ["type"]}
    assert canonical_schema(schema) == schema


def test_a_bottomless_schema_stays_as_it_is() -> None:
    schema: dict = {"type": "string"}
    for _ in range(5000):
        schema = {"type": "array", "items": schema}
    assert canonical_schema(schema) is schema


def test_call_ids() -> None:
    turns = [
        Turn(role="assistant", calls=(ToolCallPart("x", "look", "{}"), ToolCallPart("y", "go", "{}"))),
        Turn(role="tool", call_id="y"),
        Turn(role="tool", call_id="unheard"),
        Turn(role="assistant", calls=(ToolCallPart("x", "look", "{}"),)),
    ]
    plain = with_call_ids(turns, named=False)
    assert [call.id for call in plain[0].calls] == ["call00000", "call00001"]
    assert [turn.call_id for turn in plain[1:3]] == ["call00001", "unheard"]
    assert plain[3].calls[0].id == "call00002"
    assert with_call_ids(turns, named=True)[0].calls[1].id == "functions.go:1"
