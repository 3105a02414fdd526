from __future__ import annotations

import json

import pytest

from bench.page import BEGIN, END, PAGE, by_run, newest, outcome_of, replaced, section
from bench.part import Options, Outcome
from bench.report import document, machine
from bench.row import Row, Trouble

OUTCOME = Outcome(
    rows=[
        Row("serving", "16 streams", "chunks", (12_000.0, 14_000.0)),
        Row("x", "8 streams", "decode", (2.0,), (1.0,)),
    ],
    troubles=[Trouble("x", "4-turn chat", "no")],
    servers={"serving": "python -m dragoman serve"},
    notes={"CPU time": {"http": 20.0}},
)


def stored() -> dict:
    return json.loads(json.dumps(document(OUTCOME, Options(quick=True), machine()), default=list))


def test_a_run_survives_its_json() -> None:
    assert outcome_of(stored()) == OUTCOME


def test_a_section_says_how_it_was_measured() -> None:
    text = section(stored())
    for wanted in (
        "3 rounds, quick",
        "load average",
        "BLAS: none",
        "pass  serving layer, chunks/s",
        "x, 4-turn chat: no",
    ):
        assert wanted in text


def test_the_speeds_of_several_runs_stand_beside_each_other() -> None:
    lines = by_run([stored(), stored()]).splitlines()
    wanted = "| serving layer, chunks/s (serving) | at least 10000 | 13000, 13000 |"
    assert [line for line in lines if "serving" in line] == [wanted]
    assert by_run([stored()]) == ""


def test_of_several_runs_of_a_part_the_last_is_shown() -> None:
    one, other = ({"rows": [{"part": part} for part in parts]} for parts in ("ab", "bc"))
    assert newest([one, other]) == [one, other]
    assert newest([one, other, {"rows": [{"part": "a"}]}]) == [other, {"rows": [{"part": "a"}]}]
    assert newest([other, other]) == [other]


def test_only_what_is_between_the_marks_changes() -> None:
    page = f"head\n{BEGIN}\nold\n{END}\ntail\n"
    new = replaced(page, "new")
    assert new == f"head\n{BEGIN}\nnew\n{END}\ntail\n"
    assert replaced(new, "new") == new
    with pytest.raises(ValueError, match="lacks"):
        replaced("no marks", "new")


def test_the_page_has_its_marks() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert text.count(BEGIN) == text.count(END) == 1
