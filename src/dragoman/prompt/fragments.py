"""Tokenises plain text between special tokens, with the `tokenizers` library. Knows no special token and no flag."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, cast

from tokenizers import Regex, Tokenizer
from tokenizers import models as token_models
from tokenizers import pre_tokenizers as splitters

from dragoman.prompt.byte_level import CHARACTER_OF_BYTE, is_byte_token
from dragoman.prompt.pretokenizers import PreTokenizer
from dragoman.prompt.raw_tokenizer import RawTokenizer


class FragmentEncoder(Protocol):
    """Turns plain pieces of text into ids."""

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of each piece, in order. `texts` are not empty."""
        ...


class MergeEncoder:
    """Byte pair encoding by ranked merges."""

    def __init__(self, tokenizer: RawTokenizer, size: int) -> None:
        self._tokenizer = tokenizer
        self._size = size

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of each piece; characters the vocabulary cannot spell are left out, as llama.cpp does."""
        encodings = self._tokenizer.encode_batch_fast(texts, add_special_tokens=False)
        return [self._within(encoding.ids) for encoding in encodings]

    def _within(self, ids: list[int]) -> list[int]:
        return ids if not ids or max(ids) < self._size else [token for token in ids if token < self._size]


def byte_level_encoder(tokens: Sequence[str], merges: Iterable[str], pre: PreTokenizer) -> MergeEncoder:
    """GPT-2 style: words by regex, bytes as characters, then merges. Bytes without a token get ids beyond the
    vocabulary, so that they still stand between their neighbours while these merge."""
    vocabulary = _ids_of(tokens)
    beyond = len(tokens)
    for character in CHARACTER_OF_BYTE.values():
        if character not in vocabulary:
            vocabulary[character] = beyond
            beyond += 1
    model = token_models.BPE(vocab=vocabulary, merges=_usable(merges, vocabulary), ignore_merges=pre.ignore_merges)
    steps = [_splitter(pattern) for pattern in pre.patterns]
    steps.append(splitters.ByteLevel(add_prefix_space=False, use_regex=False))
    return _encoder(model, splitters.Sequence(steps), len(tokens))


def raw_encoder(tokens: Sequence[str], merges: list[tuple[str, str]], patterns: Sequence[str] = ()) -> MergeEncoder:
    """SentencePiece style: merges over raw characters, unknown characters as byte fallback tokens."""
    model = token_models.BPE(vocab=_ids_of(tokens), merges=merges, byte_fallback=True)
    return _encoder(model, splitters.Sequence([_splitter(pattern) for pattern in patterns]), len(tokens))


def _encoder(model: object, pre_tokenizer: object, size: int) -> MergeEncoder:
    tokenizer = cast("RawTokenizer", Tokenizer(cast("token_models.Model", model)))
    tokenizer.pre_tokenizer = pre_tokenizer
    return MergeEncoder(tokenizer, size)


def _splitter(pattern: str) -> splitters.PreTokenizer:
    return splitters.Split(Regex(pattern), behavior="isolated")  # pyright: ignore


def _ids_of(tokens: Sequence[str]) -> dict[str, int]:
    vocabulary: dict[str, int] = {}
    for token, text in enumerate(tokens):
        vocabulary.setdefault(text, token)
    return vocabulary


def pair_of_merge(merge: str) -> tuple[str, str]:
    """The two sides of a 'left right' line; the space that divides them is never the first character."""
    cut = merge.find(" ", 1)
    return (merge[:cut], merge[cut + 1 :]) if cut > 0 else ("", "")


def _usable(merges: Iterable[str], vocabulary: dict[str, int]) -> list[tuple[str, str]]:
    """Merges whose sides and result are tokens; others cannot be expressed, and cannot matter in a sound vocabulary."""
    pairs = [pair_of_merge(merge) for merge in merges]
    return [pair for pair in pairs if pair[0] in vocabulary and pair[1] in vocabulary and "".join(pair) in vocabulary]


def merges_by_score(tokens: Sequence[str], scores: Sequence[float]) -> list[tuple[str, str]]:
    """SentencePiece scores as ranked merges: every way to make a token of two tokens, best score first.

    Byte fallback tokens are no side of a merge: the text they spell is not the text they stand for.
    """
    usable = {text for text in tokens if not is_byte_token(text)}
    scored = [
        (-score, text[:cut], text[cut:])
        for text, score in zip(tokens, scores, strict=True)
        for cut in range(1, len(text))
        if text[:cut] in usable and text[cut:] in usable
    ]
    scored.sort(key=lambda entry: entry[0])
    return [(left, right) for _, left, right in scored]
