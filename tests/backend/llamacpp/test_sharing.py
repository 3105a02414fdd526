"""Prefixes shared between slots, in front of a stub: what is computed, moved, waited for and given up."""

from __future__ import annotations

import asyncio
import os
import random
import threading
from pathlib import Path
from typing import Any

import pytest

from dragoman.backend.llamacpp.backend import LlamaCppBackend
from dragoman.cache.diskfile import read_head
from dragoman.core.adapters import AdapterScale
from dragoman.core.errors import DragomanError
from dragoman.core.exchange import EngineRequest
from dragoman.core.request import CacheHints
from tests.backend.llamacpp.rig import ask, chunks_of, eventually_ids, ids_of
from tests.backend.llamacpp.slot_stub import cached_by, expected, sharing

pytestmark = pytest.mark.anyio

PREFIX = tuple(range(1, 251))


def agent(number: int, tail: int = 10, prefix: tuple[int, ...] = PREFIX, **fields: Any) -> EngineRequest:
    return ask((*prefix, *(300 + number * 50 + at for at in range(tail))), 4, **fields)


def at_rest(backend: LlamaCppBackend) -> None:
    """Nothing is taken, waited for or under way."""
    stats = backend.stats()
    assert (stats.running, stats.waiting) == (0, 0)
    prefixes = backend._prefixes
    assert prefixes is not None
    desk = prefixes._desk
    assert not desk._seats
    assert not desk._waiting
    assert not any(slot.busy for slot in desk._slots)


async def test_a_prefix_many_begin_with_is_computed_once() -> None:
    async with sharing({"lanes": 8}, slots=8) as (backend, launcher):
        cached = await asyncio.gather(*(cached_by(backend, agent(number)) for number in range(8)))
        stub = launcher.stub
        assert sorted(cached) == [0] + [250] * 7
        assert sum(stub.computed) <= 260 + 1 + 7 * 10  # the first answers its last token's step again
        assert [move.split()[0] for move in stub.moves].count("restore") == 7
        assert stub.moves.count("save 0") == 1
        stats = backend.stats()
        assert (stats.finished, stats.prompt_tokens, stats.cached_tokens) == (8, 8 * 260, 7 * 250)
        assert (stats.cache_hits, stats.cache_entries) == (7, 1)
        assert stats.cache_bytes > 0
        at_rest(backend)


async def test_the_longest_own_content_is_used_where_it_is() -> None:
    async with sharing() as (backend, launcher):
        for number in range(3):
            await cached_by(backend, agent(number, prefix=(number + 1,) * 100))
        for number in (2, 0, 1):
            assert await cached_by(backend, agent(number, 30, prefix=(number + 1,) * 100)) == 110
        assert not any(move.startswith("restore") for move in launcher.stub.moves)
        assert launcher.stub.used == [0, 1, 2, 2, 0, 1]


async def test_a_lone_short_prompt_costs_nothing_more() -> None:
    async with sharing() as (backend, launcher):
        await cached_by(backend, ask(range(40), 5))
        assert launcher.stub.moves == []
        assert launcher.stub.computed == [40]


async def test_a_long_prompt_is_saved_at_its_end_so_that_late_comers_need_not_wait() -> None:
    async with sharing(prefill=0.02, step=0.05) as (backend, launcher):
        stream = await backend.submit(ask(PREFIX, 60))
        async for chunk in stream:
            if chunk.tokens:
                break
        assert launcher.stub.moves == ["save 0"]
        assert await cached_by(backend, agent(1)) == 250
        assert backend.stats().running == 1
        await stream.aclose()
        at_rest(backend)


async def test_what_a_slot_in_use_holds_is_kept_when_it_is_computed_a_second_time() -> None:
    async with sharing(prefill=0.0002, step=0.05) as (backend, launcher):
        stream = await backend.submit(ask(PREFIX, 60))
        async for chunk in stream:
            if chunk.tokens:
                break
        assert launcher.stub.moves == []  # so quickly computed that saving would have cost more
        assert await cached_by(backend, agent(1)) == 0
        assert await cached_by(backend, agent(2)) >= 250
        await stream.aclose()


