"""The generation use case: requests in, a running stream of events out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from concurrent.futures import Executor

from dragoman.core.errors import InvalidRequest
from dragoman.core.events import Event, Finished, Started
from dragoman.core.finish import Finish, FinishReason
from dragoman.core.request import ChatInput, Request
from dragoman.core.usage import Usage
from dragoman.output.line_rules import LineRules
from dragoman.output.pipeline import ReplyPipeline
from dragoman.service.budget import submit
from dragoman.service.models import ServedModel
from dragoman.service.prepare import AnswerLimits, Prepared, prepare
from dragoman.service.stream import ChoiceRun, EventStream, MergedRuns


class Generation:
    """Starts generations on served models. `workers` run rendering and tokenising off the event loop."""

    def __init__(self, workers: Executor, limits: AnswerLimits) -> None:
        self._workers = workers
        self._limits = limits

    async def prepare(self, model: ServedModel, request: Request) -> Prepared:
        """Check, render and tokenise one request. Raises InvalidRequest and its kin."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._workers, prepare, model, request, self._limits)

    async def open(self, model: ServedModel, requests: Sequence[Request]) -> EventStream:
        """Start answering. All requests are checked, and the first choice is queued, before this returns, so that
        refusals are raised here and not told in the stream."""
        if not requests:
            raise InvalidRequest("The request has no prompt.", field="prompt")
        prepared = [await self.prepare(model, request) for request in requests]
        answers = [(work, answer) for work in prepared for answer in range(work.request.n)]

        async def start(choice: int) -> ChoiceRun | EmptyRun:
            work, answer = answers[choice]
            return await _start(model, work, choice, answer)

        first = await start(0)
        unenforced = next((work.unenforced for work in prepared if work.unenforced), "")
        in_force = tuple(work.in_force for work in prepared)
        if len(answers) == 1:
            return EventStream(first, 1, unenforced, in_force)
        lanes = model.backend.capabilities.lanes
        return EventStream(MergedRuns(first, start, len(answers), lanes), len(answers), unenforced, in_force)


class EmptyRun:
    """The answer to a prompt without a single token: nothing can be predicted from nothing."""

    def __init__(self, choice: int) -> None:
        self._choice = choice

    async def batches(self) -> AsyncGenerator[list[Event]]:
        """Start and end at once."""
        yield [Started(self._choice, 0), Finished(self._choice, Finish(FinishReason.NONE), Usage())]

    def end_thought(self) -> bool:
        """It has none."""
        return False

    async def close(self) -> None:
        """Nothing runs, so nothing is cancelled."""


async def _start(model: ServedModel, work: Prepared, choice: int, answer: int) -> ChoiceRun | EmptyRun:
    if not work.prompt.ids:
        return EmptyRun(choice)
    stop_tokens = frozenset[int]() if work.sampling.ignore_eos else model.tokenizer.stop_tokens
    request = work.engine_request(answer, stop_tokens)
    tokens = await submit(model, request, work.closing, thinking_open=work.prompt.thinking_open)
    return ChoiceRun(tokens, _pipeline(model, work, choice), work.prompt_text, work.contract, model.tokenizer)


def _pipeline(model: ServedModel, work: Prepared, choice: int) -> ReplyPipeline:
    chat = work.request.input
    tools = chat.tools if isinstance(chat, ChatInput) and chat.tool_choice.mode != "none" else ()
    return ReplyPipeline(
        choice=choice,
        vocabulary=model.tokenizer,
        format=work.format,
        prompt_tokens=len(work.prompt.ids),
        stop=work.request.stop,
        thinking_open=work.prompt.thinking_open,
        tools=tools,
        parallel_tool_calls=not isinstance(chat, ChatInput) or chat.parallel_tool_calls,
        prefill=work.prompt.prefill,
        first_token=work.prompt.ids[0],
        spelled=work.spelled,
        lines=_lines(work.request),
    )


def _lines(request: Request) -> LineRules | None:
    return LineRules(request.indent, request.line_ms) if request.indent or request.line_ms else None
