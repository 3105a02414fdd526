"""What rows hold and do, as slots, and requests that ask for one."""

from __future__ import annotations

import pytest

from dragoman.backend.local import LocalBackend
from dragoman.core.errors import NotSupported
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


async def test_rows_are_shown_as_slots() -> None:
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
        with pytest.raises(NotSupported):
            await backend.act(SlotAction(number=1, verb="save", name="x"), None)
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
