"""How the markup of answers is read, by what the request is."""

from __future__ import annotations

import pytest

from dragoman.core.errors import UnsupportedField
from dragoman.core.events import PartDelta, PartStart
from dragoman.core.exchange import EngineFinish, TokenChunk
from dragoman.core.prompt import ReplyFormat
from dragoman.core.request import ChatInput, RawInput, Request, Thinking
from dragoman.engines.fake import FakeScript, FakeTokenizer
from dragoman.output.pipeline import ReplyPipeline
from dragoman.service.markup import format_of, spelled_of

QWEN = ReplyFormat(think_open="<think>", think_close="</think>", tool_family="hermes")
INLINE = Request(input=ChatInput(messages=(), thinking=Thinking(inline=True)))
TEXT = "<think>\nhm\n</think>\n\nOslo"


def read(request: Request) -> list[tuple[str, str]]:
    """Kinds and texts of the parts of one answer."""
    tokenizer = FakeTokenizer(FakeScript(control_tokens=("<think>", "</think>")))
    ids = tuple(tokenizer.encode(TEXT, add_special=False, parse_special=True))
    assert len(ids) < len(TEXT)
    pipeline = ReplyPipeline(
        choice=0,
        vocabulary=tokenizer,
        format=format_of(request, QWEN),
        prompt_tokens=1,
        spelled=spelled_of(request, QWEN),
    )
    events = pipeline.feed(TokenChunk(tokens=ids, started=0, finish=EngineFinish.LENGTH))
    kinds = [event.kind for event in events if isinstance(event, PartStart)]
    texts = ["" for _ in kinds]
    place = -1
    for event in events:
        if isinstance(event, PartStart):
            place += 1
        elif isinstance(event, PartDelta):
            texts[place] += event.text
    return list(zip(kinds, texts, strict=True))


def test_thoughts_stay_in_the_text_as_they_were_written() -> None:
    assert read(INLINE) == [("text", TEXT)]


def test_thoughts_are_a_part_of_their_own_otherwise() -> None:
    assert read(Request(input=ChatInput(messages=()))) == [("reasoning", "hm"), ("text", "Oslo")]


def test_calls_are_read_all_the_same() -> None:
    assert format_of(INLINE, QWEN) == ReplyFormat(tool_family="hermes")


def test_raw_prompts_are_not_interpreted() -> None:
    request = Request(input=RawInput(("x",)), spelled=("<a>",))
    assert (format_of(request, QWEN), spelled_of(request, QWEN)) == (ReplyFormat(), ("<a>",))


def test_thoughts_that_are_messages_cannot_stay() -> None:
    with pytest.raises(UnsupportedField, match="messages of their own") as caught:
        format_of(INLINE, ReplyFormat(tool_family="harmony"))
    assert caught.value.field == "reasoning_format"
