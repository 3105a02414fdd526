"""Recorded llama-server exchanges: load, send over HTTP, normalise, compare with key order."""

from __future__ import annotations

import http.client
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

_ROOT = Path(__file__).parent.parent / "dialects" / "llamacpp"
GOLDEN = _ROOT / "golden"
EVERYWHERE = (GOLDEN, _ROOT / "golden_vectors", _ROOT / "golden_wire")

MASKED_KEYS = {
    # Measured, or about the machine and build that made the recording.
    "prompt_ms",
    "prompt_per_token_ms",
    "prompt_per_second",
    "predicted_ms",
    "predicted_per_token_ms",
    "predicted_per_second",
    "time_ms",
    "model",
    "model_alias",
    "model_path",
    "build_info",
    "id_slot",
    "id_task",
    "n_written",
    "n_read",
    "save_ms",
    "restore_ms",
    # What this server offers beside the recorded one.
    "total_slots",
    "endpoint_slots",
    "endpoint_props",
    "endpoint_metrics",
    "media_marker",
}
LOGPROB_TOLERANCE = 0.05


@dataclass(frozen=True)
class Exchange:
    """One recording. `body` is None for requests without one; `frames` is None unless the answer was a stream."""

    name: str
    method: str
    path: str
    headers: dict[str, str]
    body: bytes | None
    status: int
    content_type: str
    answer: Any
    frames: list[Any] | None
    text: str | None = None
    flags: str = ""


@dataclass(frozen=True)
class Reply:
    """What a server answered, in the shape of a recording."""

    status: int
    content_type: str
    answer: Any
    frames: list[Any] | None
    text: str | None = None


def load(name: str) -> Exchange:
    """The recording of this name."""
    path = next(path for folder in EVERYWHERE if (path := folder / f"{name}.json").is_file())
    recorded = json.loads(path.read_text())
    request, response = recorded["request"], recorded["response"]
    body = request.get("raw_body")
    if body is None and request.get("body") is not None:
        body = json.dumps(request["body"])
    frames = response.get("sse_frames")
    return Exchange(
        name=name,
        method=request["method"],
        path=request["path"],
        headers=request.get("headers") or {},
        body=None if body is None else body.encode(),
        status=response["status"],
        content_type=response["headers_subset"].get("content-type", ""),
        answer=response.get("body"),
        frames=None if frames is None else [frame["data"] for frame in frames if frame.get("data") is not None],
        text=response.get("body_text"),
        flags=recorded["server_flags"],
    )


def names() -> list[str]:
    """All recordings here, sorted."""
    return sorted(path.stem for path in GOLDEN.glob("*.json"))


def all_names() -> list[str]:
    """All recordings in every folder, sorted."""
    return sorted(path.stem for folder in EVERYWHERE for path in folder.glob("*.json"))


def send(base_url: str, exchange: Exchange, *, timeout: float = 120.0) -> Reply:
    """Send the recorded request, byte for byte where it was recorded raw."""
    url = urlsplit(base_url)
    connection = http.client.HTTPConnection(url.hostname or "127.0.0.1", url.port, timeout=timeout)
    try:
        headers = {"content-type": "application/json", **exchange.headers}
        connection.request(exchange.method, exchange.path, exchange.body, headers)
        response = connection.getresponse()
        raw = response.read()
        content_type = response.headers.get("content-type", "")
    finally:
        connection.close()
    if content_type.startswith("text/event-stream"):
        return Reply(response.status, content_type, None, sse_objects(raw))
    if not content_type.startswith("application/json") or not raw:
        return Reply(response.status, content_type, None, None, raw.decode())
    return Reply(response.status, content_type, json.loads(raw), None)


def sse_objects(raw: bytes) -> list[Any]:
    """The JSON values of a stream's data lines; comments are skipped."""
    lines = [line[5:].strip() for line in raw.decode().split("\n") if line.startswith("data:")]
    return [line if line == "[DONE]" else json.loads(line) for line in lines]


def differences(expected: Any, actual: Any, at: str = "$") -> list[str]:
    """Every place where `actual` is not `expected`, after masking; objects must have the same keys in order."""
    key = at.rsplit(".", 1)[-1]
    if key in MASKED_KEYS:
        return [] if _kind(expected) == _kind(actual) else [f"{at}: type of {actual!r} differs from {expected!r}"]
    if key == "logprob":
        close = abs(expected - actual) <= LOGPROB_TOLERANCE
        return [] if close else [f"{at}: {actual} is not about {expected}"]
    if isinstance(expected, dict) and isinstance(actual, dict):
        if list(expected) != list(actual):
            return [f"{at}: keys {list(actual)} instead of {list(expected)}"]
        return [text for name in expected for text in differences(expected[name], actual[name], f"{at}.{name}")]
    if isinstance(expected, list) and isinstance(actual, list):
        if len(expected) != len(actual):
            return [f"{at}: {len(actual)} items instead of {len(expected)}: {actual!r}"]
        pairs = enumerate(zip(expected, actual, strict=True))
        return [text for index, (one, other) in pairs for text in differences(one, other, f"{at}[{index}]")]
    same = _kind(expected) == _kind(actual) and expected == actual
    return [] if same else [f"{at}: {actual!r} instead of {expected!r}"]


def _kind(value: Any) -> str:
    return type(value).__name__


def folded(frames: list[Any]) -> list[Any]:
    """Frames of a stream with the texts of all partial frames joined, for answers whose text may be held back
    differently: ids, counts and the joined text must still agree."""
    partial = [frame for frame in frames if not frame.get("stop", True)]
    joined = {"content": "".join(frame["content"] for frame in partial), "tokens": [f["tokens"] for f in partial]}
    return [joined, *(frame for frame in frames if frame.get("stop", True))]
