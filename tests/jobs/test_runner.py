from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from dragoman.core.batches import BatchRecord, NewRow
from dragoman.jobs.batch import RowReply
from dragoman.jobs.lanes import Load
from dragoman.jobs.runner import BatchRunner, RunnerRules
from dragoman.stores.stores import StoreLimits, Stores, open_stores
from tests.stores.test_responses import Clock

pytestmark = pytest.mark.anyio


class Rows:
    """Answers rows by what their body says; `asked` are the bodies in order."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.refusals: list[int] = []
        self.go = asyncio.Event()

    async def __call__(self, method: str, path: str, body: bytes) -> RowReply:
        text = json.loads(body)
        self.asked.append(text)
        if text == "wait":
            await self.go.wait()
        if text == "bug":
            raise ZeroDivisionError
        status = self.refusals.pop(0) if self.refusals else 200
        return RowReply(status, json.dumps({"said": text}).encode(), "req")


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def stores(tmp_path: Path, clock: Clock) -> AsyncIterator[Stores]:
    made = await open_stores(tmp_path / "s", StoreLimits(), clock=clock)
    yield made
    await made.close()


@pytest.fixture
def rows() -> Rows:
    return Rows()


@pytest.fixture
async def runner(stores: Stores, rows: Rows) -> AsyncIterator[BatchRunner]:
    made = BatchRunner(stores, rows, lambda: Load(4, 0, 0), lambda model: model == "m")
    yield made
    await made.stop()


async def create(stores: Stores, *texts: str, owner: str | None = None, **fields) -> BatchRecord:
    known = {"surface": "w", "status": "in_progress", "created": 1000, "expires": 2000, "model": "m", **fields}
    record = BatchRecord(id="b", owner=stores.instance.id if owner is None else owner, **known)
    made = [NewRow(custom_id=str(n), path="/x", body=json.dumps(text).encode()) for n, text in enumerate(texts)]
    return await stores.batches.create(record, made)


async def upload(stores: Stores, text: bytes) -> str:
    source = stores.incoming / "upload"
    source.write_bytes(text)
    return (await stores.files.add(source, name="n", content_type="", purpose="batch", lifetime=None)).id


async def reached(stores: Stores, condition: Callable[[BatchRecord], bool]) -> BatchRecord:
    async with asyncio.timeout(20):
        while True:
            record = await stores.batches.get("b")
            assert record is not None
            if condition(record):
                return record
            await asyncio.sleep(0.01)


async def outcomes(stores: Stores) -> list[tuple[str, str]]:
    return [(row.outcome, row.code) for page in [page async for page in stores.batches.rows("b")] for row in page]


async def test_rows_without_a_file_stay_readable(stores: Stores, rows: Rows, runner: BatchRunner) -> None:
    await create(stores, "a", "b")
    runner.begin("b")
    runner.begin("b")
    record = await reached(stores, lambda record: record.ended)
    assert (record.status, record.output_file, record.completed) == ("completed", None, 2)
    assert await outcomes(stores) == [("succeeded", "")] * 2
    assert sorted(rows.asked) == ["a", "b"]


async def test_busy_answers_are_asked_again(stores: Stores, rows: Rows, runner: BatchRunner) -> None:
    rows.refusals = [429, 503, 500]
    await create(stores, "a")
    runner.begin("b")
    record = await reached(stores, lambda record: record.ended)
    assert (rows.asked, record.failed) == (["a"] * 3, 1)


async def test_time_is_up(stores: Stores, rows: Rows, runner: BatchRunner, clock: Clock) -> None:
    await create(stores, "a", "wait", "wait")
    runner.begin("b")
    await reached(stores, lambda record: record.completed == 1)
    clock.now = 2000
    record = await reached(stores, lambda record: record.ended)
    assert (record.status, record.completed, record.expired, record.failed) == ("expired", 1, 2, 0)
    assert await outcomes(stores) == [("succeeded", ""), *[("expired", "batch_expired")] * 2]


async def test_stopped_and_taken_up(stores: Stores, rows: Rows, runner: BatchRunner) -> None:
    await create(stores, "a", "wait")
    runner.begin("b")
    await reached(stores, lambda record: record.completed == 1 and len(rows.asked) == 2)
    await runner.stop()
    assert await outcomes(stores) == [("succeeded", ""), ("pending", "")]
    rows.go.set()
    await runner.start()
    await reached(stores, lambda record: record.status == "completed")
    assert sorted(rows.asked) == ["a", "wait", "wait"]


async def test_validation_begins_anew(stores: Stores, runner: BatchRunner) -> None:
    line = json.dumps({"custom_id": "x", "method": "POST", "url": "/x", "body": {}}).encode()
    file = await upload(stores, line + b"\nnonsense\n")
    await create(stores, "left", "over", status="validating", input_file=file, endpoint="/x")
    await runner.start()
    record = await reached(stores, lambda record: record.ended)
    assert (record.status, record.total, record.completed, record.failed) == ("completed", 2, 1, 1)
    assert record.output_file is not None


async def test_an_input_that_is_gone(stores: Stores, runner: BatchRunner) -> None:
    await create(stores, status="validating", input_file="file-gone", endpoint="/x")
    runner.begin("b")
    record = await reached(stores, lambda record: record.ended)
    assert (record.status, record.faults[0].code) == ("failed", "invalid_input_file")


async def test_a_disk_that_fails_is_tried_again(stores: Stores, rows: Rows, runner: BatchRunner) -> None:
    line = json.dumps({"custom_id": "x", "method": "POST", "url": "/x", "body": {"a": 1}}).encode()
    file = await upload(stores, line)
    shutil.move(stores.incoming, stores.incoming.with_name("away"))
    await create(stores, status="validating", input_file=file, endpoint="/x")
    runner.begin("b")
    record = await reached(stores, lambda record: record.status == "finalizing")
    assert record.completed == 1
    shutil.move(stores.incoming.with_name("away"), stores.incoming)
    record = await reached(stores, lambda record: record.ended)
    assert record.status == "completed"
    assert record.output_file is not None
    assert rows.asked == [{"a": 1}]


async def test_a_fault_of_ours_ends_it(stores: Stores, runner: BatchRunner) -> None:
    await create(stores, "a", "bug")
    runner.begin("b")
    record = await reached(stores, lambda record: record.ended)
    assert (record.status, record.faults[0].code) == ("failed", "internal_error")


@pytest.mark.parametrize(
    ("fields", "taken"),
    [
        ({"owner": "sdead"}, True),
        ({"owner": "sdead", "model": "another"}, False),
        ({"owner": "sdead", "model": "another", "status": "cancelling"}, True),
        ({"owner": "sdead", "model": "another", "expires": 1000}, True),
    ],
)
async def test_what_the_dead_left(stores: Stores, runner: BatchRunner, fields: dict, taken: bool) -> None:
    await create(stores, "a", **fields)
    await runner.start()
    assert runner.running == int(taken)
    if taken:
        await reached(stores, lambda record: record.ended)


async def test_the_living_keep_theirs(stores: Stores, runner: BatchRunner, tmp_path: Path) -> None:
    other = await open_stores(tmp_path / "s", StoreLimits(), clock=stores.clock)
    await create(stores, "a", owner=other.instance.id)
    await runner.start()
    assert runner.running == 0
    await other.close()


async def test_restart_may_fail_them(stores: Stores, rows: Rows) -> None:
    await create(stores, "a", owner="sdead")
    runner = BatchRunner(stores, rows, lambda: Load(4, 0, 0), lambda _: True, RunnerRules(restart="fail"))
    await runner.start()
    record = await reached(stores, lambda record: record.ended)
    assert (record.status, record.faults[0].code, rows.asked) == ("failed", "server_restarted", [])
    assert await outcomes(stores) == [("cancelled", "server_restarted")]
    await runner.stop()
