"""Prefixes on disk."""

from __future__ import annotations

import io
import logging
import os
import threading
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dragoman.cache import diskfile
from dragoman.cache.disk import DiskHit, DiskTier

BIG = 1 << 30


def tier(folder: Path, fingerprint: str = "model", budget: int = BIG) -> DiskTier:
    made = DiskTier(folder, fingerprint, budget)
    made.open()
    return made


def put(
    disk: DiskTier, tokens: tuple[int, ...], data: bytes, tmp: Path, *, ns: str = "", trimmable: bool = True
) -> bool:
    payload = tmp / "payload"
    payload.write_bytes(data)
    return disk.write(ns, tokens, "prompt", payload, trimmable=trimmable)


def get(disk: DiskTier, tokens: tuple[int, ...], ns: str = "") -> tuple[int, bytes] | None:
    hit = disk.find(ns, tokens)
    if hit is None:
        return None
    sink = io.BytesIO()
    return (hit.length, sink.getvalue()) if disk.read(hit.record, sink) else None


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"*/*{diskfile.SUFFIX}"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def test_what_is_written_is_found_after_a_restart(folder: Path, tmp_path: Path) -> None:
    data = os.urandom(3_000_000)
    assert put(tier(folder), tuple(range(100)), data, tmp_path)
    again = tier(folder)
    assert get(again, (*range(100), 7, 8)) == (100, data)
    assert get(again, (*range(40), 1000, 1001)) == (40, data)
    assert get(again, tuple(range(100))) == (99, data)
    assert get(again, (5, 6, 7)) is None
    assert again.find("", tuple(range(100)), 99) is None
    assert (folder.stat().st_mode & 0o777, files(folder)[0].stat().st_mode & 0o777) == (0o700, 0o600)


def test_other_namespaces_and_fingerprints_find_nothing(folder: Path, tmp_path: Path) -> None:
    put(tier(folder), (1, 2, 3, 4), b"state", tmp_path, ns="adapter")
    assert get(tier(folder), (1, 2, 3, 4)) is None
    assert get(tier(folder, "another model"), (1, 2, 3, 4), "adapter") is None
    assert get(tier(folder), (1, 2, 3, 4), "adapter") == (3, b"state")


def test_a_file_of_another_fingerprint_in_our_place_is_left_alone(folder: Path, tmp_path: Path) -> None:
    put(tier(folder), (1, 2, 3), b"state", tmp_path)
    put(tier(folder, "other"), (1, 2, 3), b"wrong", tmp_path)
    ours, theirs = (next(p for p in files(folder) if data in p.read_bytes()) for data in (b"state", b"wrong"))
    theirs.replace(ours)
    (ours.parent / f"notes{diskfile.SUFFIX}").write_text("not ours")
    assert get(tier(folder), (1, 2, 3, 4)) is None
    assert len(files(folder)) == 2


@pytest.mark.parametrize("at", ["magic", "header", "tokens", "payload", "digest"])
def test_any_flipped_byte_is_a_miss(folder: Path, tmp_path: Path, at: str) -> None:
    put(tier(folder), tuple(range(50)), b"payload" * 1000, tmp_path)
    path = files(folder)[0]
    data = bytearray(path.read_bytes())
    place = {"magic": 0, "header": 20, "tokens": len(data) - 16 - 7000 - 10, "payload": len(data) - 300, "digest": -1}[
        at
    ]
    data[place] ^= 1
    path.write_bytes(data)
    assert get(tier(folder), tuple(range(60))) is None


@pytest.mark.parametrize("keep", [0, 5, 11, 60, 300, 2000])
def test_a_truncated_file_is_a_miss_and_goes(folder: Path, tmp_path: Path, keep: int) -> None:
    put(tier(folder), tuple(range(50)), b"payload" * 1000, tmp_path)
    path = files(folder)[0]
    path.write_bytes(path.read_bytes()[:keep])
    disk = tier(folder)
    assert get(disk, tuple(range(60))) is None
    assert put(disk, tuple(range(50)), b"anew", tmp_path)
    assert get(disk, tuple(range(60))) == (50, b"anew")


