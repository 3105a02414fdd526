"""Builds a tokenizer from the vocabulary in a GGUF header. Reads no file.

It gives the ids llama.cpp would give, so that a prompt made here can be sent to it as ids. Sentences below that say
what happens "as in llama.cpp" were checked against build 10622 and the wheel's newer one.
"""

from __future__ import annotations

from msgspec import Struct

from dragoman.core.errors import EngineFailure
from dragoman.core.vocabulary import GgufVocabulary
from dragoman.prompt.byte_level import byte_of_token, bytes_of_piece, is_byte_token
from dragoman.prompt.fragments import (
    FragmentEncoder,
    byte_level_encoder,
    merges_by_score,
    pair_of_merge,
    raw_encoder,
)
from dragoman.prompt.gguf_types import TokenKind, TokenKinds
from dragoman.prompt.pretokenizers import PreTokenizer, known_pre_tokenizers, pre_tokenizer
from dragoman.prompt.special_tokens import Piece, SpecialToken, SpecialTokens
from dragoman.prompt.token_table import TokenTable
from dragoman.prompt.well_formed import well_formed
from dragoman.prompt.wordpiece import WordPieceEncoder

_SPACE = "\u2581"
_SPELLED_OUT = frozenset({TokenKind.CONTROL, TokenKind.UNKNOWN, TokenKind.USER_DEFINED})


class Scheme(Struct, frozen=True, kw_only=True):
    """How one kind of vocabulary is used.

    `spaces_escaped`: spaces are spelled U+2581 in the vocabulary; `space_prefix`: a space is put before plain text at
    the start and after special tokens; `before` and `after` are what the vocabulary adds around a text.
    """

    encoder: FragmentEncoder
    byte_level: bool = False
    spaces_escaped: bool = False
    space_prefix: bool = False
    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()


