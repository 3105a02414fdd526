import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.core.prompt import ReplyFormat
from dragoman.output.families.family import ToolFamily
from dragoman.output.families.table import FAMILIES
from dragoman.output.splitting import open_splitter
from tests.families.case import TOOLS
from tests.families.spelled import Arguments, spelled
from tests.output.fakes import cut_at, fold

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\r", exclude_categories=("Cc", "Cs")), max_size=12)
BODIES = st.one_of(
    TEXTS, st.sampled_from(["a </parameter> b", "x\ny", '"', "\\", "'", "{[(", "é😀", "a, b", "```", ": ="])
)
WORDS = st.text("abcxyz_", min_size=1, max_size=5)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), BODIES),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(WORDS, inner, max_size=3)),
    max_leaves=6,
)
LOOKS = st.fixed_dictionaries(
    {"place": BODIES},
    optional={
        "n": st.integers(),
        "deep": st.dictionaries(WORDS, VALUES, max_size=3),
        "list": st.lists(VALUES, max_size=3),
    },
)
CALLS = st.lists(
    st.one_of(
        st.tuples(st.just("look"), LOOKS),
        st.tuples(st.just("save"), st.fixed_dictionaries({"body": BODIES})),
        st.tuples(st.just("set_form"), st.fixed_dictionaries({"ok": st.booleans(), "n": st.none() | st.integers()})),
    ),
    min_size=1,
    max_size=3,
)


def read(family: ToolFamily, pieces: list[str]) -> list[tuple[str, str]]:
    splitter = open_splitter(ReplyFormat(tool_family=family.name), TOOLS)
    segments = [segment for piece in pieces for segment in splitter.feed(piece)]
    found = fold([*segments, *splitter.flush(cut=False)])
    assert splitter.repairs == []
    return found


@pytest.mark.parametrize("family", FAMILIES.values(), ids=lambda family: family.name)
@settings(max_examples=20, deadline=None, derandomize=True)
@given(CALLS, st.lists(st.integers(0, 500), max_size=8))
def test_what_the_form_writes_is_read_back(
    family: ToolFamily, calls: list[tuple[str, Arguments]], places: list[int]
) -> None:
    wrote = spelled(family.form, calls)
    found = read(family, [wrote])
    assert [text for kind, text in found if kind == "call"] == [name for name, _ in calls]
    assert [json.loads(text) for kind, text in found if kind == "arguments"] == [given for _, given in calls]
    assert {kind for kind, _ in found} == {"call", "arguments", "end"}
    assert read(family, cut_at(wrote, places)) == found
