from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.__main__ import PARTS, read
from bench.part import Options, Outcome
from bench.report import curves, document, machine, save, speeds_to_reach, table_line, tables
from bench.row import CPU_TIME, Row, Trouble

OUTCOME = Outcome(
    rows=[
        Row("small, equal", "1 stream, whole", "throughput", (100.0, 120.0), (50.0, 40.0)),
        Row("small, equal", "8 streams", "throughput", (400.0, 420.0), (100.0, 100.0)),
        Row("small, equal", "8 sampled", "throughput", (4.0, 4.0), (1.0, 1.0)),
        Row("small, equal", "shared prefix", "seconds", (1.0, 3.0), (4.0, 4.0)),
        Row("serving", "16 streams", "chunks", (12_000.0, 14_000.0)),
    ],
    troubles=[Trouble("small, equal", "4-turn chat", "mlx_lm.server: RuntimeError: no")],
    notes={"CPU time per chunk by package, µs": {"http": 23.456}},
)


def test_a_line_has_medians_and_the_spread_of_the_ratios() -> None:
    assert table_line(OUTCOME.rows[0]).split()[4:] == ["tok/s", "110.0", "45.0", "2.00", "2.50", "3.00"]
    assert table_line(OUTCOME.rows[3]).endswith("0.25    0.50    0.75          (less is better)")
    assert table_line(OUTCOME.rows[4]).split()[-4:] == ["12000", "13000", "14000", "(ours)"]


def test_cpu_time_is_a_column() -> None:
    cpu = Row("small, equal", "1 stream, whole", CPU_TIME, (1.0, 1.0), (2.0, 4.0))
    assert table_line(OUTCOME.rows[0], cpu).split()[-2:] == ["3.00", "0.38"]
    text = tables(Outcome(rows=[OUTCOME.rows[0], cpu]))
    assert CPU_TIME not in text
    assert "0.38" in text


def test_tables_name_parts_notes_and_troubles() -> None:
    text = tables(OUTCOME)
    for wanted in ("\nsmall, equal\n", "\nserving\n", "http", "23.5", "4-turn chat: mlx_lm.server: RuntimeError: no"):
        assert wanted in text


def test_speeds_to_reach_of_what_was_measured() -> None:
    brief = speeds_to_reach(OUTCOME, full=False)
    assert "FAIL  8 requests sharing a cold 512-token prefix, time (small, equal): 0.50, to reach: at most 0.4" in brief
    assert "pass  8 streams, greedy (small, equal): 4.10" in brief
    assert "skip" not in brief
    assert "skip" in speeds_to_reach(OUTCOME, full=True)


def test_curves_are_throughputs_of_streams_by_server() -> None:
    assert curves(OUTCOME.rows) == {
        "dragoman (small, equal)": [(1, 110.0), (8, 410.0)],
        "mlx_lm.server (small, equal)": [(1, 45.0), (8, 100.0)],
    }


def test_the_document_is_json_and_says_everything() -> None:
    found = json.loads(json.dumps(document(OUTCOME, Options(rounds=2, blas="/some/libopenblas.so"), machine())))
    assert found["rows"][0]["ratio"] == {"min": 2.0, "median": 2.5, "max": 3.0}
    assert found["rows"][4]["ratio"] is None
    assert found["options"] == {"rounds": 2, "quick": False, "blas": "libopenblas.so"}
    assert found["machine"]["packages"]["dragoman"]
    reached = {(target["part"], target["workload"]): target["reached"] for target in found["targets"]}
    assert reached["small, equal", "shared prefix"] is False
    assert reached["smollm2, equal", "8 seeded"] is None


def test_files_are_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written = save(OUTCOME, Options(), machine(), tmp_path / "out")
    assert all(path.stat().st_size for path in written)
    assert json.loads((tmp_path / "out/last.json").read_text())["troubles"][0]["workload"] == "4-turn chat"
    plotted = (tmp_path / "out/last.png").exists()
    assert plotted != ("matplotlib" in capsys.readouterr().out), "the plot is there, or it is said why not"


def test_command_line() -> None:
    parts, options = read(["serving", "--quick", "--blas", "off"])
    assert (parts, options) == (["serving"], Options(rounds=2, quick=True, blas=None))
    assert read(["--blas", "libx.so", "--rounds", "5"]) == (list(PARTS), Options(rounds=5, blas="libx.so"))


@pytest.mark.parametrize("words", [["nothing"], ["--rounds", "0"], ["--rounds", "x"]])
def test_wrong_command_lines(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        read(words)
    assert "error" in capsys.readouterr().err
