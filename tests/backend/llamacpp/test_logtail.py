"""What an engine's log says about its end."""

from __future__ import annotations

import pytest

from dragoman.backend.llamacpp.logtail import LogTail


def test_keeps_the_last_200_lines_and_passes_all_on() -> None:
    seen: list[str] = []
    log = LogTail(seen.append)
    for number in range(300):
        log.add(b"\x1b[31mline %d\x1b[0m\r" % number)
    log.add(b"")
    assert log.lines()[0] == "line 100"
    assert len(log.lines()) == 200
    assert len(seen) == 300


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ([], ""),
        (["Killed."], "Killed"),
        (["0.00.004.793 W srv          init: security: no API key is set"], ""),
        (
            ["0.01.1 W slot x: y", "ggml.c:99: GGML_ASSERT(a == b) failed", "#0 0x1234 in ??"],
            "ggml.c:99: GGML_ASSERT(a == b) failed",
        ),
        (
            [
                "0.00.004.793 W srv          init: security: no API key is set",
                "0.00.007.856 E gguf_init_from_reader: invalid magic characters: 'hell', expected 'GGUF'",
                "0.00.008.868 E llama_model_load: error loading model: failed to load model from junk.gguf",
            ],
            "invalid magic characters: 'hell', expected 'GGUF'",
        ),
        (["0.00.009.073 E cmn  common_init_: failed to load model 'junk.gguf'"], "failed to load model 'junk.gguf'"),
    ],
)
def test_the_first_error_is_the_reason(lines: list[str], reason: str) -> None:
    log = LogTail()
    for line in lines:
        log.add(line.encode())
    assert log.reason() == reason


def test_last_words_are_fresh_and_of_this_process() -> None:
    now = [0.0]
    log = LogTail(clock=lambda: now[0])
    log.add(b"0.01.000.000 E slot  update: an error of long ago")
    now[0] = 100.0
    assert log.last_words() == ""
    assert log.reason() == "an error of long ago"
    log.add(b"0.99.000.000 E ggml_backend: out of memory")
    assert log.last_words() == "out of memory"
    now[0] = 100.5
    log.begin()
    assert (log.reason(), log.last_words()) == ("", "")
    assert len(log.lines()) == 2, "doctor still shows them"
