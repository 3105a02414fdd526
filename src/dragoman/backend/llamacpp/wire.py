"""llama.cpp's native completion wire: request bodies and the frames of its answers. Opens no connection."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct

from dragoman.backend.llamacpp.sampling import fold_seed, native_sampling
from dragoman.core.errors import EngineFailure
from dragoman.core.exchange import EngineFinish, EngineRequest, Progress
from dragoman.core.logprobs import TokenLogprob, TokenLogprobs

MINUS_INFINITY = -9999.0
"""What a log probability of minus infinity is reported as (core.logprobs); llama.cpp writes -FLT_MAX."""

_FINAL_FIELDS = [
    "stop", "stop_type", "truncated", "tokens", "tokens_predicted", "tokens_evaluated", "id_slot", "timings",
    "completion_probabilities",
]  # fmt: skip
"""The part of the final object we read. The rest (the prompt's text, 49 settings) would be megabytes at worst."""

_MOST_TOKENS = 2**31 - 1

_ONE_LETTER = 'root ::= "a"'
"""A grammar that makes llama.cpp emit a whole character: only then does it report the distribution of a position."""


class Candidate(Struct, frozen=True):
    """A likely token. `bytes` is the text of the token alone, control tokens have none."""

    id: int
    logprob: float = MINUS_INFINITY
    bytes: list[int] = []


class Entry(Struct, frozen=True):
    """Log probability of an emitted token and of the likeliest ones, over the raw logits."""

    id: int
    logprob: float = MINUS_INFINITY
    top_logprobs: list[Candidate] = []


class PromptProgress(Struct, frozen=True):
    """Prefill in tokens; `processed` includes `cache`."""

    total: int
    cache: int
    processed: int
    time_ms: float = 0.0


class WireTimings(Struct, frozen=True):
    """Milliseconds, and the prompt tokens that came from the cache."""

    cache_n: int = 0
    prompt_ms: float = 0.0
    predicted_ms: float = 0.0


class Frame(Struct, frozen=True):
    """A partial or final object of /completion. `tokens_predicted` counts tokens sampled so far, also those whose
    ids are withheld because the text ends inside a character."""

    content: str = ""
    tokens: list[int] = []
    stop: bool = False
    stop_type: str = ""
    truncated: bool = False
    tokens_predicted: int = 0
    tokens_evaluated: int = 0
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


class Props(Struct, frozen=True):
    """/props, as far as it is read here."""

    default_generation_settings: _Settings
    total_slots: int = 1
    build_info: str = ""


_frame = msgspec.json.Decoder(Frame)
_slots = msgspec.json.Decoder(list[SlotNow])
_props = msgspec.json.Decoder(Props)
_encode = msgspec.json.Encoder().encode


class Work(Struct, frozen=True):
    """A request with its sampling fields in native form. Made once; bodies are made from it leg by leg."""

    request: EngineRequest
    sampling: dict[str, Any]

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
        return distribution_body([*self.request.prompt, *answered], alternatives)

    def _left(self, answered: Sequence[int]) -> int:
        return min(self.request.max_tokens - len(answered), _MOST_TOKENS)

    def _body(self, answered: Sequence[int], leg: int) -> dict[str, Any]:
        request = self.request
        body: dict[str, Any] = {
            "prompt": [*request.prompt, *answered],
            **self.sampling,
            # What this very request left in its slot is not a hit on anything foreign.
            "cache_prompt": request.cache.reuse or leg > 0,
            "response_fields": _FINAL_FIELDS,
        }
        if leg and request.sampling.seed is not None:
            body["seed"] = fold_seed(request.sampling.seed, leg)
        if request.logprobs is not None:
            body["n_probs"] = max(1, request.logprobs)  # 0 would leave the chosen token's out, too
        return body


def work_of(request: EngineRequest, context_length: int) -> Work:
    """Raises InvalidField or UnsupportedField for sampling that cannot be done."""
    return Work(request, native_sampling(request.sampling, context_length))


def distribution_body(prompt: Sequence[int], alternatives: int) -> bytes:
    """Body whose answer lists the `alternatives` likeliest tokens after `prompt`."""
    return _encode(
        {
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
    top = tuple(_candidate(rival.id, rival.logprob) for rival in entry.top_logprobs[:alternatives])
    return TokenLogprobs(_candidate(entry.id, entry.logprob), top)


def finish_of(frame: Frame) -> EngineFinish:
    """Why a final frame ended. Text stops are never sent, so 'word' cannot come."""
    kind: str | Literal["eos", "limit"] = frame.stop_type
    if kind == "eos":
        return EngineFinish.EOS
    if kind == "limit":
        return EngineFinish.CONTEXT if frame.truncated else EngineFinish.LENGTH
    raise EngineFailure(f"llama.cpp ended the answer for an unknown reason ('{kind}').")


def _candidate(token: int, logprob: float) -> TokenLogprob:
    return TokenLogprob(token, max(logprob, MINUS_INFINITY))
