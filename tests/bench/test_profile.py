from __future__ import annotations

from bench.profile import by_function, by_package, read_stacks

OUTER = "main (dragoman/cli/main.py:9);run (dragoman/http/server.py:7)"
STACKS = f"""{OUTER};Writer.pump (dragoman/http/stream.py:3);send (uvicorn/protocols/impl.py:5) 30
{OUTER};write (dragoman/dialects/openai_chat/write.py:8);encode (msgspec/json.py:1) 12
{OUTER} 5
Thread.run (threading.py:1);Room.<locals>.serve (x) (dragoman/backend/local/room.py:3) 2
Thread.run (threading.py:1) 1
 6
"""


def test_a_sample_belongs_to_our_innermost_frame() -> None:
    assert by_package(read_stacks(STACKS)) == {"http": 35, "dialects": 12, "backend": 2, "elsewhere": 1}


def test_functions_count_what_they_call_outside() -> None:
    found = by_function(read_stacks(STACKS))
    assert found["http: Writer.pump"] == 30
    assert found["dialects: write"] == 12
    assert found["http: run"] == 5
    assert sum(found.values()) == 49


def test_samples_without_frames_are_left_out() -> None:
    assert sum(count for _, count in read_stacks(STACKS)) == 50
