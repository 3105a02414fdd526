"""Rules that end an answer at a line, token by token as llama-server looks at them."""

from __future__ import annotations

import pytest

from dragoman.core.events import Finished, PartDelta
from dragoman.core.exchange import EngineFinish, TokenChunk
from dragoman.core.finish import FinishReason
from dragoman.core.prompt import ReplyFormat
from dragoman.engines.fake import FakeTokenizer
from dragoman.output.line_rules import LineRules
from dragoman.output.pipeline import ReplyPipeline


def run(pieces: list[str], *, indent: int = 0, milliseconds: int = 0, elapsed: float = 0.0) -> tuple[int, int | None]:
    """After how many pieces the answer ends (0: never), and what of its text is kept."""
    rules = LineRules(indent, milliseconds)
    for count, piece in enumerate(pieces, 1):
        over, kept = rules.feed(piece, piece, elapsed)
        if over:
            return count, kept
    return 0, None


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        (["```", "\n", "\n", "This"], (4, 4)),  # as recorded: an empty line is too little, seen at the next token
        (["a", "\n", "    b", "\n", "    c", "d"], (0, None)),
        (["a", "\n", "    b", "\n", "  c", "d"], (5, 10)),
        (["a", "\n", "\t\t\t\tb", "c"], (0, None)),
        (["a\n  b"], (0, None)),
        (["no line end", " at all"], (0, None)),
    ],
)
def test_too_little_indentation_cuts_the_line(pieces: list[str], expected: tuple[int, int | None]) -> None:
    assert run(pieces, indent=4) == expected


def test_no_rule_no_end() -> None:
    assert run(["a", "\n", "b", "\n", "c"]) == (0, None)


def test_time_is_looked_at_when_a_line_ends() -> None:
    assert run(["a", "b", "\n", "c"], milliseconds=5, elapsed=5.1) == (3, None)
    assert run(["a", "b", "\n", "c"], milliseconds=5, elapsed=4.9) == (0, None)
    assert run(["a", "b", "c"], milliseconds=5, elapsed=100.0) == (0, None)


def test_the_answer_ends_as_at_a_limit_and_says_what_is_kept() -> None:
    tokenizer = FakeTokenizer()
    pipeline = ReplyPipeline(
        choice=0, vocabulary=tokenizer, format=ReplyFormat(), prompt_tokens=3, lines=LineRules(2, 0)
    )
    events = []
    for place, char in enumerate("a\n\nbc"):
        finish = EngineFinish.EOS if place == 4 else None
        events += pipeline.feed(TokenChunk(tokens=(ord(char),), started=0 if place == 0 else None, finish=finish))
    assert "".join(event.text for event in events if isinstance(event, PartDelta)) == "a\n\nb"
    finished = events[-1]
    assert isinstance(finished, Finished)
    assert (finished.finish.reason, finished.kept, finished.usage.completion_tokens) == (FinishReason.LENGTH, 2, 4)
