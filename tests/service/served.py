"""A served model on the scripted engine, without HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from dragoman.backend.local import LocalBackend
from dragoman.engines.fake import FakeEngine, FakeRule, FakeScript, FakeTokenizer, card_of
from dragoman.prompt.builder import PromptBuilder
from dragoman.scheduler.limits import SchedulerLimits
from dragoman.service.models import ServedModel

WORDS = FakeRule(match="WORDS", pieces=("one", " two", " three", " four"))
FOREVER = FakeRule(match="FOREVER", pieces=("la ",), repeat=True, delay=0.005)
FAIL = FakeRule(match="FAIL", pieces=("a", "b"), fail_after=1)


@asynccontextmanager
async def scripted(*, lanes: int = 4, waiting: int = 64, **card: object) -> AsyncIterator[ServedModel]:
    """The model; its rules answer to WORDS, FOREVER and FAIL, and other prompts are echoed."""
    script = FakeScript(rules=(WORDS, FOREVER, FAIL), lanes=lanes, context_length=4096)
    tokenizer = FakeTokenizer(script)
    backend = LocalBackend(lambda: FakeEngine(script), SchedulerLimits(max_waiting=waiting))
    await backend.start()
    try:
        yield ServedModel(
            card=msgspec.structs.replace(card_of(script), **card),
            tokenizer=tokenizer,
            builder=PromptBuilder(tokenizer, script.chat_template),
            backend=backend,
        )
    finally:
        await backend.stop()
