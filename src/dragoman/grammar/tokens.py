"""Our tokenizers as llguidance wants them. Knows no grammar."""

from __future__ import annotations

from collections.abc import Sequence

from llguidance import LLTokenizer

from dragoman.core.vocabulary import Tokenizer


def ll_tokenizer(tokenizer: Tokenizer) -> LLTokenizer:
    """The tokenizer's trie; takes some tenths of a second. Special tokens and those that end an answer are no text to
    it, as they are none to llama.cpp's."""
    return LLTokenizer(_Bridge(tokenizer), n_vocab=tokenizer.size, eos_token=_ends(tokenizer))  # pyright: ignore[reportArgumentType]


def _ends(tokenizer: Tokenizer) -> list[int]:
    """Tokens that end an answer, the vocabulary's own first."""
    eos = tokenizer.eos_token.encode()
    return sorted(tokenizer.stop_tokens, key=lambda token: (tokenizer.token_bytes(token) != eos, token)) or [0]


class _Bridge:
    """What LLTokenizer asks of a tokenizer. Called from whatever thread compiles or masks."""

    is_tokenizer_wrapper = True
    bos_token_id = None

    def __init__(self, tokenizer: Tokenizer) -> None:
        ids = range(tokenizer.size)
        self._tokenizer = tokenizer
        self.eos_token_id = _ends(tokenizer)[0]
        self.tokens: Sequence[bytes] = [tokenizer.token_bytes(token) for token in ids]
        self.special_token_ids = [t for t in ids if tokenizer.is_special(t) or t in tokenizer.stop_tokens]
        special = frozenset(self.special_token_ids)
        self._ids = {spelled: token for token, spelled in enumerate(self.tokens) if spelled and token not in special}
        self._longest = max((len(spelled) for spelled in self._ids), default=1)

    def __call__(self, text: str | bytes) -> list[int]:
        """Ids whose bytes are exactly the text's. What grammars force is written in them, so a blank that a tokenizer
        puts in front must not be there."""
        wanted = text.encode() if isinstance(text, str) else text
        ids = self._tokenizer.encode(wanted.decode("utf-8", "replace"), add_special=False, parse_special=False)
        if b"".join(self.tokens[token] for token in ids) == wanted:
            return ids
        first = self.tokens[ids[0]] if ids else b""
        rest = b"".join(self.tokens[token] for token in ids[1:])
        if first[:1] == b" " and first[1:] + rest == wanted:
            bare = self._ids.get(first[1:])
            if not first[1:] or bare is not None:
                return ids[1:] if bare is None else [bare, *ids[1:]]
        return self._longest_first(wanted)

    def _longest_first(self, wanted: bytes) -> list[int]:
        ids: list[int] = []
        at = 0
        while at < len(wanted):
            for length in range(min(self._longest, len(wanted) - at), 0, -1):
                token = self._ids.get(wanted[at : at + length])
                if token is not None:
                    ids.append(token)
                    at += length
                    break
            else:
                # A byte no token spells; llguidance then falls back to tokens it can use.
                return ids
        return ids
