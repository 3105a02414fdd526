"""Recorded answers of a real llama-server (build 10622)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).parent / "data"


def answer(name: str) -> dict[str, Any]:
    return json.loads((_FOLDER / f"{name}.json").read_text())["response"]


def frames(name: str) -> list[bytes]:
    return [json.dumps(block["data"], ensure_ascii=False).encode() for block in answer(name)["sse_frames"]]
