"""How much of a prompt the next turn of the conversation will still share. Knows no template."""

from __future__ import annotations

from collections.abc import Sequence

from dragoman.core.vocabulary import Tokenizer

_MOST_STEPS = 2048
_LOOK_AHEAD = 64
_OTHER_ANSWERS = ("\n\nx", " x", "x", "1", "  x", "\tx", "#", "`")
"""Beginnings of answers that may melt into one token with what stands before them."""


def shared_tokens(ids: Sequence[int], text: str, longer: str, tokenizer: Tokenizer) -> int | None:
    """Leading ids of the prompt `text` that a tokenisation of `longer` would have too; None when it is not known.

    Only the piece from the last special token before the texts part is tokenised again: special tokens divide the text,
    so what is before them does not change.
    """
    shared = shared_length(text, longer)
    start = _divide(ids, text, shared, tokenizer)
    if start is None:
        return None
    index, place = start
    # Where the texts part the next answer begins, which may begin otherwise than the one at hand.
    beginnings = [longer[place : shared + _LOOK_AHEAD], *(longer[place:shared] + other for other in _OTHER_ANSWERS)]
    return index + min(_common(ids[index:], _encode(tokenizer, beginning)) for beginning in beginnings)


def _encode(tokenizer: Tokenizer, text: str) -> Sequence[int]:
    return tokenizer.encode(text, add_special=False, parse_special=True)


def shared_length(first: str, second: str) -> int:
    """Characters both texts begin with, found by halving: prompts are long, and slices compare fast."""
    low, high = 0, min(len(first), len(second))
    while low < high:
        middle = (low + high + 1) // 2
        if first[low:middle] == second[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _divide(ids: Sequence[int], text: str, shared: int, tokenizer: Tokenizer) -> tuple[int, int] | None:
    """Index and character position of the last special token that starts within the shared text. None when it is far
    away, or ids and text do not match (vocabularies that add spaces)."""
    tail = b""
    place = len(text)
    for index in range(len(ids) - 1, max(-1, len(ids) - 1 - _MOST_STEPS), -1):
        tail = tokenizer.token_bytes(ids[index]) + tail
        if not tokenizer.is_special(ids[index]):
            continue
        piece = tail.decode("utf-8", "replace")
        place -= len(piece)
        if place < 0 or not text.startswith(piece, place):
            return None
        if place <= shared:
            return index, place
        tail = b""
    return None


def _common(first: Sequence[int], second: Sequence[int]) -> int:
    count = 0
    for left, right in zip(first, second, strict=False):
        if left != right:
            break
        count += 1
    return count
