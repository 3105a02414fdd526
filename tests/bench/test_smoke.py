"""The bench against real servers in processes of their own, with the scripted engine."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.servers import Server, dragoman, process, told
from bench.serving import flood, measured
from bench.workloads import WORKLOADS, Scale, words

SCALE = Scale(prompt=4, tokens=8, alone=16, long=32, prefix=32, agent_tokens=2, turn=4, turn_tokens=2)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    script = tmp_path_factory.mktemp("bench") / "script.json"
    short = {"match": "STOP", "pieces": [" cut", " off"]}
    endless = {"match": "", "pieces": [f" word{index}" for index in range(50)], "repeat": True, "delay": 0.002}
    script.write_text(json.dumps({"rules": [short, endless], "lanes": 8, "context_length": 4096}))
    with dragoman("--engine", "fake", "--script", str(script)) as running:
        yield running


@pytest.mark.parametrize("name", WORKLOADS)
def test_every_workload_gives_its_metrics(server: Server, name: str) -> None:
    found = asyncio.run(WORKLOADS[name].run(server.url, SCALE, 0))
    assert found
    assert all(value > 0 for value in found.values())


def test_serving_layer(server: Server) -> None:
    found = {(row.workload, row.metric): row.ours for row in measured(server, 40, 2)}
    assert {("1 stream", "chunks"), ("16 streams", "chunks")} <= found.keys()
    assert all(value > 0 and len(values) == 2 for values in found.values() for value in values)
    if Path("/proc/self/schedstat").exists():
        assert ("16 streams", "cpu") in found
    assert server.command.startswith("python -m dragoman serve --engine fake --script script.json")


def test_answers_cut_short_are_no_measurement(server: Server) -> None:
    with pytest.raises(RuntimeError, match="chunks came"):
        flood(server, 50, 1, "STOP")


def test_a_server_that_does_not_start_says_why() -> None:
    command = [sys.executable, "-c", "raise SystemExit('no such model')"]
    with pytest.raises(RuntimeError, match="no such model"), process("stub", command, None):
        pass


def test_prompts_are_the_same_for_both_servers_and_new_every_round() -> None:
    assert words(20, "one", 0) == words(20, "one", 0)
    assert len({words(20, "one", turn) for turn in range(50)}) == 50
    assert len(words(20, "one", 0).split()) == 20


def test_what_is_told_of_a_command_has_no_machine_paths() -> None:
    command = [sys.executable, "-m", "x", "/models/big/a.gguf", "import a\nb", "--port", "80"]
    assert told(command, {"LD_PRELOAD": "/opt/lib/libb.so"}) == "LD_PRELOAD=libb.so python -m x a.gguf ..."
