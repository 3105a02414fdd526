"""Saved slots as files, and slots that are asked for by number."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from dragoman.backend.llamacpp.slotfile import copy_in, copy_out
from dragoman.backend.llamacpp.slots import Slots
from dragoman.core.errors import InvalidRequest, StorageFailure


def saved(tokens: tuple[int, ...], magic: int = 0x67677371) -> bytes:
    return struct.pack(f"<III{len(tokens)}i", magic, 2, len(tokens), *tokens) + b"state"


def test_out_and_in_again(tmp_path: Path) -> None:
    inside, outside, back = tmp_path / "in", tmp_path / "out.bin", tmp_path / "back"
    inside.write_bytes(saved((5, 6, 7)))
    copy_out(inside, outside)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "out.bin"]
    assert copy_in(outside, back) == (5, 6, 7)
    assert back.read_bytes() == inside.read_bytes()


@pytest.mark.parametrize("content", [None, b"", b"short", saved((1,), magic=1), saved((1, 2))[:15]])
def test_what_is_no_saved_slot(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "x").write_bytes(content)
    with pytest.raises(InvalidRequest) as raised:
        copy_in(tmp_path / "x", tmp_path / "y")
    assert str(raised.value).startswith("Unable to restore slot: ")
    assert not (tmp_path / "y").exists()


def test_a_save_that_fails_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(StorageFailure):
        copy_out(tmp_path / "missing", tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_a_slot_by_number() -> None:
    slots = Slots(3)
    choice = slots.pinned(7, "", (1, 2, 3), 0)
    assert choice is not None
    assert (choice.slot.number, choice.restore) == (1, False)
    assert slots.pinned(1, "", (1, 2, 3), 0) is None
    slots.release(choice.slot)
    choice.slot.fill("", (1, 2, 3, 4))
    again = slots.pinned(1, "", tuple(range(1, 40)), 30)
    assert again is not None
    assert (again.shared, again.restore) == (30, True)
