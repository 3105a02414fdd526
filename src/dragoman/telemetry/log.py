"""Structured logging: one JSON object a line on standard error. Keys of clients never come here."""

from __future__ import annotations

import logging
import sys
import time
from typing import Any

import msgspec

_ROOT = "dragoman"


class JsonLines(logging.Formatter):
    """Formats a record as one JSON object: time (RFC 3339, UTC), level, logger, event, and the record's `fields`."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, without the newline."""
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line: dict[str, Any] = {
            "time": f"{stamp}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
        }
        line.update(getattr(record, "fields", {}))
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line).decode()


def set_up_logging(level: str) -> None:
    """Send the records of `dragoman` to standard error as JSON lines, from `level` (a logging level name) on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    root = logging.getLogger(_ROOT)
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    root.propagate = False


def logger(name: str) -> logging.Logger:
    """The logger of one station."""
    return logging.getLogger(f"{_ROOT}.{name}")
