"""Checkpoints of every family, written once a session."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.checkpoints import write_checkpoint


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A folder with a tiny checkpoint of the named family."""
    written: dict[str, Path] = {}

    def folder(family: str) -> Path:
        if family not in written:
            written[family] = write_checkpoint(tmp_path_factory.mktemp("checkpoint") / family, family, seed=3)
        return written[family]

    return folder