async def test_content_is_saved_before_it_is_lost() -> None:
    async with sharing({"lanes": 1}, slots=1) as (backend, launcher):
        assert await cached_by(backend, ask(PREFIX, 4)) == 0
        assert await cached_by(backend, ask((9,) * 100, 4)) == 0
        assert launcher.stub.moves == ["save 0"]
        assert await cached_by(backend, agent(1)) == 250
        assert launcher.stub.moves == ["save 0", "save 0", "restore 0"]
        assert await cached_by(backend, ask((9,) * 120, 4)) == 100


async def test_who_forbids_reuse_computes_everything() -> None:
    async with sharing() as (backend, _):
        await cached_by(backend, agent(0))
        alone = CacheHints(reuse=False)
        assert await cached_by(backend, agent(0, cache=alone)) == 0
        found = await asyncio.gather(*(cached_by(backend, agent(number, cache=alone)) for number in range(5)))
        assert found == [0] * 5
        at_rest(backend)


async def test_prefixes_of_different_namespaces_are_kept_apart() -> None:
    async with sharing() as (backend, _):
        await asyncio.gather(*(cached_by(backend, agent(number)) for number in range(3)))
        for turn in range(3):
            found = await cached_by(backend, agent(turn, namespace="other"))
            assert found == (0 if turn == 0 else 250)


async def test_without_memory_for_them_slots_are_left_to_llama_cpp() -> None:
    async with sharing({"prefix_bytes": 0}) as (backend, launcher):
        await chunks_of(backend, agent(0))
        assert "id_slot" not in launcher.stub.received[-1]
        assert backend.stats().cache_entries == 0


async def test_unknown_adapters_are_refused_and_leave_no_trace() -> None:
    async with sharing() as (backend, _):
        with pytest.raises(DragomanError):
            await backend.submit(agent(0, adapters=(AdapterScale("x"),)))
        at_rest(backend)


# Leaving


@pytest.mark.parametrize("seconds", [0.0, 0.02, 0.06, 0.09, 0.12, 0.2])
async def test_a_leader_may_leave_at_any_time(seconds: float) -> None:
    async with sharing(moving=0.03, step=0.01) as (backend, launcher):
        streams = [await backend.submit(agent(number)) for number in range(6)]
        tasks = [asyncio.create_task(_drained(stream)) for stream in streams]
        await asyncio.sleep(seconds)
        await streams[0].aclose()
        async with asyncio.timeout(10):
            answers = await asyncio.gather(*tasks)
        assert [answers[n] == expected(agent(n)) for n in range(1, 6)] == [True] * 5
        await _settled(backend)
        assert sum(launcher.stub.computed) <= 2 * 260 + 6 * 30


@pytest.mark.parametrize("seconds", [0.0, 0.05, 0.09, 0.12, 0.15])
async def test_followers_may_leave_at_any_time(seconds: float) -> None:
    async with sharing(moving=0.03, step=0.01) as (backend, _):
        streams = [await backend.submit(agent(number)) for number in range(6)]
        tasks = [asyncio.create_task(_drained(stream)) for stream in streams]
        await asyncio.sleep(seconds)
        for stream in streams[2:]:
            await stream.aclose()
        async with asyncio.timeout(10):
            answers = await asyncio.gather(*tasks)
        assert answers[:2] == [expected(agent(0)), expected(agent(1))]
        await _settled(backend)


async def test_any_interleaving_of_requests_and_departures_gives_the_same_answers() -> None:
    chance = random.Random(11)
    async with sharing({"lanes": 3}, slots=3, moving=0.002, step=0.001, prefill=0.0001) as (backend, _):

        async def one(number: int) -> None:
            await asyncio.sleep(chance.random() * 0.4)
            prefix = chance.choice([PREFIX, PREFIX[:100], (7,) * 150, PREFIX[:100] + (8,) * 100])
            hints = CacheHints(reuse=chance.random() > 0.1)
            request = agent(chance.randrange(4), chance.randrange(1, 40), prefix, cache=hints)
            stream = await backend.submit(request)
            reading = asyncio.create_task(_drained(stream))
            if chance.random() < 0.35:
                await asyncio.sleep(chance.random() * 0.05)
                await stream.aclose()
                answer = await reading
                assert answer == expected(request)[: len(answer)]
            else:
                assert await reading == expected(request)

        async with asyncio.timeout(30):
            await asyncio.gather(*(one(number) for number in range(60)))
        await _settled(backend)
        stats = backend.stats()
        assert stats.finished + stats.cancelled == 60
        assert stats.cached_tokens > 1000
        prefixes = backend._prefixes
        assert prefixes is not None
        prefixes._tiers._ram.check()


