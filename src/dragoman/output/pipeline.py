"""Engine chunks of one choice to canonical events. Knows no engine and no wire; runs on the event loop, no waiting.

Rules of an answer:

- Stop strings are looked for in the visible text of one part at a time, not in thoughts or call arguments. A match ends
  the answer: the text from the match on and all later tokens are dropped, the matching token still counts.
- Rules about lines (see `line_rules`) are looked at after stop strings; they end the answer as a limit does.
- When only one call is wanted, the answer ends where a second one begins.
- A limit that ended the answer is the reason, whatever else it holds. Otherwise a complete call makes it TOOL_CALLS. A
  call that was cut is a part like any other, with the beginning of its arguments; it never makes TOOL_CALLS by itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from dragoman.core.errors import DragomanError, EngineFailure
from dragoman.core.events import Event, Failed, Finished, Logprobs, PromptLogprobs, PromptProgress, Started
from dragoman.core.exchange import EngineFinish, EngineReport, Progress, TokenChunk
from dragoman.core.finish import Finish, FinishReason
from dragoman.core.ids import new_id
from dragoman.core.logprobs import LogprobEntry, TokenLogprobs
from dragoman.core.prompt import ReplyFormat
from dragoman.core.tools import Tool
from dragoman.core.usage import Timings, Usage
from dragoman.core.vocabulary import Vocabulary
from dragoman.output.detokenise import Detokeniser
from dragoman.output.line_rules import LineRules
from dragoman.output.logprob_ledger import LogprobLedger
from dragoman.output.part_log import PartLog
from dragoman.output.prompt_logprobs import prompt_entries, unpredicted
from dragoman.output.segments import Segment
from dragoman.output.splitting import markers, open_splitter
from dragoman.output.stops import StopMatcher

_LIMITS = {
    EngineFinish.LENGTH: FinishReason.LENGTH,
    EngineFinish.CONTEXT: FinishReason.CONTEXT,
}


class ReplyPipeline:
    """Feeds on one choice's chunks and gives its events, Started to Finished.

    Every sampled id appears in one PartDelta, that of its arrival; ids that end inside a character wait for the one
    that completes it. `clock` gives seconds; it is read only for timings the engine does not report.
    """

    def __init__(
        self,
        *,
        choice: int,
        vocabulary: Vocabulary,
        format: ReplyFormat,
        prompt_tokens: int,
        stop: tuple[str, ...] = (),
        thinking_open: bool = False,
        tools: tuple[Tool, ...] = (),
        parallel_tool_calls: bool = True,
        prefill: str = "",
        first_token: int | None = None,
        spelled: tuple[str, ...] = (),
        lines: LineRules | None = None,
        clock: Callable[[], float] = time.perf_counter,
        new_call_id: Callable[[], str] = lambda: new_id("call_"),
    ) -> None:
        self._choice = choice
        self._vocabulary = vocabulary
        self._prompt_tokens = prompt_tokens
        self._first_token = first_token
        self._parallel = parallel_tool_calls
        self._clock = clock
        self._detokeniser = Detokeniser(vocabulary, (*markers(format), *spelled))
        self._splitter = open_splitter(format, tools, thinking_open=thinking_open, prefill=prefill)
        self._stops = StopMatcher(stop) if stop else None
        self._lines = lines
        self._line_over = False
        self._kept: int | None = None
        self._parts = PartLog(choice, new_call_id)
        self._ledger: LogprobLedger | None = None
        self._carried: list[int] = []
        self._at = 0
        self._visible_at = 0
        self._cached: int | None = None
        self._completion = 0
        self._reasoning = 0
        self._calls_begun = 0
        self._calls_complete = 0
        self._stop_match: str | None = None
        self._over = False
        self._ended = False
        self._since = clock()
        self._first_at: float | None = None

    @property
    def ended(self) -> bool:
        """Whether Finished or Failed is out. When no chunk had `finish` yet, the engine must be cancelled."""
        return self._ended

    @property
    def repairs(self) -> tuple[str, ...]:
        """What had to be mended in tool calls so far, by rung; `raw` for markup that was given out as text."""
        return tuple(self._splitter.repairs)

    def feed(self, chunk: TokenChunk) -> list[Event]:
        """The events of one chunk; none after the end."""
        if self._ended:
            return []
        if self._cached is None:
            self._start(chunk)
        if chunk.progress is not None:
            self._progress(chunk.progress)
        if chunk.prompt_logprobs:
            self._prompt_logprobs(chunk.prompt_logprobs)
        if chunk.tokens:
            self._tokens(chunk)
        if self._over or chunk.finish is not None:
            self._finish(chunk.finish, chunk.report)
        events, self._parts.events = self._parts.events, []
        return events

    def fail(self, error: DragomanError) -> list[Event]:
        """The engine broke off: the answer ends with `error`. Nothing when it has ended already."""
        if self._ended:
            return []
        self._ended = True
        return [Failed(self._choice, error)]

    def _start(self, chunk: TokenChunk) -> None:
        known = chunk.progress.cached if chunk.progress is not None else 0
        self._cached = known if chunk.started is None else chunk.started
        self._parts.events.append(Started(self._choice, self._prompt_tokens, self._cached))

    def _progress(self, progress: Progress) -> None:
        if self._first_at is None:
            self._since = self._clock() - progress.ms / 1000
        self._parts.events.append(
            PromptProgress(self._choice, progress.total, progress.cached, progress.processed, progress.ms)
        )

    def _prompt_logprobs(self, tokens: Sequence[TokenLogprobs]) -> None:
        first, self._first_token = self._first_token, None
        head = None if first is None else unpredicted(self._vocabulary, first)
        self._parts.events.append(PromptLogprobs(self._choice, prompt_entries(self._vocabulary, tokens), head))

    def _tokens(self, chunk: TokenChunk) -> None:
        if self._first_at is None:
            self._first_at = self._clock()
        tokens = chunk.tokens
        end_token = len(tokens) - 1 if chunk.finish is EngineFinish.EOS else -1
        for place, token in enumerate(tokens):
            if place == end_token:
                self._end_token(token)
            else:
                self._token(token, chunk.logprobs[place : place + 1])
            if self._over:
                return

    def _token(self, token: int, logprobs: Sequence[TokenLogprobs]) -> None:
        self._completion += 1
        text = self._detokeniser.feed(token)
        incomplete = self._detokeniser.incomplete
        if logprobs:
            self._record(logprobs, text, whole=not incomplete)
        if not self._carried and not incomplete:
            self._step(text, (token,))
            return
        if text and incomplete:
            # This id completes the character before it and begins another, which it waits for.
            self._step_carried(text)
        self._carried.append(token)
        if not incomplete:
            self._step_carried(text)

    def _end_token(self, token: int) -> None:
        """The id that ended the answer: it counts, but has no text."""
        self._flush_character()
        if not self._over:
            self._completion += 1
            self._step("", (token,))

    def _flush_character(self) -> None:
        """The answer ends inside a character, or not."""
        if self._carried:
            text = self._detokeniser.flush()
            if self._ledger is not None:
                self._record((), text, whole=True)
            self._step_carried(text)

    def _step_carried(self, text: str) -> None:
        tokens = tuple(self._carried)
        self._carried.clear()
        self._step(text, tokens)

    def _step(self, text: str, tokens: tuple[int, ...]) -> None:
        """`tokens` together made `text`: one delta accounts for them."""
        self._parts.tokens = tokens
        if text:
            at = self._at
            self._at = at + len(text)
            if self._splitter.plain:
                self._text(text, at)
            else:
                self._split(text)
        self._parts.settle()

    def _record(self, logprobs: Sequence[TokenLogprobs], text: str, *, whole: bool) -> None:
        if self._ledger is None:
            self._ledger = LogprobLedger(self._vocabulary, self._detokeniser.bytes_of)
        if text or not whole:
            self._ledger.add(logprobs, text, self._at, whole=whole)

    def _split(self, text: str) -> None:
        thinking = self._splitter.thinking
        segments = self._splitter.feed(text)
        # Thoughts come first, so all tokens up to the one that closes them are theirs.
        if thinking or self._splitter.thinking or (segments and segments[0].kind == "reasoning"):
            self._reasoning = self._completion
        self._segments(segments)

    def _segments(self, segments: Sequence[Segment]) -> None:
        for segment in segments:
            match segment.kind:
                case "text":
                    self._text(segment.text, segment.at)
                case "reasoning":
                    self._parts.add("reasoning", segment.text)
                case "call":
                    self._begin_call(segment.text)
                case "arguments":
                    self._parts.add("tool_call", segment.text)
                case "end" | "cut":
                    self._calls_complete += segment.kind == "end" and self._parts.kind == "tool_call"
                    self._parts.close()
            if self._over:
                return

    def _text(self, text: str, at: int) -> None:
        stops = self._stops
        if stops is None:
            self._visible_at = at
            self._show(text)
            self._check_lines(text, text)
            return
        if not stops.held:
            self._visible_at = at
        released, match = stops.feed(text)
        self._show_until(released, match)
        self._check_lines(text, released)

    def _check_lines(self, text: str, sent: str) -> None:
        if self._lines is None:
            return
        elapsed = self._clock() - (self._first_at or 0.0)
        over, self._kept = self._lines.feed(text, sent, elapsed * 1000)
        if over:
            self._over = self._line_over = True

    def _show_until(self, released: str, match: str | None) -> None:
        if released:
            self._show(released)
        if match is not None:
            self._stop_match = match
            self._over = True

    def _show(self, text: str) -> None:
        self._parts.add("text", text)
        if self._ledger is not None:
            start = self._visible_at
            self._visible_at = start + len(text)
            self._report(self._ledger.deliver(start, self._visible_at))

    def _report(self, entries: tuple[LogprobEntry, ...]) -> None:
        if entries:
            self._parts.events.append(Logprobs(self._choice, entries))

    def _begin_call(self, name: str) -> None:
        self._end_text()
        if self._over:
            return
        if self._calls_begun and not self._parallel:
            self._over = True
            return
        self._calls_begun += 1
        self._parts.open("tool_call", name)

    def _end_text(self) -> None:
        """No more text for the open part: what the stop strings or the ledger hold is due."""
        if self._stops is not None:
            self._show_until(*self._stops.flush())
        if self._ledger is not None:
            self._report(self._ledger.close(final=False))

    def _finish(self, finish: EngineFinish | None, report: EngineReport | None) -> None:
        self._ended = True
        if finish is EngineFinish.CANCELLED and not self._over:
            error = EngineFailure("The engine dropped this request before its answer was complete.")
            self._parts.events.append(Failed(self._choice, error))
            return
        if not self._over:
            self._drain(cut=finish not in (EngineFinish.EOS, EngineFinish.COMPLETE))
        self._parts.tokens = tuple(self._carried)
        self._parts.settle()
        if self._ledger is not None:
            self._report(self._ledger.close(final=True))
        self._parts.close()
        slot = report.slot if report is not None else 0
        why, usage, timings = self._why(finish), self._usage(report), self._timings(report)
        held = report.held if report is not None else None
        self._parts.events.append(Finished(self._choice, why, usage, timings, slot, self.repairs, self._kept, held))

    def _drain(self, *, cut: bool) -> None:
        self._flush_character()
        if self._splitter.thinking:
            self._reasoning = self._completion
        if not self._over:
            self._segments(self._splitter.flush(cut=cut))
        if not self._over:
            self._end_text()

    def _why(self, finish: EngineFinish | None) -> Finish:
        if not self._over and finish in (EngineFinish.LENGTH, EngineFinish.CONTEXT):
            return Finish(_LIMITS[finish])
        if self._line_over:
            return Finish(FinishReason.LENGTH)
        if self._calls_complete:
            return Finish(FinishReason.TOOL_CALLS)
        if self._stop_match is not None:
            return Finish(FinishReason.STOP, self._stop_match)
        return Finish(FinishReason.EOS)

    def _usage(self, report: EngineReport | None) -> Usage:
        cached = report.cached_tokens if report is not None else self._cached or 0
        return Usage(self._prompt_tokens, self._completion, cached, self._reasoning)

    def _timings(self, report: EngineReport | None) -> Timings:
        if report is not None:
            return Timings(
                report.prompt_ms, report.predicted_ms, report.queued_ms, report.lane, report.drafted, report.accepted
            )
        now = self._clock()
        first = now if self._first_at is None else self._first_at
        return Timings((first - self._since) * 1000, (now - first) * 1000)
