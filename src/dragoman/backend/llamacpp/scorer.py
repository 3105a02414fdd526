"""Log probabilities that llama.cpp's wire does not give with an answer, asked for one token at a time. Knows the native
wire's questions; knows no connection and no stream.

The wire has no log probabilities of a prompt. The token after each of its beginnings is asked for, by a grammar of that
one token; each question costs the engine one more token of the prompt. Tokens that are no whole character, or end
answers, are looked for among the likeliest, and so are sampled tokens whose text llama.cpp withheld.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from dragoman.backend.llamacpp.wire import MINUS_INFINITY, Frame, Work, logprobs_of
from dragoman.core.errors import EngineFailure
from dragoman.core.logprobs import TokenLogprob, TokenLogprobs

_TOGETHER = 16
"""Prompt tokens whose log probabilities are told together."""
_PROBED = 256
"""Alternatives asked for when one token's log probability is wanted; the whole vocabulary only if that is too few."""

Ask = Callable[[bytes], Awaitable[Frame]]


class Scorer:
    """The questions of one answer. `ask` sends a body and gives the frame it is answered with, `size` is that of the
    vocabulary; `forces` tells that the engine takes a grammar of one token. Any call may be cancelled and repeated;
    nothing is lost."""

    def __init__(self, work: Work, ask: Ask, size: int, *, forces: bool = False) -> None:
        self._work = work
        self._request = work.request
        self._ask = ask
        self._size = size
        self._forces = forces
        self._told: list[TokenLogprobs] = []
        self.scored = 0
        self.left = 0 if work.request.prompt_logprobs is None else max(0, len(work.request.prompt) - 1)
        """Prompt tokens asked about so far, and those still to be; there is nothing to tell of the first one."""

    async def prompt(self) -> tuple[TokenLogprobs, ...]:
        """Of the next prompt tokens."""
        while self.left and len(self._told) < _TOGETHER:
            self._told.append(await self._score(self.scored + 1))
            self.scored += 1
            self.left -= 1
        told, self._told = tuple(self._told), []
        return told

    async def sampled(self, before: Sequence[int], token: int) -> TokenLogprobs:
        """Of a token sampled behind the answer's tokens `before`."""
        return await self._among(lambda most: self._work.probe(before, most), token, self._request.logprobs or 0)

    async def _score(self, at: int) -> TokenLogprobs:
        token, wanted = self._request.prompt[at], self._request.prompt_logprobs or 0
        if self._forces:
            frame = await self._ask(self._work.forced(at, wanted))
            for entry in frame.completion_probabilities[:1]:
                if entry.id == token:
                    return logprobs_of(entry, wanted)
        return await self._among(lambda most: self._work.score(at, most), token, wanted)

    async def _among(self, question: Callable[[int], bytes], token: int, wanted: int) -> TokenLogprobs:
        """The log probability of `token` where `question` asks for so many alternatives."""
        for alternatives in (max(wanted, _PROBED), self._size):
            frame = await self._ask(question(alternatives))
            for entry in frame.completion_probabilities[:1]:
                logprob = next((rival.logprob for rival in entry.top_logprobs if rival.id == token), None)
                if logprob is not None:
                    return TokenLogprobs(
                        TokenLogprob(token, max(logprob, MINUS_INFINITY)), logprobs_of(entry, wanted).top
                    )
        raise EngineFailure("llama.cpp does not tell the log probability of a token it sampled.")
