"""The compatibility manifest agrees with the code and the suite, and its validator finds what does not."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import msgspec
import pytest

from dragoman.cli.llama_server.flags import FLAGS
from tests.wire.golden_account import replayed
from tools.compat.__main__ import facts
from tools.compat.check import (
    entry_faults,
    exchange_faults,
    faults,
    field_faults,
    flag_faults,
    route_faults,
)
from tools.compat.manifest import ROOT, Entry, FlagEntry, load
from tools.compat.page import page

REPLAY = "tests/wire/test_golden_llamacpp.py::test_answers_as_recorded["
TESTS = frozenset({"tests/a.py::test_a"})


def entry(**fields: Any) -> Entry:
    return Entry(**({"id": "x", "state": "supported", "claim": "Yes.", "test": "tests/a.py::test_a[1]"} | fields))


def test_the_manifest_agrees() -> None:
    assert faults(load(), facts()) == []


def test_recordings_named_as_tests_are_replayed() -> None:
    manifest = load()
    named = [one.test for one in (*manifest.routes, *manifest.fields) if one.test.startswith(REPLAY)]
    assert named
    assert {test.removeprefix(REPLAY).rstrip("]") for test in named} <= set(replayed())


def test_the_page_is_current() -> None:
    assert (ROOT / "docs" / "llama-server.md").read_text(encoding="utf-8") == page()


@pytest.mark.parametrize(
    ("wrong", "fault"),
    [
        ({"divergence": "It differs."}, "supported and yet has a divergence"),
        ({"state": "aliased", "divergence": "It differs."}, "aliased and yet has a divergence"),
        ({"state": "by_design"}, "does not say how it differs"),
        ({"state": "not_applicable", "test": "", "claim": ""}, "does not say how it differs"),
        ({"claim": ""}, "claims nothing"),
        ({"test": ""}, "names no test"),
        ({"test": "tests/a.py::test_b"}, "a test that does not exist"),
        ({"state": "not_applicable", "divergence": "No.", "test": "tests/b.py::test_a"}, "a test that does not exist"),
        ({"state": "deferred", "divergence": "Later."}, "which no entry of its kind may be"),
    ],
)
def test_bad_entries_are_found(wrong: dict[str, Any], fault: str) -> None:
    [found] = entry_faults([entry(**wrong)], TESTS)
    assert fault in found
    assert list(entry_faults([entry(), entry()], TESTS)) == ["x is there 2 times."]


def test_unknown_keys_and_states_are_no_manifest() -> None:
    for bad in (b'[{"id":"x","state":"done"}]', b'[{"id":"x","state":"supported","note":"y"}]', b"{}"):
        with pytest.raises(msgspec.ValidationError):
            msgspec.json.decode(bad, type=list[Entry])


def test_routes_are_compared_both_ways() -> None:
    known = [entry(id="GET /a"), entry(id="GET /b", state="not_applicable", divergence="No.")]
    assert list(route_faults(known, frozenset({"GET /a"}), frozenset({"GET /a"}))) == []
    assert list(route_faults(known, frozenset(), frozenset())) == ["GET /a is supported and not mounted."]
    found = list(route_faults(known, frozenset({"GET /a", "GET /b", "GET /c"}), frozenset({"GET /c"})))
    assert found == [
        "GET /b is not_applicable and mounted all the same.",
        "GET /c is mounted and not in the manifest.",
    ]


def test_fields_are_compared_both_ways() -> None:
    known = [entry(id="/c.a"), entry(id="/c.b", state="aliased"), entry(id="/c.d", state="deferred")]
    assert list(field_faults(known, frozenset({"/c.a", "/c.b"}), {"/c.b": "a"})) == []
    found = list(field_faults(known, frozenset({"/c.d", "/c.e"}), {"/c.a": "z"}))
    assert found == [
        "/c.a is supported and not read.",
        "/c.a is supported, but an alias in the table.",
        "/c.b is aliased and not read.",
        "/c.b is aliased, but no alias in the table.",
        "/c.d is deferred and read all the same.",
        "/c.e is read and not in the manifest.",
    ]


def test_flags_are_compared_both_ways() -> None:
    flag = next(flag for flag in FLAGS if flag.means == "refused")
    names = {"spellings": list(flag.names), "variables": list(flag.variables)}
    good = FlagEntry(id=flag.name, state="by_design", divergence=flag.why, **names)
    assert list(flag_faults([good], {flag.name: flag})) == []
    assert list(flag_faults([], {flag.name: flag})) == [f"{flag.name} is only in the table of flags."]
    assert list(flag_faults([good], {})) == [f"{flag.name} is only in the manifest."]
    bad = FlagEntry(id=flag.name, state="supported", divergence="Because.", spellings=["-x"])
    assert len(list(flag_faults([bad], {flag.name: flag}))) == 3


def test_exchanges_are_recordings_and_by_design() -> None:
    found = list(exchange_faults([entry(id="a"), entry(id="b", state="by_design")], frozenset({"a"})))
    assert found == [
        "a is supported: a recording that is not equalled is by design or a fault.",
        "b is no recorded exchange.",
    ]


@pytest.mark.long
def test_every_named_test_is_collected_with_its_parameters() -> None:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", "long or slow or not slow", "tests"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    collected = set(listed.splitlines())
    collected |= {name.partition("[")[0] for name in collected}
    manifest = load()
    named = [one.test for one in (*manifest.routes, *manifest.fields, *manifest.flags, *manifest.exchanges) if one.test]
    assert [name for name in named if name not in collected] == []
