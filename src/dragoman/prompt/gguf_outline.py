"""What a GGUF header says of its tokens, without the rules by which text is cut into them. Reads no file."""

from __future__ import annotations

from dragoman.core.errors import EngineFailure
from dragoman.core.vocabulary import GgufVocabulary
from dragoman.prompt.gguf_types import TokenKind, TokenKinds
from dragoman.prompt.token_table import TokenTable

_SPELLED_OUT = (TokenKind.CONTROL, TokenKind.UNKNOWN, TokenKind.USER_DEFINED)
_SPECIAL = (TokenKind.CONTROL, TokenKind.UNKNOWN)
_USUAL_ENDS = {"t5": (None, 1), "plamo2": (1, 2), "llama": (1, 2), "ugm": (None, 1)}
"""llama.cpp's BOS and EOS where the file names none."""


class GgufOutline(TokenTable):
    """The look-up part of a vocabulary whose tokenizer is somebody else's. `token_bytes` tells special tokens only."""

    def __init__(self, vocabulary: GgufVocabulary) -> None:
        if not vocabulary.tokens:
            raise EngineFailure("This GGUF file has no vocabulary (tokenizer.ggml.tokens).")
        pieces = tuple(text.partition("\0")[0] or f"[EMPTY_{token}]" for token, text in enumerate(vocabulary.tokens))
        kinds = TokenKinds(vocabulary, pieces)
        usual = _USUAL_ENDS.get(vocabulary.model, (None, None))
        bos = _text_of(pieces, usual[0] if vocabulary.bos_id is None else vocabulary.bos_id)
        eos = _text_of(pieces, usual[1] if vocabulary.eos_id is None else vocabulary.eos_id)
        spelled = [
            piece.encode("utf-8", "replace") if kind in _SPELLED_OUT else b""
            for piece, kind in zip(pieces, kinds.kinds, strict=True)
        ]
        super().__init__(pieces, spelled, stop_tokens=kinds.ends, bos=bos, eos=eos)
        self._special = frozenset(token for token, kind in enumerate(kinds.kinds) if kind in _SPECIAL)
        self._whole = {pieces[token]: token for token, kind in enumerate(kinds.kinds) if kind in _SPELLED_OUT}
        self._marked = frozenset(token for token, kind in enumerate(kinds.kinds) if kind is TokenKind.USER_DEFINED)

    def is_special(self, token: int) -> bool:
        """Whether the token is a control token or the unknown token."""
        return token in self._special

    def known(self, text: str, *, add_special: bool, parse_special: bool) -> list[int] | None:
        """Ids of `text` where no rule is needed for them: nothing at all, or the spelling of one special token. None
        for all else."""
        if add_special:
            return None
        if not text:
            return []
        token = self._whole.get(text)
        return [token] if token is not None and (parse_special or token in self._marked) else None


def _text_of(pieces: tuple[str, ...], token: int | None) -> str:
    return pieces[token] if token is not None and 0 <= token < len(pieces) else ""