def test_damage_after_the_start_is_a_miss_and_the_file_goes(
    folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk = tier(folder)
    put(disk, tuple(range(50)), b"payload" * 1000, tmp_path)
    path = files(folder)[0]
    data = bytearray(path.read_bytes())
    data[-1000] ^= 255
    path.write_bytes(data)
    assert get(disk, tuple(range(60))) is None
    assert disk.find("", tuple(range(60))) is None
    assert files(folder) == []
    assert disk.stats().damaged == 1
    assert "damaged" in caplog.text


def test_a_full_disk_warns_once_and_leaves_nothing(
    folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = tier(folder)

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with caplog.at_level(logging.WARNING):
        assert not any(put(disk, (n, n + 1), b"x", tmp_path) for n in range(3))
    assert len(caplog.records) == 1
    assert "No space left" in caplog.text
    assert list(folder.glob("*/*")) == []
    assert (disk.stats().failed, disk.stats().entries) == (3, 0)
    monkeypatch.undo()
    assert put(disk, (1, 2), b"x", tmp_path)


def test_a_folder_that_cannot_be_made_is_no_cache(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    disk = tier(blocked / "cache")
    assert not put(disk, (1, 2), b"x", tmp_path)
    assert disk.find("", (1, 2, 3)) is None
    assert len(caplog.records) == 1


def test_two_servers_see_each_others_files(folder: Path, tmp_path: Path) -> None:
    one, two = tier(folder), tier(folder)
    put(one, tuple(range(40)), b"one", tmp_path)
    two.refresh()
    assert get(two, tuple(range(50))) == (40, b"one")
    put(two, tuple(range(45)), b"two", tmp_path)  # takes the place of the first
    assert get(one, tuple(range(50))) is None  # its file is gone
    one.refresh()
    assert get(one, tuple(range(50))) == (45, b"two")


def test_two_servers_writing_and_reading_at_once_never_get_a_wrong_payload(folder: Path, tmp_path: Path) -> None:
    wrong: list[object] = []

    def serve(number: int) -> None:
        disk, mine = tier(folder, budget=60_000), tmp_path / str(number)
        mine.mkdir()
        for turn in range(60):
            first = turn % 7
            put(disk, (first, *range(50)), bytes([first]) * 5000, mine)
            disk.refresh()
            for wanted in range(7):
                found = get(disk, (wanted, *range(60)))
                if found is not None and found != (51, bytes([wanted]) * 5000):
                    wrong.append(found)

    threads = [threading.Thread(target=serve, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert list(folder.glob("*/.*")) == []


def test_the_least_recently_used_go_when_the_budget_is_full(folder: Path, tmp_path: Path) -> None:
    disk, other = tier(folder, budget=10_000), tier(folder, "other", 10_000)
    put(other, (9, 9, 9), b"z" * 3000, tmp_path)
    put(disk, (1, 1, 1), b"a" * 3000, tmp_path)
    put(disk, (2, 2, 2), b"b" * 3000, tmp_path)
    for age, path in enumerate(sorted(files(folder), key=lambda path: b"a" * 9 in path.read_bytes())):
        os.utime(path, (1000 + age, 1000 + age))
    assert get(disk, (1, 1, 1, 4)) is not None  # used: the newest now
    assert put(disk, (3, 3, 3), b"c" * 3000, tmp_path)
    assert sum(path.stat().st_size for path in files(folder)) <= 10_000
    assert get(disk, (1, 1, 1, 4)) == (3, b"a" * 3000)
    assert get(disk, (3, 3, 3, 4)) == (3, b"c" * 3000)
    assert not put(disk, (4, 4), b"d" * 20_000, tmp_path)
    assert get(disk, (1, 1, 1, 4)) is not None


def test_an_entry_takes_the_place_of_those_it_can_stand_for(folder: Path, tmp_path: Path) -> None:
    disk = tier(folder)
    put(disk, tuple(range(30)), b"short", tmp_path)
    put(disk, tuple(range(60)), b"exact", tmp_path, trimmable=False)
    assert len(files(folder)) == 2
    assert get(disk, (*range(60), 5)) == (60, b"exact")
    assert get(disk, (*range(59), 5)) == (30, b"short")
    put(disk, tuple(range(90)), b"long", tmp_path)
    assert len(files(folder)) == 1
    assert put(disk, tuple(range(70)), b"needless", tmp_path)
    assert len(files(folder)) == 1
    assert get(disk, (*range(70), 5)) == (70, b"long")


def test_what_killed_writers_left_goes_when_it_is_old(folder: Path) -> None:
    tier(folder)
    home = next(folder.iterdir())
    for name, age in ((".a.prefix.1.part", 1e6), (".b.prefix.2.part", 0)):
        (home / name).write_text("half")
        os.utime(home / name, (os.stat(home).st_mtime - age,) * 2)
    tier(folder)
    assert [path.name for path in home.iterdir()] == [".b.prefix.2.part"]


def test_a_payload_that_shrinks_while_it_is_written_is_not_kept(folder: Path, tmp_path: Path) -> None:
    header = diskfile.Header(fingerprint="f", namespace="", kind="prompt", tokens=1, trimmable=True, payload=10)
    with pytest.raises(OSError, match="shorter"):
        diskfile.write_file(tmp_path / "x.prefix", header, b"0000", io.BytesIO(b"123"))
    assert list(tmp_path.iterdir()) == []


@settings(max_examples=200, deadline=None)
@example([((0,) * 6, False), ((0,) * 6, True)], (0, 0))
@given(
    st.lists(
        st.tuples(st.lists(st.integers(0, 2), min_size=1, max_size=6).map(tuple), st.booleans()),
        max_size=12,
    ),
    st.lists(st.integers(0, 2), min_size=1, max_size=7).map(tuple),
)
def test_a_hit_is_always_a_state_that_can_serve(
    tmp_path_factory: pytest.TempPathFactory,
    entries: list[tuple[tuple[int, ...], bool]],
    wanted: tuple[int, ...],
) -> None:
    home = tmp_path_factory.mktemp("cache")
    disk = tier(home / "cache")
    for tokens, trimmable in entries:
        put(disk, tokens, bytes(tokens), home, trimmable=trimmable)
    for each in (disk, tier(home / "cache")):
        hit = each.find("", wanted)
        best = max(
            (_served(tokens, trimmable, wanted) for tokens, trimmable in entries),
            default=0,
        )
        assert (hit.length if isinstance(hit, DiskHit) else 0) == best
        if hit is not None:
            assert bytes(wanted[: hit.length]) == bytes(hit.record.tokens[: hit.length])
            assert hit.record.trimmable or hit.length == hit.record.length


def _served(tokens: tuple[int, ...], trimmable: bool, wanted: tuple[int, ...]) -> int:
    shared = 0
    for one, other in zip(tokens, wanted[:-1], strict=False):
        if one != other:
            break
        shared += 1
    return shared if trimmable or shared == len(tokens) else 0
