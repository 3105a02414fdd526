"""What rows hold and do, as slots, and requests that ask for one."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from dragoman.backend.local import LocalBackend
from dragoman.core.errors import InvalidRequest, NotSupported, Unavailable
from dragoman.core.exchange import EngineRequest
from dragoman.core.slots import SlotAction
from dragoman.engines.fake import FakeEngine, FakeRule, FakeScript, FakeTokenizer

pytestmark = pytest.mark.anyio

SCRIPT = FakeScript(
    rules=(
        FakeRule(match="FOREVER", pieces=("la ",), repeat=True, delay=0.005),
        FakeRule(match="WORDS", pieces=("one", " two")),
    ),
    lanes=2,
    context_length=256,
)
TOKENIZER = FakeTokenizer(SCRIPT)


def request(name: str, text: str, slot: int | None = None) -> EngineRequest:
    ids = tuple(TOKENIZER.encode(text, add_special=False, parse_special=False))
    return EngineRequest(id=name, prompt=ids, max_tokens=8, stop_tokens=TOKENIZER.stop_tokens, slot=slot)


async def test_rows_are_shown_as_slots(tmp_path: Path) -> None:
    backend = LocalBackend(lambda: FakeEngine(SCRIPT))
    await backend.start()
    try:
        assert [(slot.number, slot.busy, slot.task) for slot in await backend.slots()] == [
            (0, False, None),
            (1, False, None),
        ]
        stream = await backend.submit(request("a", "WORDS", slot=1))
        chunks = [chunk async for chunk in stream]
        report = chunks[-1].report
        assert report is not None
        assert report.slot == 1
        idle, used = await backend.slots()
        assert idle.task is None
        assert used.task is not None
        # Two words and the end token were sampled; the end token was never fed.
        assert (used.busy, used.tokens, used.task.max_tokens) == (False, 5 + 2, 8)
        erased = await backend.act(SlotAction(number=3, verb="erase"), None)
        assert erased.tokens == 7
        assert (await backend.slots())[1].tokens == 0
        with pytest.raises(NotSupported, match="folder"):
            await backend.act(SlotAction(number=1, verb="save", name="x"), None)
        with pytest.raises(NotSupported, match="prompt cache"):
            await backend.act(SlotAction(number=1, verb="save", name="x"), tmp_path / "x")
    finally:
        await backend.stop()


async def test_a_row_that_is_asked_for_is_waited_for_and_others_pass() -> None:
    backend = LocalBackend(lambda: FakeEngine(SCRIPT))
    await backend.start()
    try:
        long = await backend.submit(request("long", "FOREVER", slot=0))
        await long.__anext__()
        pinned = await backend.submit(request("pinned", "WORDS", slot=2))
        other = await backend.submit(request("other", "WORDS"))
        last = [chunk async for chunk in other][-1]
        assert last.report is not None
        assert last.report.slot == 1
        assert (await backend.slots())[0].busy
        await long.aclose()
        last = [chunk async for chunk in pinned][-1]
        assert last.report is not None
        assert last.report.slot == 0
    finally:
        await backend.stop()


async def test_a_saved_row_is_restored_in_another_server(tmp_path: Path) -> None:
    file = tmp_path / "mine"
    first = LocalBackend(lambda: FakeEngine(SCRIPT), cache_budget=1 << 20)
    await first.start()
    try:
        async for _ in await first.submit(request("a", "WORDS", slot=1)):
            pass
        saved = await first.act(SlotAction(number=3, verb="save", name="mine"), file)
        assert (saved.tokens, saved.nbytes) == (7, file.stat().st_size)
        empty = await first.act(SlotAction(number=0, verb="save", name="none"), tmp_path / "none")
        assert (empty.tokens, empty.nbytes) == (0, 0)
    finally:
        await first.stop()
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
    second = LocalBackend(lambda: FakeEngine(SCRIPT), cache_budget=1 << 20)
    await second.start()
    try:
        restored = await second.act(SlotAction(number=0, verb="restore", name="mine"), file)
        assert (restored.tokens, restored.nbytes) == (7, saved.nbytes)
        assert (await second.slots())[0].tokens == 7
        chunks = [chunk async for chunk in await second.submit(request("b", "WORDS", slot=0))]
        assert chunks[0].started == 4  # all of the prompt but its last token
        again = await second.act(SlotAction(number=0, verb="save", name="again"), tmp_path / "again")
        assert again.tokens == 7
    finally:
        await second.stop()


async def test_files_that_are_no_saved_rows(tmp_path: Path) -> None:
    backend = LocalBackend(lambda: FakeEngine(SCRIPT), cache_budget=1 << 20)
    await backend.start()
    try:
        async for _ in await backend.submit(request("a", "WORDS", slot=0)):
            pass
        await backend.act(SlotAction(number=0, verb="save", name="good"), tmp_path / "good")
        good = (tmp_path / "good").read_bytes()
        (tmp_path / "short").write_bytes(good[:-3])
        (tmp_path / "flipped").write_bytes(good[:-20] + bytes([good[-20] ^ 1]) + good[-19:])
        (tmp_path / "foreign").write_bytes(good.replace(b"fake ", b"real "))
        (tmp_path / "empty").write_bytes(b"")
        for name in ("short", "flipped", "foreign", "empty", "missing"):
            with pytest.raises(InvalidRequest, match="Unable to restore slot"):
                await backend.act(SlotAction(number=0, verb="restore", name=name), tmp_path / name)
        assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]
    finally:
        await backend.stop()


async def test_a_busy_row_is_waited_for_and_a_dead_engine_is_not(tmp_path: Path) -> None:
    backend = LocalBackend(lambda: FakeEngine(SCRIPT), cache_budget=1 << 20)
    await backend.start()
    stream = await backend.submit(request("a", "FOREVER", slot=0))
    await anext(aiter(stream))
    saving = asyncio.create_task(backend.act(SlotAction(number=0, verb="save", name="x"), tmp_path / "x"))
    await asyncio.sleep(0)
    assert not saving.done()
    async for _ in stream:
        pass
    assert (await saving).tokens == len(request("", "FOREVER").prompt) + 7
    await backend.stop()
    with pytest.raises(Unavailable):
        await backend.act(SlotAction(number=0, verb="save", name="x"), tmp_path / "x")
