"""A rule turned into token ids for one prompt: which token comes at which step. Knows no sampling and no clock."""

from __future__ import annotations

import re

from msgspec import Struct

from dragoman.core.logprobs import TokenLogprob, TokenLogprobs
from dragoman.engines.fake.script import FakeRule, Piece, ScriptedPiece
from dragoman.engines.fake.tokenizer import EOS, TURN_END, FakeTokenizer

_LAST_USER_TURN = re.compile(r".*<\|im_start\|>user\n(.*?)(?:<\|im_end\|>|\Z)", re.DOTALL)
_CONTROL_TEXT = re.compile(r"<\|[a-z_]+\|>")
FILLER = ord(".")
"""What is emitted where an answer has nothing to say but may not end."""


class PlannedToken(Struct, frozen=True):
    """One token; `logprobs` and `delay` (seconds) only where the script sets them."""

    token: int
    logprobs: TokenLogprobs | None = None
    delay: float | None = None


class Plan(Struct, frozen=True):
    """The tokens of an answer. `end` follows them for ever; with `repeat` they start over instead."""

    tokens: tuple[PlannedToken, ...]
    end: PlannedToken
    repeat: bool = False

    def at(self, step: int) -> PlannedToken:
        """The token of a step, counted from 0."""
        if step < len(self.tokens):
            return self.tokens[step]
        return self.tokens[step % len(self.tokens)] if self.repeat else self.end


def plan_for(rule: FakeRule, prompt: str, vocabulary: FakeTokenizer) -> Plan | None:
    """The plan of a rule for a prompt text, None where the toy logits decide."""
    if rule.source == "logits":
        return None
    ends = {"eos": vocabulary.special(EOS), "im_end": vocabulary.special(TURN_END), "length": FILLER}
    if rule.source == "echo":
        tokens = tuple(PlannedToken(token) for token in vocabulary.encode(_echo(prompt), **_PLAIN))
    else:
        tokens = tuple(_planned(piece, vocabulary) for piece in rule.pieces)
    return Plan(tokens, PlannedToken(ends[rule.then]), rule.repeat)


_PLAIN = {"add_special": False, "parse_special": False}


def _echo(prompt: str) -> str:
    """The last user turn of a ChatML prompt, else all of the prompt, without control tokens."""
    turn = _LAST_USER_TURN.match(prompt)
    return _CONTROL_TEXT.sub("", turn[1] if turn else prompt).strip()


def _planned(piece: Piece, vocabulary: FakeTokenizer) -> PlannedToken:
    token = vocabulary.token_of(piece)
    if not isinstance(piece, ScriptedPiece):
        return PlannedToken(token)
    return PlannedToken(token, _scripted_logprobs(piece, token, vocabulary), piece.delay)


def _scripted_logprobs(piece: ScriptedPiece, token: int, vocabulary: FakeTokenizer) -> TokenLogprobs | None:
    """Scripted alternatives; the chosen token's own value may come from `logprob` or from its place in `top`."""
    top = tuple(TokenLogprob(vocabulary.token_of(text), logprob) for text, logprob in piece.top)
    own = piece.logprob
    if own is None:
        own = next((entry.logprob for entry in top if entry.id == token), None)
    return None if own is None else TokenLogprobs(TokenLogprob(token, own), top)
