"""The generation use case: one choice, several, refusals before the stream, cancelling at any time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from dragoman.core.answer import Answer
from dragoman.core.errors import ContractBroken, DragomanError, InvalidRequest, Overloaded, UnsupportedField
from dragoman.core.events import Failed, Finished, PartDelta, Started
from dragoman.core.finish import FinishReason
from dragoman.core.messages import Message, TextPart
from dragoman.core.request import ChatInput, OutputFormat, RawInput, Request
from dragoman.core.tools import Tool, ToolChoice
from dragoman.output.assemble import Assembler
from dragoman.service.generate import Generation
from dragoman.service.models import ServedModel
from dragoman.service.prepare import AnswerLimits, prepare
from dragoman.service.stream import EventStream
from tests.service.served import scripted

pytestmark = pytest.mark.anyio

WORKERS = ThreadPoolExecutor(1)


def asking(text: str, **more: object) -> Request:
    return Request(input=RawInput((text,)), **more)


async def opened(model: ServedModel, *requests: Request) -> EventStream:
    return await Generation(WORKERS, AnswerLimits()).open(model, requests)


async def folded(stream: EventStream) -> Answer:
    assembler = Assembler()
    async for batch in stream:
        for event in batch:
            assembler.add(event)
    return assembler.answer()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.005)


async def test_one_choice() -> None:
    async with scripted() as model:
        answer = await folded(await opened(model, asking("WORDS")))
        assert [choice.text_of("text") for choice in answer.choices] == ["one two three four"]
        assert answer.choices[0].finish.reason is FinishReason.EOS


async def test_choices_are_numbered_request_major() -> None:
    async with scripted(lanes=2) as model:
        answer = await folded(await opened(model, asking("WORDS", n=2), asking("parrot", n=2, max_tokens=3)))
        assert [choice.index for choice in answer.choices] == [0, 1, 2, 3]
        assert [choice.text_of("text") for choice in answer.choices] == ["one two three four"] * 2 + ["par"] * 2


async def test_more_choices_than_the_queue_holds() -> None:
    async with scripted(lanes=2, waiting=0) as model:
        answer = await folded(await opened(model, *(asking("WORDS") for _ in range(9))))
        assert len(answer.choices) == 9


async def test_empty_prompt() -> None:
    async with scripted() as model:
        stream = await opened(model, Request(input=RawInput(((),))))
        events = [event async for batch in stream for event in batch]
        assert [type(event) for event in events] == [Started, Finished]
        assert events[1].finish.reason is FinishReason.NONE


async def test_no_prompt_at_all() -> None:
    async with scripted() as model:
        with pytest.raises(InvalidRequest):
            await opened(model)


async def test_refusals_come_before_the_stream() -> None:
    async with scripted(lanes=1, waiting=0) as model:
        with pytest.raises(DragomanError, match="4096"):
            await opened(model, asking("WORDS"), asking("x" * 5000))
        assert model.backend.stats().running == 0
        running = await opened(model, asking("FOREVER"))
        with pytest.raises(Overloaded):
            await opened(model, asking("WORDS"))
        await running.aclose()


@pytest.mark.parametrize("batches", [0, 1, 3])
@pytest.mark.parametrize("choices", [1, 3])
async def test_case_22_closing_cancels_at_any_time(batches: int, choices: int) -> None:
    async with scripted() as model:
        stream = await opened(model, asking("FOREVER", n=choices))
        for _ in range(batches):
            await anext(stream)
        await stream.aclose()
        await stream.aclose()
        await until(lambda: model.backend.stats().running == model.backend.stats().waiting == 0)
        assert (await folded(await opened(model, asking("WORDS")))).choices


@pytest.mark.parametrize("choices", [1, 3])
async def test_case_22_a_cancelled_task_frees_everything(choices: int) -> None:
    async with scripted() as model:

        async def consume() -> None:
            stream = await opened(model, asking("FOREVER", n=choices))
            try:
                async for _ in stream:
                    pass
            finally:
                await stream.aclose()

        task = asyncio.create_task(consume())
        await until(lambda: model.backend.stats().running == choices)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(lambda: model.backend.stats().running == 0)


async def test_stop_string_ends_the_engines_work() -> None:
    async with scripted() as model:
        answer = await folded(await opened(model, asking("FOREVER", stop=("a l",))))
        assert answer.choices[0].text_of("text") == "l"
        assert answer.choices[0].finish.stop_match == "a l"
        await until(lambda: model.backend.stats().running == 0)


async def test_failure_is_told_in_the_stream() -> None:
    async with scripted() as model:
        stream = await opened(model, asking("FAIL"))
        events = [event async for batch in stream for event in batch]
        assert isinstance(events[-1], Failed)
        assert (await folded(await opened(model, asking("WORDS")))).choices


FORCED = ChatInput(
    messages=(Message("user", (TextPart("WORDS"),)),), tools=(Tool("look"),), tool_choice=ToolChoice("required")
)


async def degraded(model: ServedModel, request: Request) -> EventStream:
    return await Generation(WORKERS, AnswerLimits(grammar_degrade=True)).open(model, [request])


async def test_case_12_a_forced_call_that_does_not_come_breaks_the_contract() -> None:
    async with scripted() as model:
        with pytest.raises(UnsupportedField):
            await opened(model, Request(input=FORCED))
        stream = await degraded(model, Request(input=FORCED))
        assert stream.unenforced
        events = [event async for batch in stream for event in batch]
        assert isinstance(events[-1], Failed)
        assert isinstance(events[-1].error, ContractBroken)
        assert events[-1].error.field == "tool_choice"
        assert "".join(event.text for event in events if isinstance(event, PartDelta)) == "one two three four"
        with pytest.raises(ContractBroken):
            await folded(await degraded(model, Request(input=FORCED)))


async def test_case_04_a_forced_call_cut_by_the_limit_is_only_cut() -> None:
    async with scripted() as model:
        answer = await folded(await degraded(model, Request(input=FORCED, max_tokens=2)))
        assert answer.choices[0].finish.reason is FinishReason.LENGTH


@pytest.mark.parametrize("strict", [False, True])
async def test_only_a_strict_format_is_a_promise_without_masks(strict: bool) -> None:
    format = OutputFormat("json_schema", "{}", strict=strict)
    async with scripted() as model:
        stream = await degraded(model, asking("WORDS", format=format))
        assert stream.unenforced
        if strict:
            with pytest.raises(ContractBroken):
                await folded(stream)
        else:
            assert (await folded(stream)).choices[0].text_of("text") == "one two three four"


async def test_the_constraint_in_words_is_in_the_prompt() -> None:
    async with scripted() as model:
        format = OutputFormat("choice", '["yes","no"]')
        asked = Request(input=ChatInput(messages=FORCED.messages), format=format)
        limits = AnswerLimits(grammar_degrade=True)
        assert '["yes","no"]' in prepare(model, asked, limits).prompt_text
        assert '["yes","no"]' not in prepare(model, Request(input=asked.input), limits).prompt_text