# Those who wait


async def test_nobody_waits_for_a_request_whose_reader_does_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.backend.llamacpp.slotdesk._LOOK_SECONDS", 0.05)
    async with sharing() as (backend, _):
        unread = await backend.submit(agent(0))
        begun = await backend.submit(agent(0))
        followers = [asyncio.create_task(_drained(await backend.submit(agent(number)))) for number in range(1, 5)]
        await asyncio.sleep(0)
        assert backend.stats().running == 1
        async with asyncio.timeout(5):
            assert await asyncio.gather(*followers) == [expected(agent(number)) for number in range(1, 5)]
        assert await _drained(unread) == expected(agent(0))
        await begun.aclose()
        await _settled(backend)


async def test_a_slow_prefill_that_is_read_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.backend.llamacpp.slotdesk._LOOK_SECONDS", 0.01)
    async with sharing(prefill=0.001) as (backend, _):
        assert sorted(await asyncio.gather(*(cached_by(backend, agent(n)) for n in range(4)))) == [0] + [250] * 3


async def test_who_waits_for_a_prefix_takes_no_place_in_the_queue() -> None:
    async with sharing({"max_waiting": 0}) as (backend, _):
        found = await asyncio.gather(*(cached_by(backend, agent(number)) for number in range(4)))
        assert sorted(found) == [0, 250, 250, 250]


@pytest.mark.parametrize("doing", ["saving", "restoring"])
async def test_a_deadline_ends_a_request_whose_slot_is_moved(doing: str) -> None:
    async with sharing(moving=0.0) as (backend, launcher):
        if doing == "restoring":
            await asyncio.gather(*(cached_by(backend, agent(number)) for number in range(2)))
        launcher.stub.moving = 1.0
        stream = await backend.submit(agent(2, deadline=0.3, slot=3))
        follower = await backend.submit(agent(3))
        waiting = asyncio.create_task(_drained(follower))
        async with asyncio.timeout(0.8):
            with pytest.raises(DragomanError, match="deadline"):
                await _drained(stream)
        assert await waiting == expected(agent(3))
        await _settled(backend)


# Failures


@pytest.mark.parametrize("fault", ["partial", "refused", "unable"])
async def test_nobody_waits_for_an_answer_whose_prompt_could_not_be_saved(fault: str) -> None:
    async with sharing(fault=fault, step=0.5) as (backend, launcher):
        streams = [await backend.submit(agent(number)) for number in range(3)]
        tasks = [asyncio.create_task(_drained(stream)) for stream in streams]
        await launcher.stub.saving.wait()
        await asyncio.sleep(0.1)
        assert [stream.ticket.begun is not None for stream in streams] == [True] * 3
        for stream in streams:
            await stream.aclose()
        await asyncio.gather(*tasks)
        await _settled(backend)


@pytest.mark.parametrize("fault", ["partial", "refused", "unable"])
async def test_saving_that_fails_costs_nobody_an_answer(fault: str) -> None:
    async with sharing(fault=fault) as (backend, launcher):
        found = await asyncio.gather(*(cached_by(backend, agent(number)) for number in range(8)))
        assert max(found) in (0, 250, 251)  # own content of a slot may serve
        saves = [move for move in launcher.stub.moves if move.startswith("save")]
        assert len(saves) == 1  # and is not tried again and again
        assert backend.stats().cache_entries == 0
        await _settled(backend)
        assert list(Path(launcher.told).glob("*.bin")) == []


async def test_a_file_that_is_gone_is_a_miss() -> None:
    async with sharing() as (backend, launcher):
        await asyncio.gather(*(cached_by(backend, agent(number)) for number in range(2)))
        for path in Path(launcher.told).glob("*.bin"):
            path.unlink()
        found = await asyncio.gather(*(cached_by(backend, agent(number)) for number in range(2, 6)))
        assert min(found) == 0
        await _settled(backend)


