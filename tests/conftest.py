"""Fixtures for the whole suite."""

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def starter_gguf() -> Path:
    """The starter model; fetched once into the local store when DRAGOMAN_TEST_GGUF does not name it."""
    named = os.environ.get("DRAGOMAN_TEST_GGUF")
    if named:
        return Path(named)
    from dragoman.catalog.fetch import fetch_starter

    return fetch_starter()
