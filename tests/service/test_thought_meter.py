"""Thoughts are counted token by token, whatever the tokens hold."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.core.prompt import ReplyFormat
from dragoman.service.thought_meter import ThoughtMeter

TAGS = ReplyFormat(think_open="<think>", think_close="</think>")


class Pieces:
    """A vocabulary whose ids are the places of pieces."""

    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = pieces

    def token_bytes(self, token: int) -> bytes:
        return self._pieces[token]


def metered(*pieces: str | bytes, opened: bool = False) -> ThoughtMeter:
    raw = [piece.encode() if isinstance(piece, str) else piece for piece in pieces]
    meter = ThoughtMeter(TAGS, Pieces(raw), thinking_open=opened)  # type: ignore[arg-type]
    for token in range(len(raw)):
        meter.feed(token)
    return meter


@pytest.mark.parametrize(
    ("pieces", "opened", "count", "thinking"),
    [
        (["<think>", "a", "b"], False, 2, True),
        (["\n", "<th", "ink>", "\n", "a"], False, 2, True),
        (["<think>a", "b"], False, 2, True),
        (["a", "b"], True, 2, True),
        (["a", "b", "</think>", "c", "d"], True, 2, False),
        (["a", "b</thi", "nk>c"], True, 2, False),
        (["Hello", "<think>", "a"], False, 0, False),
        (["<think></think>", "a"], False, 0, False),
    ],
)
def test_counts(pieces: list[str], opened: bool, count: int, thinking: bool) -> None:
    meter = metered(*pieces, opened=opened)
    assert (meter.count, meter.thinking) == (count, thinking)


@pytest.mark.parametrize(
    ("tail", "may_close"),
    [
        (b"word", True),
        ("é".encode()[:1], False),
        ("😀".encode()[:3], False),
        ("😀".encode(), True),
        (b"x</thi", False),
        (b"x<", False),
        (b"\xff", False),
        (b"a\x80\x80\x80\x80", True),
    ],
)
def test_where_a_thought_may_be_closed(tail: bytes, may_close: bool) -> None:
    assert metered(b"so ", tail, opened=True).may_close is may_close


@given(st.lists(st.text(alphabet="ab</think>é", min_size=1, max_size=4), max_size=12))
def test_over_exactly_when_the_tag_is_complete(pieces: list[str]) -> None:
    meter = metered(*pieces, opened=True)
    assert meter.over == ("</think>" in "".join(pieces))
    assert meter.count <= len(pieces)


def test_a_model_that_does_not_think_is_not_metered() -> None:
    assert ThoughtMeter(ReplyFormat(), Pieces([]), thinking_open=False).over  # type: ignore[arg-type]
