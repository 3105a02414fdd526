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
