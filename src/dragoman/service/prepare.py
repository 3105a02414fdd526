"""A request checked against a model and turned into engine work. Blocking: rendering and tokenising take time, so
this runs in a worker thread; it touches no event loop and no socket."""

from __future__ import annotations

import secrets

import msgspec
from msgspec import Struct

from dragoman.core.errors import ContextLengthExceeded, InvalidField, TokenOutOfRange, UnsupportedField
from dragoman.core.exchange import EngineRequest
from dragoman.core.model import Capabilities
from dragoman.core.prompt import Prompt
from dragoman.core.request import ChatInput, Request
from dragoman.core.sampling import SamplingSpec
from dragoman.service.models import ServedModel


class AnswerLimits(Struct, frozen=True, kw_only=True):
    """Server-wide rules for answers: `default_max_tokens` when a request has no limit; `strict_max_tokens` refuses
    instead of clamping; `sampling` fills unset fields before the model's own defaults."""

    default_max_tokens: int = 65536
    strict_max_tokens: bool = False
    sampling: SamplingSpec = SamplingSpec()


class Prepared(Struct, frozen=True, kw_only=True):
    """A request ready to run: `prompt_text` has special tokens spelled out, `sampling` is resolved."""

    request: Request
    prompt: Prompt
    prompt_text: str
    sampling: SamplingSpec
    max_tokens: int

    def engine_request(self, answer: int, stop_tokens: frozenset[int]) -> EngineRequest:
        """Engine work for answer number `answer` of this request; seeds count up from the request's."""
        sampling = self.sampling
        if sampling.seed is not None and answer:
            sampling = msgspec.structs.replace(sampling, seed=(sampling.seed + answer) % 2**64)
        return EngineRequest(
            id=secrets.token_hex(8),
            prompt=self.prompt.ids,
            max_tokens=self.max_tokens,
            stop_tokens=stop_tokens,
            sampling=sampling,
            format=self.request.format,
            logprobs=self.request.logprobs,
            prompt_logprobs=self.request.prompt_logprobs,
            progress=self.request.progress,
            cache=self.request.cache,
            stable_boundary=self.prompt.stable_boundary,
        )


def prepare(model: ServedModel, request: Request, limits: AnswerLimits) -> Prepared:
    """Check `request`, render and tokenise it. Raises InvalidRequest and its kin."""
    sampling = request.sampling.over(limits.sampling).over(model.card.sampling_defaults)
    check_capabilities(request, model.backend.capabilities)
    check_bias(sampling, model.tokenizer.size)
    prompt = model.builder.build(request.input)
    return Prepared(
        request=request,
        prompt=prompt,
        prompt_text=prompt.text if isinstance(request.input, ChatInput) else _spelled_out(model, prompt),
        sampling=sampling,
        max_tokens=token_limit(request, len(prompt.ids), model.backend.context_length, limits),
    )


def check_capabilities(request: Request, able: Capabilities) -> None:
    """Refuse what this engine cannot honour, naming the field."""
    for name in sorted(request.sampling.active() - able.sampling):
        raise UnsupportedField(f"This engine does not honour '{name}'.", field=name, remedy="Leave it out.")
    if request.format is not None and not able.grammar:
        raise UnsupportedField(
            "Constrained output is not available on this engine.",
            field="response_format",
            remedy="Leave response_format (or format, grammar, json_schema) out.",
        )
    if request.logprobs is not None and (able.logprobs is None or request.logprobs > able.logprobs):
        most = "none" if able.logprobs is None else f"at most {able.logprobs}"
        raise UnsupportedField(f"This engine reports {most} alternatives per token.", field="logprobs")
    if request.prompt_logprobs is not None and not able.prompt_logprobs:
        raise UnsupportedField(
            "This engine does not report log probabilities of the prompt.",
            field="echo",
            remedy="Leave echo or logprobs out, or serve the model with --engine mlx.",
        )
    if _forces_call(request) and not able.grammar:
        raise UnsupportedField(
            "This engine cannot enforce a tool call.", field="tool_choice", remedy="Use 'auto' or 'none'."
        )


def _forces_call(request: Request) -> bool:
    chat = request.input
    return isinstance(chat, ChatInput) and bool(chat.tools) and chat.tool_choice.mode in ("required", "named")


def check_bias(sampling: SamplingSpec, vocab_size: int) -> None:
    """Refuse biases for tokens that do not exist."""
    for token in sampling.logit_bias or ():
        if not 0 <= token < vocab_size:
            raise TokenOutOfRange(token, vocab_size, field="logit_bias")


def token_limit(request: Request, n_prompt: int, n_ctx: int, limits: AnswerLimits) -> int:
    """How many tokens may be sampled: the request's limit or the default, clamped to the room left in the window."""
    room = n_ctx - n_prompt
    if room < 1:
        raise ContextLengthExceeded(n_prompt, n_ctx)
    wanted = request.max_tokens
    if wanted is None:
        return min(room, limits.default_max_tokens)
    if wanted > room and limits.strict_max_tokens:
        raise InvalidField(
            f"The prompt has {n_prompt} tokens; with max_tokens {wanted} it exceeds the window of {n_ctx} tokens.",
            field="max_tokens",
            remedy=f"Ask for at most {room}.",
        )
    return max(1, min(wanted, room))


def _spelled_out(model: ServedModel, prompt: Prompt) -> str:
    return b"".join(map(model.tokenizer.token_bytes, prompt.ids)).decode("utf-8", "replace")