async def test_an_engine_killed_while_it_saves_is_started_again() -> None:
    async with sharing(fault="hang") as (backend, launcher):
        first = [asyncio.create_task(eventually_ids(backend, agent(number))) for number in range(5)]
        await launcher.stub.saving.wait()
        launcher.fields["fault"] = ""
        await launcher.engine.crash()
        async with asyncio.timeout(10):
            done = await asyncio.gather(*first, return_exceptions=True)
        for number, answer in enumerate(done):
            assert isinstance(answer, DragomanError) or answer == expected(agent(number))
        assert isinstance(done[0], DragomanError)
        assert len([answer for answer in done if isinstance(answer, list)]) >= 4
        await _settled(backend)


async def test_what_is_saved_outlives_the_engine_process() -> None:
    async with sharing() as (backend, launcher):
        await asyncio.gather(*(cached_by(backend, agent(number)) for number in range(2)))
        await launcher.engine.crash()
        while launcher.engine.stub.dropped or len(launcher.engines) == 1:
            await asyncio.sleep(0.01)
        assert await eventually_ids(backend, agent(3)) == expected(agent(3))
        assert launcher.stub.moves == ["restore 0"]
        assert sum(launcher.stub.computed) == 10


async def test_the_folder_goes_with_the_server_and_stale_ones_with_the_next() -> None:
    async with sharing() as (backend, launcher):
        await asyncio.gather(*(cached_by(backend, agent(number)) for number in range(2)))
        folder = Path(launcher.told)
        assert folder.stat().st_mode & 0o777 == 0o700
        left = folder.with_name("dragoman-slots-1-left")
        left.mkdir()
        (left / "s1.bin").write_text("state")
        for path in (left, folder):
            os.utime(path, (1, 1))
        async with sharing():
            assert not left.exists()
            assert folder.exists()
    assert not folder.exists()


# Disk


async def test_prefixes_survive_a_restart_of_everything(tmp_path: Path) -> None:
    options = {"cache_folder": tmp_path / "cache", "cache_disk_bytes": 1 << 20}
    async with sharing(options) as (backend, _):
        await cached_by(backend, agent(0))
    async with sharing(options) as (backend, launcher):
        found = await asyncio.gather(*(cached_by(backend, agent(number)) for number in range(4)))
        assert sorted(found) == [250, 250, 250, 259]
        assert not any(move.startswith("save") for move in launcher.stub.moves[:4])
    async with sharing(options | {"kv_bits": 8}) as (backend, _):
        assert await cached_by(backend, agent(0)) == 0


async def test_an_idle_server_writes_what_it_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.backend.llamacpp.slotdesk._IDLE_SECONDS", 0.01)
    options = {"cache_folder": tmp_path / "cache", "cache_disk_bytes": 1 << 20}
    async with sharing(options) as (backend, _):
        await cached_by(backend, agent(0))
        async with asyncio.timeout(5):
            while not list(tmp_path.glob("cache/*/*.prefix")):
                await asyncio.sleep(0.01)
        assert await cached_by(backend, agent(0)) == 259


@pytest.mark.parametrize("damage", ["cut", "flip", "empty"])
async def test_a_damaged_cache_file_is_a_miss(tmp_path: Path, damage: str) -> None:
    options = {"cache_folder": tmp_path / "cache", "cache_disk_bytes": 1 << 20}
    async with sharing(options) as (backend, _):
        await cached_by(backend, agent(0))
    (path,) = tmp_path.glob("cache/*/*.prefix")
    data = path.read_bytes()
    path.write_bytes({"cut": data[:-7], "flip": data[:-40] + b"~" + data[-39:], "empty": b""}[damage])
    async with sharing(options) as (backend, _):
        assert await cached_by(backend, agent(0)) == 0
        await _settled(backend)


async def test_two_servers_share_a_cache_folder(tmp_path: Path) -> None:
    options = {"cache_folder": tmp_path / "cache", "cache_disk_bytes": 1 << 20, "model": str(tmp_path / "m.gguf")}
    (tmp_path / "m.gguf").write_text("one model")
    async with sharing(options) as (one, _), sharing(options) as (two, _):
        await cached_by(one, agent(0))
        prefixes = one._prefixes
        assert prefixes is not None
        await prefixes.flush()
        await prefixes._tiers.written()
        assert await cached_by(two, agent(1)) == 250
        await asyncio.gather(*(cached_by(each, agent(number)) for each in (one, two) for number in range(6)))


