"""llama.cpp's native completion wire: request bodies and the frames of its answers. Opens no connection."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct

from dragoman.backend.llamacpp.media import MediaPrompt
from dragoman.backend.llamacpp.sampling import fold_seed, native_sampling
from dragoman.core.errors import EngineFailure, UnsupportedField
from dragoman.core.exchange import EngineFinish, EngineRequest, Progress
from dragoman.core.logprobs import TokenLogprob, TokenLogprobs

MINUS_INFINITY = -9999.0
"""What a log probability of minus infinity is reported as (core.logprobs); llama.cpp writes -FLT_MAX."""

_FINAL_FIELDS = [
    "stop", "stop_type", "truncated", "tokens", "tokens_cached", "tokens_predicted", "tokens_evaluated", "id_slot",
    "timings", "completion_probabilities",
]  # fmt: skip
"""The part of the final object we read. The rest (the prompt's text, 49 settings) would be megabytes at worst."""

_MOST_TOKENS = 2**31 - 1

_ONE_LETTER = 'root ::= "a"'
"""A grammar that makes llama.cpp emit a whole character: only then does it report the distribution of a position."""


_ONE_LETTER_LARK = '%llguidance {}\nstart: "a"\n'


class Candidate(Struct, frozen=True):
    """A likely token. `bytes` is the text of the token alone, control tokens have none. `prob` takes the place of
    `logprob` where probabilities after sampling were asked for."""

    id: int
    logprob: float = MINUS_INFINITY
    bytes: list[int] = []
    prob: float | None = None


class Entry(Struct, frozen=True):
    """Log probability of an emitted token and of the likeliest ones: over the raw logits, or as `prob` and `top_probs`
    over what the sampling stages left of them."""

    id: int
    logprob: float = MINUS_INFINITY
    top_logprobs: list[Candidate] = []
    prob: float | None = None
    top_probs: list[Candidate] = []


class PromptProgress(Struct, frozen=True):
    """Prefill in tokens; `processed` includes `cache`."""

    total: int
    cache: int
    processed: int
    time_ms: float = 0.0


class WireTimings(Struct, frozen=True):
    """Milliseconds, the prompt tokens that came from the cache, and the tokens a draft proposed and got accepted."""

    cache_n: int = 0
    prompt_ms: float = 0.0
    predicted_ms: float = 0.0
    draft_n: int = 0
    draft_n_accepted: int = 0


class Frame(Struct, frozen=True):
    """A partial or final object of /completion. `tokens_predicted` counts tokens sampled so far, also those whose
    ids are withheld because the text ends inside a character."""

    content: str = ""
    tokens: tuple[int, ...] = ()
    stop: bool = False
    stop_type: str = ""
    truncated: bool = False
    tokens_predicted: int = 0
    tokens_evaluated: int = 0
    tokens_cached: int = 0
    id_slot: int = -1
    timings: WireTimings | None = None
    prompt_progress: PromptProgress | None = None
    completion_probabilities: list[Entry] = []
    error: Any = None


class SlotNow(Struct, frozen=True):
    """One slot of /slots, as far as it is read here."""

    class Next(Struct, frozen=True):
        """What the slot has done of its task."""

        n_decoded: int = 0

    is_processing: bool = False
    n_prompt_tokens: int = 0
    next_token: list[Next] = []

    @property
    def decoded(self) -> int:
        """Tokens sampled for the running task."""
        return self.next_token[0].n_decoded if self.next_token else 0

    def runs(self, prompt_tokens: int) -> bool:
        """Whether its task may be the one with so long a prompt: `n_prompt_tokens` grows while it decodes."""
        return self.is_processing and abs(self.n_prompt_tokens - self.decoded - prompt_tokens) <= 1


class _Settings(Struct, frozen=True):
    n_ctx: int


class _Modalities(Struct, frozen=True):
    vision: bool = False


class Props(Struct, frozen=True):
    """/props, as far as it is read here."""

    default_generation_settings: _Settings
    total_slots: int = 1
    build_info: str = ""
    modalities: _Modalities = _Modalities()
    media_marker: str = ""


_frame = msgspec.json.Decoder(Frame)
_slots = msgspec.json.Decoder(list[SlotNow])
_props = msgspec.json.Decoder(Props)
_encode = msgspec.json.Encoder().encode


class Work(Struct, frozen=True):
    """A request with its sampling fields in native form. Made once; bodies are made from it leg by leg.

    `placement` are native fields that say where and with which adapters it runs; they go into every body. `media`
    is the prompt where it has images.

    `min_tokens` has no native counterpart. The answer begins with a leg of exactly so many tokens in which no token can
    end it, and goes on in legs without that. A constraint lives in one leg and cannot be taken up by the next.
    """

    request: EngineRequest
    sampling: dict[str, Any]
    placement: dict[str, Any] = {}
    media: MediaPrompt | None = None

    @property
    def one_leg(self) -> bool:
        """Whether a new leg would not continue where the last one ended."""
        return self.request.grammar is not None

    def streamed(self, answered: Sequence[int], leg: int) -> bytes:
        """Body that streams what follows prompt and `answered` tokens. `leg` numbers the requests of one answer."""
        return _encode(
            self._body(answered, leg) | {"stream": True, "return_progress": True, "n_predict": self._left(answered)}
        )

    def whole(self, answered: Sequence[int], leg: int, count: int) -> bytes:
        """Body for at most `count` further tokens in one answer that names every id, withheld or not."""
        body = self._body(answered, leg) | {"return_tokens": True, "n_predict": min(count, self._left(answered))}
        body.pop("n_probs", None)
        return _encode(body)

    def probe(self, answered: Sequence[int], alternatives: int) -> bytes:
        """Body that asks for the distribution of the token after `answered`; what it emits means nothing."""
        return distribution_body(self._prompt(answered), alternatives, self.placement)

    def score(self, count: int, alternatives: int) -> bytes:
        """Body that asks for the distribution of the token after the first `count` of the prompt."""
        return distribution_body(self.request.prompt[:count], alternatives, self.placement)

    def forced(self, count: int, alternatives: int) -> bytes:
        """Body whose answer is the token behind the first `count` of the prompt, by a grammar of this one token. Its
        log probability is that over the raw logits all the same."""
        body = distribution_body(self.request.prompt[:count], max(1, alternatives), self.placement)
        grammar = f"%llguidance {{}}\nstart: <[{self.request.prompt[count]}]>\n"
        return _encode(msgspec.json.decode(body) | {"grammar": grammar})

    def _prompt(self, answered: Sequence[int]) -> Any:
        return [*self.request.prompt, *answered] if self.media is None else self.media.native(answered)

    def primer(self, slot: int) -> bytes:
        """Body that leaves a slot with this request's adapters, and next to nothing else."""
        placement = {**self.placement, "id_slot": slot}
        return _encode({"prompt": self.request.prompt[:1], "n_predict": 0, "cache_prompt": False, **placement})

    def _left(self, answered: Sequence[int]) -> int:
        """Tokens of the next leg at most."""
        end = min(self._endless, self.request.max_tokens) if len(answered) < self._endless else self.request.max_tokens
        return min(end - len(answered), _MOST_TOKENS)

    @property
    def _endless(self) -> int:
        """The tokens before which the answer must not end."""
        sampling = self.request.sampling
        return 0 if sampling.ignore_eos else sampling.min_tokens or 0

    def _body(self, answered: Sequence[int], leg: int) -> dict[str, Any]:
        request = self.request
        body: dict[str, Any] = {
            "prompt": self._prompt(answered),
            **self.sampling,
            **self.placement,
            # What this very request left in its slot is not a hit on anything foreign.
            "cache_prompt": request.cache.reuse or leg > 0,
            "response_fields": _FINAL_FIELDS,
        }
        if leg and request.sampling.seed is not None:
            body["seed"] = fold_seed(request.sampling.seed, leg)
        if request.logprobs is not None:
            body["n_probs"] = max(1, request.logprobs)  # 0 would leave the chosen token's out, too
            body["post_sampling_probs"] = request.post_sampling
        if request.grammar is not None:
            body["grammar"] = request.grammar
        if request.shift is not None:
            body |= {"n_keep": request.shift.keep, "n_discard": request.shift.discard}
        if len(answered) < self._endless:
            banned = [[token, False] for token in sorted(request.stop_tokens)]
            body |= {"ignore_eos": True, "logit_bias": [*body.get("logit_bias", ()), *banned]}
        return body


def work_of(request: EngineRequest, context_length: int, placement: dict[str, Any] | None = None) -> Work:
    """Raises InvalidField or UnsupportedField for what cannot be done."""
    if request.grammar is not None and request.sampling.min_tokens and not request.sampling.ignore_eos:
        raise UnsupportedField(
            "llama.cpp cannot hold a constrained answer to 'min_tokens'.", field="min_tokens", remedy="Leave it out."
        )
    return Work(request, native_sampling(request.sampling, context_length), placement or {})


def grammar_probe() -> bytes:
    """Body that can only be answered with the letter a, by a llama.cpp that was built with llguidance."""
    return _encode(
        {"prompt": [0], "n_predict": 1, "grammar": _ONE_LETTER_LARK, "temperature": 0, "cache_prompt": False}
    )


def distribution_body(prompt: Any, alternatives: int, placement: dict[str, Any] | None = None) -> bytes:
    """Body whose answer lists the `alternatives` likeliest tokens after `prompt`."""
    return _encode(
        {
            **(placement or {}),
            "prompt": prompt,
            "n_predict": 1,
            "n_probs": alternatives,
            "grammar": _ONE_LETTER,
            "temperature": 0,
            "cache_prompt": True,
            "response_fields": _FINAL_FIELDS,
        }
    )


def read_frame(data: bytes) -> Frame:
    """Raises EngineFailure when it is not a frame."""
    try:
        return _frame.decode(data)
    except msgspec.MsgspecError as error:
        raise EngineFailure(f"llama.cpp sent an answer that cannot be read: {error}.") from error


def read_slots(data: bytes) -> list[SlotNow]:
    """Raises EngineFailure when it is not a list of slots."""
    try:
        return _slots.decode(data)
    except msgspec.MsgspecError as error:
        raise EngineFailure(f"llama.cpp sent slots that cannot be read: {error}.") from error


def read_props(data: bytes) -> Props:
    """Raises EngineFailure when it is not what llama.cpp sends."""
    try:
        return _props.decode(data)
    except msgspec.MsgspecError as error:
        raise EngineFailure(f"The server does not answer /props as llama.cpp does: {error}.") from error


def progress_of(progress: PromptProgress) -> Progress:
    """In core's form."""
    return Progress(progress.total, progress.cache, progress.processed, progress.time_ms)


def logprobs_of(entry: Entry, alternatives: int) -> TokenLogprobs:
    """In core's form, with at most `alternatives` rivals."""
    rivals = entry.top_logprobs or entry.top_probs
    top = tuple(_logprob(rival) for rival in rivals[:alternatives])
    return TokenLogprobs(_logprob(entry), top)


def finish_of(frame: Frame, *, shifts: bool = False) -> EngineFinish:
    """Why a final frame ended. Text stops are never sent, so 'word' cannot come. A window that `shifts` is truncated
    and ends nothing."""
    kind: str | Literal["eos", "limit"] = frame.stop_type
    if kind == "eos":
        return EngineFinish.EOS
    if kind == "limit":
        return EngineFinish.CONTEXT if frame.truncated and not shifts else EngineFinish.LENGTH
    raise EngineFailure(f"llama.cpp ended the answer for an unknown reason ('{kind}').")


def _logprob(told: Entry | Candidate) -> TokenLogprob:
    logprob = told.logprob if told.prob is None else math.log(told.prob) if told.prob > 0 else MINUS_INFINITY
    return TokenLogprob(told.id, max(logprob, MINUS_INFINITY))
