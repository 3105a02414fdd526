from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.core.batches import BatchRow, RowUsage
from dragoman.jobs.input import BadInput, InputReader
from dragoman.jobs.output import line_of
from dragoman.jobs.usage import usage_of

URL = "/v1/completions"


def reader(path: Path, **limits: int) -> InputReader:
    return InputReader(path, URL, **{"max_rows": 1000, "max_line": 2000, **limits})


def row(custom_id: object = "a", **fields: object) -> bytes:
    return json.dumps({"custom_id": custom_id, "method": "POST", "url": URL, "body": {"p": 1}, **fields}).encode()


def test_line_numbers_blanks_and_marks(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    path.write_bytes(b"\xef\xbb\xbf" + row("a") + b"\r\n\n  \n" + row("b") + b"\n" + row("c"))
    found = [pair for chunk in reader(path).chunks() for pair in chunk]
    assert [(line, row.custom_id, row.code) for line, row in found] == [(1, "a", ""), (4, "b", ""), (5, "c", "")]
    assert found[0][1].body == b'{"p": 1}'


def test_a_line_that_is_too_long_costs_only_itself(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    path.write_bytes(row("a") + b"\n" + row("b", body={"p": "x" * 9000}) + b"\n" + row("c") + b"\n")
    found = [(line, row.code) for chunk in reader(path).chunks() for line, row in chunk]
    assert found == [(1, ""), (2, "line_too_long"), (3, "")]


def test_chunks_are_bounded(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    path.write_bytes(b"\n".join(row(str(n)) for n in range(1000)))
    assert [len(chunk) for chunk in reader(path).chunks()] == [500, 500]
    with pytest.raises(BadInput) as caught:
        list(reader(path, max_rows=999).chunks())
    assert caught.value.fault.code == "too_many_tasks"


@given(st.binary(max_size=300))
def test_any_line_is_read_or_marked(line: bytes) -> None:
    found = reader(Path("unused")).row(line)
    assert bool(found.code) == bool(found.message)
    assert found.code or isinstance(json.loads(found.body), dict)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=8,
    )
)
def test_any_values_are_read_or_marked(value: object) -> None:
    for name in ("custom_id", "method", "url", "body"):
        found = reader(Path("unused")).row(row(**{name: value}))
        assert found.code or isinstance(json.loads(found.body), dict)


def test_lines() -> None:
    fields = {"batch": "b", "n": 0, "id": "r", "custom_id": "c", "method": "POST", "path": URL, "body": b"{}"}
    good = BatchRow(**fields, outcome="succeeded", status=200, request_id="q", result=b'{"x": 1.50}')
    assert line_of(good) == (
        b'{"id":"r","custom_id":"c","response":{"status_code":200,"request_id":"q","body":{"x": 1.50}},"error":null}\n'
    )
    bad = BatchRow(**fields, outcome="invalid", code="k", message="m")
    assert json.loads(line_of(bad)) == {
        "id": "r", "custom_id": "c", "response": None, "error": {"code": "k", "message": "m"},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("usage", "found"),
    [
        (
            {
                "prompt_tokens": 5,
                "completion_tokens": 3,
                "prompt_tokens_details": {"cached_tokens": 2},
                "completion_tokens_details": {"reasoning_tokens": 1},
            },
            RowUsage(5, 2, 3, 1),
        ),
        ({"input_tokens": 5, "output_tokens": 3, "input_tokens_details": {"cached_tokens": 2}}, RowUsage(5, 2, 3, 0)),
        ({"input_tokens": 5, "output_tokens": 3, "cache_read_input_tokens": 4}, RowUsage(9, 4, 3, 0)),
        ({"prompt_tokens": 5, "total_tokens": 5}, RowUsage(5)),
        ({"prompt_tokens": "many"}, RowUsage()),
        (None, RowUsage()),
    ],
)
def test_usage_of_every_wire(usage: object, found: RowUsage) -> None:
    assert usage_of(json.dumps({"usage": usage}).encode()) == found
    assert usage_of(b"nonsense") == RowUsage()
