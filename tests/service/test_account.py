"""What is added to the first and the last event: the prompt's text, the lane, and why a prefix was missed."""

from __future__ import annotations

import pytest

from dragoman.core.events import Finished, Started
from dragoman.core.request import RawInput, Request
from dragoman.service.generate import Generation
from dragoman.service.models import ServedModel
from dragoman.service.prepare import AnswerLimits
from tests.service.test_budget import WORKERS, thinker

pytestmark = pytest.mark.anyio

LINE = "All work and no play makes a prompt long enough to be worth keeping for the next one. "


async def ends(model: ServedModel, text: str, **more: object) -> tuple[Started, Finished]:
    request = Request(input=RawInput((text,)), max_tokens=3, **more)
    stream = await Generation(WORKERS, AnswerLimits()).open(model, [request])
    events = [event async for batch in stream for event in batch]
    first, last = events[0], events[-1]
    assert isinstance(first, Started)
    assert isinstance(last, Finished)
    return first, last


async def test_why_a_prefix_was_missed() -> None:
    async with thinker() as model:
        first, _ = await ends(model, LINE + "One.")
        assert first.miss is not None
        assert first.miss.reason == "empty"
        again, _ = await ends(model, LINE + "Two." + LINE)
        miss = again.miss
        assert again.cached_tokens == len(LINE) + 1
        assert miss is not None
        assert (miss.reason, miss.shared) == ("diverged", len(LINE) + 1)
        assert (miss.kept_text, miss.asked_text) == ("O", "T")


async def test_a_conversation_that_goes_on_has_missed_nothing() -> None:
    async with thinker() as model:
        await ends(model, LINE)
        following, _ = await ends(model, LINE + "END NONE " + LINE)
        assert following.miss is None or following.miss.shared >= len(LINE)
        assert (await ends(model, "short"))[0].miss is None


@pytest.mark.parametrize("more", [{}, {"stop": ("l",)}])
async def test_the_lane_is_told_however_the_answer_ends(more: dict) -> None:
    async with thinker() as model:
        _, last = await ends(model, LINE, **more)
        assert last.timings.lane == "batched"
