"""A vocabulary made of given pieces, and ways to run pieces through the station."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from msgspec import Struct

from dragoman.core.answer import Choice
from dragoman.core.events import Event
from dragoman.core.exchange import EngineFinish, EngineReport, TokenChunk
from dragoman.core.logprobs import TokenLogprob, TokenLogprobs
from dragoman.core.prompt import ReplyFormat
from dragoman.core.tools import Tool
from dragoman.output.assemble import assemble
from dragoman.output.pipeline import ReplyPipeline
from dragoman.output.segments import Segment

EOS = 0
HERMES = ReplyFormat(think_open="<think>", think_close="</think>", tool_family="hermes")
PLAIN = ReplyFormat()
LOOK = Tool("look", parameters={"type": "object", "properties": {"place": {"type": "string"}}})
SAVE = Tool("save", parameters={"type": "object", "properties": {"body": {"type": "string"}}})


class FakeVocabulary:
    """Id 0 is the end token, ids from 1 are the pieces given, in order."""

    def __init__(self, pieces: Iterable[bytes], special: Iterable[int] = ()) -> None:
        self.pieces = [b"<|end|>", *pieces]
        self.special = {EOS, *special}

    @property
    def size(self) -> int:
        return len(self.pieces)

    @property
    def stop_tokens(self) -> frozenset[int]:
        return frozenset({EOS})

    def token_bytes(self, token: int) -> bytes:
        return self.pieces[token] if 0 <= token < len(self.pieces) else b""

    def is_special(self, token: int) -> bool:
        return token in self.special

    def piece(self, token: int) -> str:
        return f"piece{token}"


class Reply(Struct, frozen=True):
    """What a run gave: events, their fold, and how many tokens were fed until it ended."""

    events: tuple[Event, ...]
    choice: Choice
    fed: int

    @property
    def parts(self) -> list[tuple[str, str, str]]:
        return [(part.kind, part.name, part.text) for part in self.choice.parts]


def as_bytes(pieces: Iterable[str | bytes]) -> list[bytes]:
    return [piece.encode() if isinstance(piece, str) else piece for piece in pieces]


def pipeline_for(
    pieces: Sequence[str | bytes],
    *,
    special: Iterable[int] = (),
    format: ReplyFormat = HERMES,
    tools: tuple[Tool, ...] = (),
    stop: tuple[str, ...] = (),
    thinking_open: bool = False,
    parallel_tool_calls: bool = True,
    prefill: str = "",
) -> ReplyPipeline:
    ids = iter(range(1000))
    ticks = iter(range(100000))
    return ReplyPipeline(
        choice=0,
        vocabulary=FakeVocabulary(as_bytes(pieces), special),
        format=format,
        prompt_tokens=7,
        stop=stop,
        thinking_open=thinking_open,
        tools=tools,
        parallel_tool_calls=parallel_tool_calls,
        prefill=prefill,
        clock=lambda: float(next(ticks)),
        new_call_id=lambda: f"call_{next(ids)}",
    )


def chunks_for(count: int, finish: EngineFinish, *, logprobs: bool = False) -> list[TokenChunk]:
    """One chunk a token, then the end: with the end token for EOS, on the last token otherwise."""
    ids = list(range(1, count + 1)) + ([EOS] if finish is EngineFinish.EOS else [])
    report = EngineReport(prompt_tokens=7, cached_tokens=3, completion_tokens=len(ids), prompt_ms=5.0, predicted_ms=9.0)
    chunks: list[TokenChunk] = [
        TokenChunk(
            tokens=(token,),
            logprobs=(chosen(token),) if logprobs else (),
            started=3 if place == 0 else None,
            finish=finish if place == len(ids) - 1 else None,
            report=report if place == len(ids) - 1 else None,
        )
        for place, token in enumerate(ids)
    ]
    return chunks or [TokenChunk(started=3, finish=finish, report=report)]


def chosen(token: int) -> TokenLogprobs:
    rivals = (TokenLogprob(token, -0.5), TokenLogprob(EOS, -1.5))
    return TokenLogprobs(TokenLogprob(token, -0.5), rivals)


def run(
    pieces: Sequence[str | bytes],
    finish: EngineFinish = EngineFinish.EOS,
    *,
    logprobs: bool = False,
    special: Iterable[int] = (),
    format: ReplyFormat = HERMES,
    tools: tuple[Tool, ...] = (),
    stop: tuple[str, ...] = (),
    thinking_open: bool = False,
    parallel_tool_calls: bool = True,
    prefill: str = "",
) -> Reply:
    """Feed the pieces, one token each, as the service does: until the end, or until the pipeline has ended."""
    pipeline = pipeline_for(
        pieces,
        special=special,
        format=format,
        tools=tools,
        stop=stop,
        thinking_open=thinking_open,
        parallel_tool_calls=parallel_tool_calls,
        prefill=prefill,
    )
    events: list[Event] = []
    fed = 0
    for chunk in chunks_for(len(pieces), finish, logprobs=logprobs):
        events += pipeline.feed(chunk)
        fed += len(chunk.tokens)
        if pipeline.ended:
            break
    assert pipeline.ended
    return Reply(tuple(events), assemble(events).choices[0], fed)


def fold(segments: Iterable[Segment]) -> list[tuple[str, str]]:
    """Segments with neighbours of one kind joined; a call carries its name, an end or cut its kind."""
    folded: list[tuple[str, str]] = []
    for segment in segments:
        if folded and folded[-1][0] == segment.kind and segment.kind in ("text", "reasoning", "arguments"):
            folded[-1] = (segment.kind, folded[-1][1] + segment.text)
        else:
            folded.append((segment.kind, segment.text))
    return folded


def cut_at(text: str, places: Iterable[int]) -> list[str]:
    """`text` cut at the given places (taken modulo its length)."""
    marks = sorted({0, len(text), *(place % (len(text) + 1) for place in places)})
    return [text[start:end] for start, end in pairwise(marks)]


def cut_bytes(data: bytes, places: Iterable[int]) -> list[bytes]:
    """`data` cut at the given places, also inside characters."""
    marks = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[start:end] for start, end in pairwise(marks)]