class GgufTokenizer(TokenTable):
    """A `core.vocabulary.Tokenizer`. Immutable after construction, safe from any thread; stops where llama.cpp does."""

    def __init__(self, vocabulary: GgufVocabulary) -> None:
        pieces = tuple(_spelling(token, text) for token, text in enumerate(vocabulary.tokens))
        kinds = TokenKinds(vocabulary, pieces)
        scheme = _scheme(vocabulary, pieces)
        super().__init__(
            pieces,
            [_spell(piece, kind, scheme) for piece, kind in zip(pieces, kinds.kinds, strict=True)],
            stop_tokens=kinds.ends,
            bos=_text_of(pieces, _bos_id(vocabulary)),
            eos=_text_of(pieces, _eos_id(vocabulary)),
        )
        self._kinds = kinds.kinds
        self._scheme = scheme
        self._special = SpecialTokens(_special_tokens(pieces, kinds.kinds))

    def is_special(self, token: int) -> bool:
        """Whether the token is a control token or the unknown token."""
        return 0 <= token < len(self._kinds) and self._kinds[token] in (TokenKind.CONTROL, TokenKind.UNKNOWN)

    def encode(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        """Ids of `text`; lone surrogates count as U+FFFD."""
        pieces = self._special.split(well_formed(text), parse_special=parse_special)
        plain = self._scheme.encoder.encode(self._plain(pieces)) if pieces else []
        found = iter(plain)
        ids: list[int] = [*self._scheme.before] if add_special else []
        for piece in pieces:
            ids.extend((piece,) if isinstance(piece, int) else next(found))
        if add_special:
            ids.extend(self._scheme.after)
        return ids

    def _plain(self, pieces: list[Piece]) -> list[str]:
        """The plain pieces as the vocabulary spells them."""
        texts: list[str] = []
        after_special = True
        for piece in pieces:
            if isinstance(piece, str):
                text = f" {piece}" if after_special and self._scheme.space_prefix else piece
                texts.append(text.replace(" ", _SPACE) if self._scheme.spaces_escaped else text)
            after_special = isinstance(piece, int)
        return texts


def _spell(piece: str, kind: TokenKind, scheme: Scheme) -> bytes:
    if kind in _SPELLED_OUT:
        return piece.encode("utf-8", "replace")
    if kind is TokenKind.BYTE and is_byte_token(piece):
        return byte_of_token(piece)
    if kind is not TokenKind.NORMAL:
        return b""
    if scheme.byte_level:
        return bytes_of_piece(piece)
    return piece.replace(_SPACE, " ").encode("utf-8", "replace")


def _text_of(pieces: tuple[str, ...], token: int | None) -> str:
    return pieces[token] if token is not None and 0 <= token < len(pieces) else ""


def gguf_tokenizer(vocabulary: GgufVocabulary) -> GgufTokenizer:
    """The tokenizer of a GGUF file. Raises EngineFailure for a kind of vocabulary that is not known here."""
    if not vocabulary.tokens:
        raise EngineFailure("This GGUF file has no vocabulary (tokenizer.ggml.tokens).", remedy=_REMEDY)
    return GgufTokenizer(vocabulary)


_REMEDY = "Serve the safetensors version of the model, or a GGUF file made by a current llama.cpp converter."


def _spelling(token: int, text: str) -> str:
    """llama.cpp reads spellings up to their first NUL, and names those that are then empty."""
    return text.partition("\0")[0] or f"[EMPTY_{token}]"


def _special_tokens(pieces: tuple[str, ...], kinds: tuple[TokenKind, ...]) -> list[SpecialToken]:
    return [
        SpecialToken(token, pieces[token], kind is TokenKind.USER_DEFINED)
        for token, kind in enumerate(kinds)
        if kind in _SPELLED_OUT
    ]


def _scheme(vocabulary: GgufVocabulary, pieces: tuple[str, ...]) -> Scheme:
    if vocabulary.model in ("gpt2", "gemma4"):
        return _merge_scheme(vocabulary, pieces)
    if vocabulary.model == "llama":
        return _sentencepiece_scheme(vocabulary, pieces)
    if vocabulary.model == "bert":
        return _wordpiece_scheme(vocabulary, pieces)
    raise EngineFailure(f"The tokenizer model '{vocabulary.model}' of this GGUF file is not supported.", remedy=_REMEDY)


def _merge_scheme(vocabulary: GgufVocabulary, pieces: tuple[str, ...]) -> Scheme:
    pre = _pre_tokenizer(vocabulary)
    if not vocabulary.merges:
        raise EngineFailure("This GGUF file has no merges (tokenizer.ggml.merges).", remedy=_REMEDY)
    if pre.byte_level:
        encoder = byte_level_encoder(pieces, vocabulary.merges, pre)
    else:
        pairs = [pair_of_merge(merge) for merge in vocabulary.merges]
        encoder = raw_encoder(pieces, pairs, pre.patterns)
    before, after = _around(vocabulary, add_bos=pre.add_bos)
    return Scheme(
        encoder=encoder, byte_level=pre.byte_level, spaces_escaped=not pre.byte_level, before=before, after=after
    )


def _pre_tokenizer(vocabulary: GgufVocabulary) -> PreTokenizer:
    name = "gemma4" if vocabulary.model == "gemma4" else vocabulary.pre
    found = pre_tokenizer(name)
    if found is None:
        known = ", ".join(known_pre_tokenizers())
        raise EngineFailure(
            f"The pre-tokenizer '{name}' of this GGUF file (tokenizer.ggml.pre) is not supported.",
            remedy=f"{_REMEDY} Supported are: {known}.",
        )
    return found


def _sentencepiece_scheme(vocabulary: GgufVocabulary, pieces: tuple[str, ...]) -> Scheme:
    scores = vocabulary.scores or [0.0] * len(pieces)
    if len(scores) != len(pieces):
        raise EngineFailure("This GGUF file has not one score for each token (tokenizer.ggml.scores).", remedy=_REMEDY)
    before, after = _around(vocabulary, add_bos=True)
    return Scheme(
        encoder=raw_encoder(pieces, merges_by_score(pieces, scores)),
        spaces_escaped=True,
        space_prefix=vocabulary.add_space_prefix is not False,
        before=before,
        after=after,
    )


def _wordpiece_scheme(vocabulary: GgufVocabulary, pieces: tuple[str, ...]) -> Scheme:
    """BERT texts stand between CLS and SEP, whatever the flags say, as in llama.cpp."""
    ids = {text: token for token, text in enumerate(pieces)}
    unknown = vocabulary.unk_id if vocabulary.unk_id is not None else ids.get("[UNK]", 100)
    separator = ids.get("[SEP]", 102)
    first = _bos_id(vocabulary)
    return Scheme(
        encoder=WordPieceEncoder(pieces, unknown),
        spaces_escaped=False,
        before=() if first is None else (first,),
        after=(separator,) if separator < len(pieces) else (),
    )


def _around(vocabulary: GgufVocabulary, *, add_bos: bool) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """What is put before and after a text. `add_bos` is the default of this kind of vocabulary."""
    bos, eos = _bos_id(vocabulary), _eos_id(vocabulary)
    wanted = add_bos if vocabulary.add_bos is None else vocabulary.add_bos
    before = (bos,) if wanted and bos is not None else ()
    after = (eos,) if vocabulary.add_eos and eos is not None else ()
    return before, after


def _bos_id(vocabulary: GgufVocabulary) -> int | None:
    return _inside(vocabulary, vocabulary.bos_id, {"llama": 1, "bert": 101})


def _eos_id(vocabulary: GgufVocabulary) -> int | None:
    return _inside(vocabulary, vocabulary.eos_id, {"llama": 2})


def _inside(vocabulary: GgufVocabulary, given: int | None, defaults: dict[str, int]) -> int | None:
    """The id the file names, else the default of its kind; None where neither is in the vocabulary.

    llama.cpp's default for gpt2 vocabularies is 11, a token of Falcon's; elsewhere it is an ordinary word, which must
    neither start a prompt nor end an answer, so it is not taken over.
    """
    size = len(vocabulary.tokens)
    if given is not None and 0 <= given < size:
        return given
    default = defaults.get(vocabulary.model)
    return default if default is not None and default < size else None
