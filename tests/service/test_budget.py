"""A thought that has had its tokens is closed, and the answer goes on: one answer, whatever the engine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

import msgspec
import pytest

from dragoman.backend.local import LocalBackend
from dragoman.core.answer import Choice
from dragoman.core.errors import Overloaded
from dragoman.core.events import Event, PartDelta
from dragoman.core.exchange import EngineRequest
from dragoman.core.finish import FinishReason
from dragoman.core.messages import Message, TextPart
from dragoman.core.prompt import Prompt
from dragoman.core.request import ChatInput, Request, Thinking
from dragoman.core.sampling import SamplingSpec
from dragoman.engines.fake import FakeEngine, FakeRule, FakeScript, FakeTokenizer, card_of
from dragoman.engines.fake.template import FAKE_TEMPLATE
from dragoman.output.assemble import assemble
from dragoman.prompt.builder import PromptBuilder
from dragoman.scheduler.limits import SchedulerLimits
from dragoman.service.budget import continued_sampling, thinking_budget
from dragoman.service.generate import Generation
from dragoman.service.models import ServedModel
from dragoman.service.prepare import AnswerLimits

pytestmark = pytest.mark.anyio

WORKERS = ThreadPoolExecutor(1)
END = "\n</think>\n\n"
FORCED = FakeRule(regex=r"END.*</think>\n\n$", pieces=("Paris", " it", " is"))
LONG = FakeRule(match="LONG", pieces=("<think>", "\n", *(f"w{place} " for place in range(40)), "</think>", "Rome"))
SHORT = FakeRule(match="SHORT", pieces=("<think>", "a ", "b ", "</think>", "Oslo"))
IMPLIED = FakeRule(match="IMPLIED", pieces=("x ",), repeat=True)
SPLIT = FakeRule(match="SPLIT", pieces=("<think>", "a ", "b", "</thi", "nk>", "Bonn"))
NONE = FakeRule(match="NONE", pieces=("Plain", " text"))
OPEN_TEMPLATE = FAKE_TEMPLATE.replace(
    "{{- '<|im_start|>assistant\\n' -}}\n{%- if enable_thinking",
    "{{- '<|im_start|>assistant\\n<think>\\n' -}}\n{%- if false and enable_thinking",
)


@asynccontextmanager
async def thinker(template: str = FAKE_TEMPLATE, **limits: int) -> AsyncIterator[ServedModel]:
    script = FakeScript(
        rules=(FORCED, LONG, SHORT, IMPLIED, SPLIT, NONE), lanes=2, context_length=2048, chat_template=template
    )
    tokenizer = FakeTokenizer(script)
    backend = LocalBackend(lambda: FakeEngine(script), SchedulerLimits(**limits), cache_budget=1 << 20)
    await backend.start()
    try:
        builder = PromptBuilder(tokenizer, template)
        yield ServedModel(card=card_of(script), tokenizer=tokenizer, builder=builder, backend=backend)
    finally:
        await backend.stop()


def asking(text: str, thinking: Thinking, **more: object) -> Request:
    message = Message("user", (TextPart(f"END {text}"),))
    return Request(input=ChatInput(messages=(message,), thinking=thinking), **more)


async def events_of(model: ServedModel, request: Request) -> list[Event]:
    stream = await Generation(WORKERS, AnswerLimits()).open(model, [request])
    return [event async for batch in stream for event in batch]


async def answered(model: ServedModel, request: Request) -> Choice:
    return assemble(await events_of(model, request)).choices[0]


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.005)


@pytest.mark.parametrize("budget", [1, 2, 7, 40])
async def test_a_spent_budget_closes_the_thought(budget: int) -> None:
    async with thinker() as model:
        choice = await answered(model, asking("LONG", Thinking("on", budget=budget)))
        words = ["\n", *(f"w{place} " for place in range(40))][:budget]
        assert choice.text_of("reasoning") == "".join(words).strip()
        assert choice.text_of("text") == "Paris it is"
        assert choice.finish.reason is FinishReason.EOS
        # the opening tag, the thought, the closing bytes and tag, three words and the end token
        closing = len(model.builder.thought_end)
        assert choice.usage.completion_tokens == 1 + budget + closing + 3 + 1
        assert choice.usage.reasoning_tokens == 1 + budget + 2
        assert len(choice.tokens) == choice.usage.completion_tokens
        assert model.tokenizer.decode(choice.tokens[1 + budget : 1 + budget + closing]) == END
        await until(lambda: model.backend.stats().running == 0)


@pytest.mark.parametrize("text", ["SHORT", "SPLIT"])
async def test_a_thought_within_its_budget_is_left_alone(text: str) -> None:
    async with thinker() as model:
        free = await answered(model, asking(text, Thinking("on")))
        bound = await answered(model, asking(text, Thinking("on", budget=2)))
        assert [bound.parts, bound.tokens] == [free.parts, free.tokens]
        assert model.backend.stats().finished == 2


async def test_a_tag_that_has_begun_is_not_cut() -> None:
    async with thinker() as model:
        choice = await answered(model, asking("SPLIT", Thinking("on", budget=3)))
        assert (choice.text_of("reasoning"), choice.text_of("text")) == ("a b", "Bonn")
        choice = await answered(model, asking("SPLIT", Thinking("on", budget=1)))
        assert (choice.text_of("reasoning"), choice.text_of("text")) == ("a", "Paris it is")


async def test_an_implied_opener_counts_from_the_first_token() -> None:
    async with thinker(OPEN_TEMPLATE) as model:
        choice = await answered(model, asking("IMPLIED", Thinking("on", budget=5)))
        assert choice.text_of("reasoning") == "x x x x x"
        assert choice.text_of("text") == "Paris it is"


async def test_off_closes_what_the_template_opens() -> None:
    async with thinker(OPEN_TEMPLATE) as model:
        prompt = model.builder.build(asking("NONE", Thinking("off")).input)
        assert prompt.text.endswith("<think>\n\n</think>\n\n")
        assert not prompt.thinking_open
        assert (await answered(model, asking("NONE", Thinking("off")))).text_of("text") == "Paris it is"


async def test_off_closes_what_the_model_opens_all_the_same() -> None:
    async with thinker(FAKE_TEMPLATE.replace("enable_thinking", "unheard_of")) as model:
        choice = await answered(model, asking("LONG", Thinking("off")))
        assert [part.kind for part in choice.parts if part.text] == ["text"]
        assert choice.text_of("text") == "Paris it is"


async def test_the_limit_is_that_of_the_whole_answer() -> None:
    async with thinker() as model:
        closing = len(model.builder.thought_end)
        choice = await answered(model, asking("LONG", Thinking("on", budget=3), max_tokens=1 + 3 + closing + 2))
        assert choice.text_of("text") == "Paris it"
        assert choice.finish.reason is FinishReason.LENGTH


async def test_no_room_for_an_answer_leaves_the_thought_open() -> None:
    async with thinker() as model:
        closing = len(model.builder.thought_end)
        choice = await answered(model, asking("LONG", Thinking("on", budget=3), max_tokens=1 + 3 + closing))
        assert choice.text_of("text") == ""
        assert choice.finish.reason is FinishReason.LENGTH
        assert choice.usage.completion_tokens == 4 + closing


async def test_stops_logprobs_and_choices() -> None:
    async with thinker() as model:
        request = asking("LONG", Thinking("on", budget=3), stop=(" is",), logprobs=2, n=3)
        answer = assemble(await events_of(model, request))
        assert [choice.text_of("text") for choice in answer.choices] == ["Paris it"] * 3
        assert {choice.finish.stop_match for choice in answer.choices} == {" is"}
        assert [entry.text for entry in answer.choices[0].logprobs][:2] == ["Paris", " it"]


async def test_usage_tells_what_the_first_request_took_from_the_cache() -> None:
    async with thinker() as model:
        request = asking("LONG " + "x" * 100, Thinking("on", budget=3))
        first, second = await answered(model, request), await answered(model, request)
        assert first.usage.cached_tokens == 0
        assert 0 < second.usage.cached_tokens < second.usage.prompt_tokens == first.usage.prompt_tokens


async def test_the_second_request_finds_the_state_of_the_first() -> None:
    async with thinker() as model:
        await answered(model, asking("LONG " + "x" * 100, Thinking("on", budget=3)))
        stats = model.backend.stats()
        closing = len(model.builder.thought_end)
        assert stats.cached_tokens > 100
        assert stats.prompt_tokens < stats.cached_tokens + 2 * closing + 10


async def test_closing_the_stream_cancels_either_request() -> None:
    async with thinker() as model:
        for batches in (2, 8, 12):
            request = asking("IMPLIED", Thinking("on", budget=4))
            stream = await Generation(WORKERS, AnswerLimits()).open(model, [request])
            for _ in range(batches):
                if not await anext(stream, None):
                    break
            await stream.aclose()
            await until(lambda: model.backend.stats().running == model.backend.stats().waiting == 0)


async def test_a_full_queue_does_not_break_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    async with thinker() as model:
        submit, seen = model.backend.submit, []

        async def stingy(request: EngineRequest) -> object:
            seen.append(request)
            if len(seen) in (2, 3):
                raise Overloaded("full")
            return await submit(request)

        monkeypatch.setattr(model.backend, "submit", stingy)
        choice = await answered(model, asking("LONG", Thinking("on", budget=3)))
        assert choice.text_of("text") == "Paris it is"
        assert len(seen) == 4


@pytest.mark.parametrize(
    ("thinking", "budget"),
    [
        (Thinking(), None),
        (Thinking("on"), None),
        (Thinking("on", budget=9), 9),
        (Thinking("off"), 0),
        (Thinking("on", "minimal"), 100),
        (Thinking("on", "low"), 200),
        (Thinking("on", "medium"), 500),
        (Thinking("on", "high"), 800),
        (Thinking("on", "xhigh"), 950),
        (Thinking("on", "max"), None),
        (Thinking("on", "high", 9), 9),
    ],
)
def test_efforts_as_budgets(thinking: Thinking, budget: int | None) -> None:
    assert thinking_budget(Prompt(ids=(1,), thinking=thinking), 1000) == budget


def test_a_large_limit_does_not_make_a_large_share() -> None:
    assert thinking_budget(Prompt(ids=(1,), thinking=Thinking("on", "medium")), 65536) == 8192


def test_seeds_of_continuations() -> None:
    spec = SamplingSpec(seed=7, min_tokens=5, temperature=1.0)
    after = continued_sampling(spec, [1, 2, 3])
    assert after == continued_sampling(spec, [4, 5, 6])
    assert after.seed not in (7, continued_sampling(spec, [1, 2]).seed)
    assert after.min_tokens == 2
    assert msgspec.structs.replace(after, seed=7, min_tokens=5) == spec
    assert continued_sampling(SamplingSpec(), [1]) == SamplingSpec()


async def test_a_closable_thought_is_ended_from_outside_and_only_once() -> None:
    async with thinker() as model:
        request = asking("LONG", Thinking(closable=True))
        stream = await Generation(WORKERS, AnswerLimits()).open(model, [request])
        events: list[Event] = []
        ended: list[bool] = []
        async for batch in stream:
            events += batch
            text = "".join(event.text for event in events if isinstance(event, PartDelta))
            if "w3" in text and len(ended) < 2:
                ended.append(stream.end_thought())
        choice = assemble(events).choices[0]
        assert ended[0] is True
        assert choice.text_of("text") == "Paris it is"
        assert "w20" not in choice.text_of("reasoning")


async def test_a_thought_that_was_not_asked_for_as_closable_goes_on() -> None:
    async with thinker() as model:
        stream = await Generation(WORKERS, AnswerLimits()).open(model, [asking("SHORT", Thinking())])
        ended = [stream.end_thought() async for _ in stream]
        assert not any(ended)
