"""The gateway on a real service desk and a dialect of its own: replies, refusals, receipts, cancelling."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

import pytest

from dragoman.core.answer import Answer
from dragoman.core.errors import DragomanError
from dragoman.core.events import Event, Failed, PartDelta
from dragoman.core.operations import HealthRequest
from dragoman.core.request import RawInput, Request
from dragoman.dialects.base import (
    Dialect,
    Endpoint,
    ErrorReply,
    Frame,
    GenerateCall,
    ReplyContext,
    SmallCall,
    StaticCall,
    WireRequest,
)
from dragoman.gateway.desk import GatewayOptions, ServiceGateway
from dragoman.gateway.reply import Reply, Stream, Whole
from dragoman.service.desk import ServiceDesk
from dragoman.service.models import ModelRoster, ServedModel
from dragoman.service.prepare import AnswerLimits
from dragoman.telemetry.receipt import Receipt
from tests.service.served import scripted

pytestmark = pytest.mark.anyio


class PlainWriter:
    """Text as it comes; an error as its code in capitals."""

    def __init__(self, context: ReplyContext) -> None:
        self._context = context

    def frames(self, event: Event) -> list[Frame]:
        if isinstance(event, Failed):
            return [Frame(event.error.code.upper().encode())]
        return [Frame(event.text.encode())] if isinstance(event, PartDelta) and event.text else []

    def end(self) -> list[Frame]:
        return [Frame(f"end of {self._context.request_id}".encode())]

    def whole(self, answer: Answer) -> bytes:
        return answer.choices[0].text_of("text").encode()


def read(wire: WireRequest) -> GenerateCall | SmallCall | StaticCall:
    text = wire.body.decode()
    if text == "BUG":
        raise ZeroDivisionError
    if text == "HEALTH":
        return SmallCall(request=HealthRequest(), write=lambda health: health.status.encode())
    if text == "STATIC":
        return StaticCall(body=b"always")
    ignored = ("sparkle",) if "SPARKLE" in text else ()
    request = Request(input=RawInput((text,)))
    return GenerateCall(requests=(request,), stream=wire.path == "/s", writer=PlainWriter, ignored=ignored)


def write_error(error: DragomanError, request_id: str) -> ErrorReply:
    return ErrorReply(error.status, f"{error.code} {request_id}".encode())


ENDPOINT = Endpoint(method="POST", path="/{mode}", summary="", read=read)
DIALECT = Dialect(name="plain", endpoints=(ENDPOINT,), error=write_error)


class Desk:
    """A gateway with what it booked."""

    def __init__(self, model: ServedModel, options: GatewayOptions) -> None:
        self.model = model
        self.booked: list[Receipt] = []
        self.draining = False
        desk = ServiceDesk(
            ModelRoster([model]),
            ThreadPoolExecutor(1),
            AnswerLimits(),
            metrics=lambda: b"",
            draining=lambda: self.draining,
        )
        self.gateway = ServiceGateway(desk, options, self.booked.append, logging.getLogger("test"))

    async def call(self, text: str, *, stream: bool = False) -> Reply:
        wire = WireRequest(method="POST", path="/s" if stream else "/w", body=text.encode())
        return await self.gateway.call(DIALECT, ENDPOINT, wire, "r1")


@asynccontextmanager
async def desk(**options: bool) -> AsyncIterator[Desk]:
    async with scripted() as model:
        yield Desk(model, GatewayOptions(**options))


async def frames_of(reply: Reply) -> list[bytes]:
    assert isinstance(reply, Stream)
    return [frame.data async for batch in reply.frames for frame in batch]


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.005)


async def test_whole_and_stream() -> None:
    async with desk() as made:
        whole = await made.call("WORDS")
        assert isinstance(whole, Whole)
        assert (whole.status, whole.body) == (200, b"one two three four")
        frames = await frames_of(await made.call("WORDS", stream=True))
        assert frames == [b"one", b" two", b" three", b" four", b"end of r1"]
        assert [(receipt.outcome, receipt.stream) for receipt in made.booked] == [
            ("finished", False),
            ("finished", True),
        ]
        assert {receipt.completion_tokens for receipt in made.booked} == {5}


async def test_small_and_static_calls() -> None:
    async with desk() as made:
        assert (await made.call("HEALTH")).body == b"ok"
        assert (await made.call("STATIC")).body == b"always"
        made.draining = True
        health = await made.call("HEALTH")
        assert (health.status, health.headers["retry-after"]) == (503, "2")


async def test_refusals_are_written_by_the_dialect() -> None:
    async with desk() as made:
        for stream in (False, True):
            reply = await made.call("x" * 5000, stream=stream)
            assert isinstance(reply, Whole)
            assert (reply.status, reply.body) == (400, b"context_length_exceeded r1")
        assert [receipt.outcome for receipt in made.booked] == ["refused", "refused"]


async def test_engine_failure_whole_and_streamed() -> None:
    async with desk() as made:
        whole = await made.call("FAIL")
        assert (whole.status, whole.body) == (500, b"engine_failure r1")
        assert await frames_of(await made.call("FAIL", stream=True)) == [b"a", b"ENGINE_FAILURE"]
        assert [receipt.outcome for receipt in made.booked] == ["failed", "failed"]
        assert (await made.call("WORDS")).status == 200


async def test_a_bug_is_told_without_details(caplog: pytest.LogCaptureFixture) -> None:
    async with desk() as made:
        reply = await made.call("BUG")
        assert (reply.status, reply.body) == (500, b"engine_failure r1")
        assert "ZeroDivisionError" in caplog.text
        assert made.booked[0].outcome == "failed"


async def test_ignored_fields() -> None:
    async with desk() as made:
        reply = await made.call("WORDS SPARKLE")
        assert reply.headers == {"x-dragoman-ignored": "sparkle"}
        assert made.booked[0].ignored == ("sparkle",)
    async with desk(strict_fields=True) as made:
        assert (await made.call("WORDS SPARKLE")).status == 400
        assert (await made.call("WORDS")).status == 200


async def test_prompts_are_on_the_receipt_only_when_told() -> None:
    async with desk() as made:
        await made.call("WORDS")
        assert (made.booked[0].prompts, made.booked[0].answers) == ((), ())
    async with desk(log_prompts=True) as made:
        await made.call("WORDS")
        assert (made.booked[0].prompts, made.booked[0].answers) == (("<|bos|>WORDS",), ("one two three four",))


@pytest.mark.parametrize("taken", [0, 2])
async def test_case_22_closing_the_frames_cancels(taken: int) -> None:
    async with desk() as made:
        reply = await made.call("FOREVER", stream=True)
        assert isinstance(reply, Stream)
        for _ in range(taken):
            await anext(reply.frames)
        await reply.frames.aclose()
        await reply.frames.aclose()
        await until(lambda: made.model.backend.stats().running == made.model.backend.stats().waiting == 0)
        assert [receipt.outcome for receipt in made.booked] == ["cancelled"]


async def test_case_22_cancelling_a_whole_call() -> None:
    async with desk() as made:
        task = asyncio.create_task(made.call("FOREVER"))
        await until(lambda: made.model.backend.stats().running == 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(lambda: made.model.backend.stats().running == 0)
        assert [receipt.outcome for receipt in made.booked] == ["cancelled"]
