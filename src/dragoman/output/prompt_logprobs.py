"""Log probabilities of the prompt as clients see them. Knows no part and no stream."""

from __future__ import annotations

from collections.abc import Iterable

from dragoman.core.logprobs import LogprobEntry, TokenLogprob, TokenLogprobs
from dragoman.core.vocabulary import Vocabulary


def prompt_entries(vocabulary: Vocabulary, tokens: Iterable[TokenLogprobs]) -> tuple[LogprobEntry, ...]:
    """One entry a token, special tokens spelled out: all of a prompt's text is the client's own."""
    return tuple(_entry(vocabulary, token.chosen, _rivals(vocabulary, token)) for token in tokens)


def _rivals(vocabulary: Vocabulary, token: TokenLogprobs) -> tuple[LogprobEntry, ...]:
    return tuple(_entry(vocabulary, rival, ()) for rival in token.top)


def unpredicted(vocabulary: Vocabulary, token: int) -> LogprobEntry:
    """The entry of the first prompt token, which nothing predicts; its `logprob` of 0 means nothing."""
    return _entry(vocabulary, TokenLogprob(token, 0.0), ())


def _entry(vocabulary: Vocabulary, token: TokenLogprob, top: tuple[LogprobEntry, ...]) -> LogprobEntry:
    raw = vocabulary.token_bytes(token.id)
    return LogprobEntry(token.id, raw.decode("utf-8", "replace"), raw, vocabulary.piece(token.id), token.logprob, top)
