"""Models on disk as cards."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dragoman.app.shelf import Shelf
from dragoman.catalog.store import Store


@pytest.fixture(autouse=True)
def no_hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("dragoman.catalog.find.cached_models", dict)


def put(store: Store, name: str) -> None:
    with store.arriving(name) as folder:
        (folder / "config.json").write_text(json.dumps({"model_type": "llama", "max_position_embeddings": 512}))
        (folder / "model.safetensors").write_bytes(b"x" * 10)
        (folder / "chat_template.jinja").write_text("{{ messages }}")


def test_cards_tell_what_the_files_say(tmp_path: Path) -> None:
    store = Store(tmp_path)
    put(store, "one")
    [card] = Shelf(store)()
    assert (card.id, card.architecture, card.context_length, card.size_bytes) == ("one", "llama", 512, 10)
    assert (card.format, card.engine, card.chat_template) == ("safetensors", "", "{{ messages }}")


def test_the_disk_is_looked_at_now_and_then(tmp_path: Path) -> None:
    store, now = Store(tmp_path), [0.0]
    shelf = Shelf(store, lambda: now[0])
    assert shelf() == ()
    put(store, "one")
    now[0] = 29.0
    assert shelf() == ()
    now[0] = 31.0
    assert [card.id for card in shelf()] == ["one"]