async def test_files_of_others_are_read_in_a_thread_and_not_waited_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"cache_folder": tmp_path / "cache", "cache_disk_bytes": 1 << 20, "model": str(tmp_path / "m.gguf")}
    (tmp_path / "m.gguf").write_text("one model")
    threads: set[str] = set()
    slow = threading.Event()

    def reading(path: Path) -> Any:
        threads.add(threading.current_thread().name)
        slow.wait(10)
        return read_head(path)

    monkeypatch.setattr("dragoman.backend.llamacpp.slotdesk._LOOK_SECONDS", 0.02)
    async with sharing(options) as (one, _), sharing(options) as (two, _):
        await cached_by(one, agent(0))
        prefixes = one._prefixes
        assert prefixes is not None
        await prefixes.flush()
        await prefixes._tiers.written()
        monkeypatch.setattr("dragoman.cache.disk.read_head", reading)
        async with asyncio.timeout(5):
            assert await cached_by(two, agent(1)) == 0
        assert threads
        assert threading.main_thread().name not in threads
        slow.set()


async def test_a_prefix_that_takes_too_long_to_read_is_computed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"cache_folder": tmp_path / "cache", "cache_disk_bytes": 1 << 20}
    async with sharing(options) as (backend, _):
        await cached_by(backend, agent(0))
    slow = threading.Event()
    monkeypatch.setattr("dragoman.backend.llamacpp.tiers._LOADING_SECONDS", 0.05)
    monkeypatch.setattr("dragoman.backend.llamacpp.tiers._copy", lambda *_: slow.wait(10))
    async with sharing(options) as (backend, _):
        async with asyncio.timeout(5):
            assert await cached_by(backend, agent(1)) == 0
        slow.set()


async def test_a_full_disk_is_told_once_and_costs_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("dragoman.cache.disk.write_file", full)
    options = {"cache_folder": tmp_path / "cache", "cache_disk_bytes": 1 << 20}
    async with sharing(options) as (backend, _):
        for family in range(3):
            prefix = (family + 1,) * 100
            found = await asyncio.gather(*(cached_by(backend, agent(number, prefix=prefix)) for number in range(3)))
            assert sorted(found) == [0, 100, 100]
    assert caplog.text.count("No space left") == 1


async def _drained(stream: Any) -> list[int]:
    return ids_of([chunk async for chunk in stream])


async def _settled(backend: LlamaCppBackend) -> None:
    """Departures free their slots soon."""
    async with asyncio.timeout(5):
        while backend.stats().running or backend.stats().waiting:
            await asyncio.sleep(0.01)
    at_rest(backend)


ONE_WINDOW = {"context": 150, "kv_unified": True}
"""For four slots: 600 tokens, of which an answer is to have 75 left."""


async def test_idle_slots_are_saved_and_emptied_where_a_window_is_shared() -> None:
    async with sharing(ONE_WINDOW) as (backend, launcher):
        for number in range(3):
            assert await cached_by(backend, agent(number, prefix=(number + 1,) * 240)) == 0
        # 254 tokens each: the third finds no room beside the first two, and the first was used least recently.
        assert launcher.stub.moves[-1] == "erase 0"
        assert [len(content) for _, content in sorted(launcher.stub.contents.items())] == [0, 254, 254]
        assert await cached_by(backend, agent(0, prefix=(1,) * 240)) >= 249
        assert launcher.stub.moves[-1].startswith("restore")
        assert sum(map(len, launcher.stub.contents.values())) <= 600
        at_rest(backend)


async def test_a_slot_that_llamacpp_has_emptied_costs_nothing_but_its_content(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with sharing(ONE_WINDOW) as (backend, launcher):
        for number in range(2):
            await cached_by(backend, ask((number + 1,) * 100, 120))  # an answer that nothing has saved
        launcher.stub.contents[0].clear()
        for number in range(2, 5):
            await cached_by(backend, agent(number, prefix=(number + 1,) * 240))
        assert await cached_by(backend, agent(4, prefix=(5,) * 240)) >= 249
        at_rest(backend)
    assert not caplog.records
