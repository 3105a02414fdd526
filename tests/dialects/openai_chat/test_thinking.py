"""Thinking on this wire: every spelling of on, off, how much, and whether thoughts are shown; times in the reply."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.core.errors import InvalidField, InvalidRequest
from dragoman.core.events import Finished
from dragoman.core.request import Thinking
from dragoman.core.usage import Timings
from dragoman.dialects.openai_chat.write import ChatReply
from tests.dialects.openai_chat.test_read import chat, request
from tests.dialects.openai_chat.test_write import chunks, folded, thought_only, whole

EFFORTS = ("minimal", "low", "medium", "high", "xhigh", "max")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({}, Thinking()),
        ({"reasoning_effort": "none"}, Thinking("off", "none")),
        *(({"reasoning_effort": effort}, Thinking("on", effort)) for effort in EFFORTS),
        ({"reasoning": {"effort": "low"}}, Thinking("on", "low")),
        ({"reasoning": {"enabled": False}}, Thinking("off")),
        ({"reasoning": {"max_tokens": 7}}, Thinking(budget=7)),
        ({"reasoning_effort": "high", "enable_thinking": False}, Thinking("off", "high")),
        ({"enable_thinking": False, "chat_template_kwargs": {"enable_thinking": True}}, Thinking("on")),
        ({"chat_template_kwargs": {"thinking": True}}, Thinking("on")),
        ({"thinking": {"type": "enabled", "budget_tokens": 9}}, Thinking("on", None, 9)),
        ({"thinking": {"type": "disabled"}}, Thinking("off")),
        ({"thinking": {"type": "auto"}}, Thinking()),
        *(
            ({name: 5}, Thinking(budget=5))
            for name in (
                "thinking_budget",
                "thinking_budget_tokens",
                "thinking_token_budget",
                "reasoning_budget",
                "reasoning_budget_tokens",
            )
        ),
        ({"reasoning_budget": -1}, Thinking()),
        ({"preserve_thinking": True}, Thinking(preserve=True)),
        ({"reasoning_format": "deepseek"}, Thinking()),
        ({"reasoning_format": "none"}, Thinking(inline=True)),
    ],
)
def test_spellings(body: dict[str, Any], expected: Thinking) -> None:
    assert chat(**body).thinking == expected


@pytest.mark.parametrize("body", [{"reasoning_effort": "extreme"}, {"reasoning": {"effort": "extreme"}}])
def test_the_accepted_words_are_told(body: dict[str, Any]) -> None:
    with pytest.raises(InvalidField, match="none, minimal, low, medium, high, xhigh, max"):
        chat(**body)


@pytest.mark.parametrize(
    ("body", "field", "kind"),
    [
        ({"thinking": {"type": "perhaps"}}, "thinking.type", InvalidField),
        ({"reasoning_budget": -2}, "reasoning_budget", InvalidField),
        ({"reasoning_format": "some"}, "reasoning_format", InvalidField),
        ({"hlg": {"width": -1}}, "hlg.width", InvalidField),
        ({"hlg_width": -1}, "hlg_width", InvalidField),
    ],
)
def test_refusals(body: dict[str, Any], field: str, kind: type[InvalidRequest]) -> None:
    with pytest.raises(kind) as caught:
        chat(**body)
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("body", "given"),
    [
        ({}, {}),
        ({"hlg": True}, {"hlg_width": 4.0}),
        ({"hlg": {}}, {"hlg_width": 4.0}),
        ({"hlg": {"enabled": False, "width": 2}}, {}),
        (
            {"hlg": {"enabled": True, "width": 2, "shoulder": 3, "toe": 5, "pivot_offset": 1}},
            {"hlg_width": 2, "hlg_shoulder": 3, "hlg_toe": 5, "hlg_offset": 1},
        ),
        ({"hlg_width": 2, "hlg_pivot_offset": 1.5}, {"hlg_width": 2, "hlg_offset": 1.5}),
        ({"hlg": {"width": 0}, "hlg_width": 2}, {"hlg_width": 0}),
    ],
)
def test_the_hlg_curve(body: dict[str, Any], given: dict[str, float]) -> None:
    found = {name: value for name, value in request(**body).sampling.given().items() if name.startswith("hlg")}
    assert found == given


def test_thoughts_can_be_left_out_of_the_reply() -> None:
    script, reply = thought_only(), ChatReply(thoughts=False)
    assert "reasoning_content" not in whole(script, reply)["choices"][0]["message"]
    assert not [chunk for chunk in chunks(script, reply) if "reasoning_content" in chunk["choices"][0]["delta"]]
    assert folded(chunks(script, ChatReply()))["choices"][0]["message"]["reasoning_content"]


def test_times_where_they_are_asked_for() -> None:
    script = thought_only()
    [last] = [event for event in script.events if isinstance(event, Finished)]
    assert isinstance(last.timings, Timings)
    found = chunks(script, ChatReply(timings=True))
    assert [chunk["timings"]["predicted_n"] for chunk in found if "timings" in chunk] == [last.usage.completion_tokens]
    assert set(whole(script, ChatReply(timings=True))["timings"]) >= {"prompt_ms", "predicted_ms", "queued_ms", "lane"}
    assert "timings" not in whole(script, ChatReply())
    assert not [chunk for chunk in chunks(script, ChatReply()) if "timings" in chunk]
