"""One row of the fake engine: its prompt, its plan or toy state, its faults. Knows nothing of the other rows."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence

import numpy as np
from msgspec.structs import replace

from dragoman.core.logprobs import TokenLogprobs
from dragoman.engines.base import RowSpec, RowStep
from dragoman.engines.fake.draw import adjusted, draw, masked, report
from dragoman.engines.fake.plan import FILLER, Plan
from dragoman.engines.fake.script import FakeRule
from dragoman.engines.fake.tokenizer import FakeTokenizer
from dragoman.engines.fake.toy import EMPTY_STATE, Logits, ToyModel, advance

EXIT_STATUS = 70
_CERTAIN = 6.0
_UNLIKELY = -1e4


class FakeRow:
    """A sequence being decoded. `plan` None: the toy logits decide."""

    def __init__(self, spec: RowSpec, rule: FakeRule, plan: Plan | None, toy: ToyModel, words: FakeTokenizer) -> None:
        self.rule = rule
        self._spec = spec
        self._plan = plan
        self._toy = toy
        self._words = words
        self._ends = spec.stop_tokens | words.stop_tokens
        self._may_be_denied = bool(spec.sampling.ignore_eos or spec.sampling.min_tokens or spec.sampling.logit_bias)
        wants_logits = spec.logprobs is not None or spec.prompt_logprobs is not None or spec.mask is not None
        self._needs_state = plan is None or wants_logits
        self._context = list(spec.prompt)
        self._fed = 0
        self._state = EMPTY_STATE

    @property
    def sampled(self) -> int:
        """Tokens sampled so far."""
        return len(self._context) - len(self._spec.prompt)

    @property
    def length(self) -> int:
        """Tokens processed so far."""
        return self._fed

    @property
    def unfed(self) -> int:
        """Known tokens that were not processed yet; 1 means ready to step."""
        return len(self._context) - self._fed

    @property
    def fed_tokens(self) -> tuple[int, ...]:
        """The tokens processed so far."""
        return tuple(self._context[: self._fed])

    def prefill(self, count: int) -> Sequence[TokenLogprobs]:
        """Process the next `count` prompt tokens; what the toy logits said of the token after each, where asked for."""
        wanted = self._spec.prompt_logprobs
        if wanted is None:
            self.feed(count)
            return ()
        return [self._next_prompt_token(wanted) for _ in range(count)]

    def _next_prompt_token(self, wanted: int) -> TokenLogprobs:
        self.feed(1)
        return report(self._toy.logits(self._state), self._context[self._fed], wanted)

    def feed(self, count: int) -> None:
        """Process the next `count` known tokens."""
        if self._needs_state:
            self._state = advance(self._state, self._context[self._fed : self._fed + count])
        self._fed += count

    def pause(self, default: float) -> float:
        """Seconds the next token takes."""
        planned = self._plan.at(self.sampled).delay if self._plan else None
        return next((delay for delay in (planned, self.rule.delay) if delay is not None), default)

    def misbehave(self) -> None:
        """The faults of a whole step: end the process, or raise."""
        if self.rule.exit_after is not None and self.sampled >= self.rule.exit_after:
            os._exit(EXIT_STATUS)
        if self.rule.raise_after is not None and self.sampled >= self.rule.raise_after:
            raise RuntimeError(self.rule.error)

    def step(self) -> RowStep:
        """Process the newest token and sample the next."""
        if self.rule.fail_after is not None and self.sampled >= self.rule.fail_after:
            return RowStep(token=0, error=self.rule.error)
        self.feed(1)
        result = self._toy_step() if self._plan is None else self._planned_step(self._plan)
        self._context.append(result.token)
        return result if result.error is not None else self._advanced(result)

    def _advanced(self, result: RowStep) -> RowStep:
        """The result once the mask provider knows its token."""
        mask = self._spec.mask
        if mask is None:
            return result
        mask.advance(result.token)
        return replace(result, ended=mask.complete)

    def _toy_step(self) -> RowStep:
        logits = self._masked(self._logits())
        if not math.isfinite(logits.max()):
            return RowStep(0, error="No token is left to sample: all of them are banned.")
        token = draw(logits, self._spec.sampling, self.sampled)
        wanted = self._spec.logprobs
        return RowStep(token, None if wanted is None else report(logits, token, wanted))

    def _planned_step(self, plan: Plan) -> RowStep:
        planned = plan.at(self.sampled)
        token = planned.token
        if self._may_be_denied and token in self._denied():
            token = FILLER
        token = self._permitted(token)
        if self._spec.logprobs is None:
            return RowStep(token)
        scripted = planned.logprobs if token == planned.token else None
        return RowStep(token, self._cut(scripted) if scripted else self._derived(token))

    def _cut(self, scripted: TokenLogprobs) -> TokenLogprobs:
        return TokenLogprobs(scripted.chosen, scripted.top[: self._spec.logprobs])

    def _derived(self, token: int) -> TokenLogprobs:
        """Toy log probabilities in which the planned token is the likeliest."""
        logits = self._logits()
        logits[token] = max(float(logits.max()), 0.0) + _CERTAIN
        return report(logits, token, self._spec.logprobs or 0)

    def _logits(self) -> Logits:
        return adjusted(self._toy.logits(self._state), self._spec.sampling, self._context, self._denied())

    def _masked(self, logits: Logits) -> Logits:
        words = np.zeros((self._words.size + 31) // 32, np.int32)
        provider = self._spec.mask
        if provider is None or not provider.fill(words):
            return logits
        # Tags, which toy logits rule out, may be all that is allowed.
        return masked(np.maximum(logits, np.float32(_UNLIKELY)), words)

    def _permitted(self, token: int) -> int:
        """The token, or the likeliest one the mask allows where it does not allow this one."""
        if self._spec.mask is None:
            return token
        wanted = np.zeros(self._words.size, np.float32)
        wanted[token] = 1.0
        if self._masked(wanted)[token] > 0:
            return token
        return int(np.argmax(self._masked(self._logits())))

    def _denied(self) -> frozenset[int]:
        """End tokens the request forbids at this step."""
        return frozenset(self._denied_ends()) if self._may_be_denied else frozenset()

    def _denied_ends(self) -> Iterator[int]:
        sampling = self._spec.sampling
        early = self.sampled < (sampling.min_tokens or 0)
        bias = sampling.logit_bias or {}
        for token in self._ends:
            if (sampling.ignore_eos or early or bias.get(token) == float("-inf")) and token < self._words.size:
                yield token
