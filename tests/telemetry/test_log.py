"""Log lines are JSON objects."""

from __future__ import annotations

import json
import logging

from dragoman.telemetry.log import JsonLines, logger


def record(**more: object) -> logging.LogRecord:
    made = logging.LogRecord("dragoman.x", logging.INFO, "file", 1, "said %s", ("so",), None)
    made.__dict__.update(more)
    return made


def test_line() -> None:
    line = json.loads(JsonLines().format(record(fields={"tokens": 3, "text": "a\nb"})))
    assert (line["level"], line["logger"], line["event"], line["tokens"]) == ("info", "dragoman.x", "said so", 3)
    assert line["text"] == "a\nb"
    assert line["time"].endswith("Z")


def test_traceback_is_in_the_line() -> None:
    try:
        raise ValueError("boom")
    except ValueError as error:
        made = record(exc_info=(ValueError, error, error.__traceback__))
    text = JsonLines().format(made)
    assert "\n" not in text
    assert "ValueError: boom" in json.loads(text)["traceback"]


def test_loggers_are_below_ours() -> None:
    assert logger("gateway").name == "dragoman.gateway"
