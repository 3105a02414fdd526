"""Names that clients gave, on disk."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from dragoman.catalog.names import NameBook
from dragoman.core.messages import Message, TextPart, ToolCallPart
from dragoman.core.names import NamedModel, NameSettings, plain_name
from dragoman.core.sampling import SamplingSpec

MARIO = NamedModel(
    name="Mario",
    base="org/model",
    created=7,
    settings=NameSettings(
        sampling=SamplingSpec(temperature=0.5, logit_bias={3: -1.5}, dry_sequence_breakers=("a",)),
        max_tokens=9,
        stop=("x",),
        system="S",
        messages=(Message("assistant", (TextPart("t"), ToolCallPart("i", "n", "{}"))),),
        template="{{ .Prompt }}",
    ),
    parameters={"temperature": 0.5, "stop": ["x"]},
    license=("MIT",),
    owns=True,
)


def test_what_is_put_is_found_by_another_book(tmp_path: Path) -> None:
    path = tmp_path / "state" / "names.json"
    NameBook(path).put(MARIO)
    book = NameBook(path)
    assert book.find("mario") == book.find("MARIO:latest") == MARIO
    assert book.find("mario:7b") is None
    other = NameBook(path)
    other.put(NamedModel(name="a", base="b"))
    assert [named.name for named in book.all()] == ["a", "Mario"], "seen at once"
    book.drop("mario:latest")
    assert other.find("mario") is None
    book.drop("nobody")


def test_a_book_without_a_file() -> None:
    book = NameBook(None)
    book.put(MARIO)
    assert book.find("mario") == MARIO
    book.drop("Mario")
    assert book.all() == ()


def test_a_file_that_cannot_be_read_is_no_obstacle(tmp_path: Path) -> None:
    path = tmp_path / "names.json"
    path.write_text("{broken")
    book = NameBook(path)
    assert book.all() == ()
    book.put(MARIO)
    assert NameBook(path).find("mario") == MARIO
    path.unlink()
    assert book.all() == ()


@given(st.text(st.characters(exclude_categories=["C", "Z"]), max_size=12))
def test_case_and_the_usual_tag_do_not_count(name: str) -> None:
    assert plain_name(f"{name}:latest") == plain_name(f" {name}:LATEST ")
