"""A request checked against a model and turned into engine work. Blocking: rendering and tokenising take time, so
this runs in a worker thread; it touches no event loop and no socket."""

from __future__ import annotations

import secrets

import msgspec
from msgspec import Struct

from dragoman.core.adapters import AdapterScale
from dragoman.core.errors import ContextLengthExceeded, InvalidField, TokenOutOfRange, UnsupportedField
from dragoman.core.exchange import EngineRequest, Shift
from dragoman.core.inforce import InForce
from dragoman.core.model import Capabilities
from dragoman.core.prompt import Prompt, ReplyFormat
from dragoman.core.request import ChatInput, Request
from dragoman.core.sampling import SamplingSpec
from dragoman.core.vocabulary import Tokenizer
from dragoman.service.adapters import adapters_of
from dragoman.service.binding import Binding, bind, constraint_of
from dragoman.service.budget import Closing, closing_of
from dragoman.service.contract import Contract
from dragoman.service.instruction import instructed
from dragoman.service.markup import format_of, spelled_of
from dragoman.service.models import ServedModel


class AnswerLimits(Struct, frozen=True, kw_only=True):
    """Server-wide rules for answers: `default_max_tokens` when a request has no limit; `strict_max_tokens` refuses
    instead of clamping; `sampling` fills unset fields before the model's own defaults; `grammar_degrade` answers
    requests whose constraint cannot be enforced all the same, with the constraint in words."""

    default_max_tokens: int = 65536
    strict_max_tokens: bool = False
    sampling: SamplingSpec = SamplingSpec()
    grammar_degrade: bool = False


class Prepared(Struct, frozen=True, kw_only=True):
    """A request ready to run: `prompt_text` has special tokens spelled out, `sampling` is resolved, `grammar` what was
    compiled of the format and the tool choice, `unenforced` why nothing was although it was asked for. `contract` is
    what the answer is checked against at its end, None where nothing was promised; `closing` how its thought is closed,
    None where it may take its time. `format` is how the answer's markup is read, with `spelled` control tokens as text.
    """

    request: Request
    prompt: Prompt
    prompt_text: str
    sampling: SamplingSpec
    max_tokens: int
    shift: Shift | None = None
    grammar: str | None = None
    contract: Contract | None = None
    unenforced: str = ""
    closing: Closing | None = None
    in_force: InForce = InForce()
    adapters: tuple[AdapterScale, ...] | None = None
    format: ReplyFormat = ReplyFormat()
    spelled: tuple[str, ...] = ()

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
            grammar=self.grammar,
            adapters=self.adapters,
            logprobs=self.request.logprobs,
            post_sampling=self.request.post_sampling,
            prompt_logprobs=self.request.prompt_logprobs,
            progress=self.request.progress,
            cache=self.request.cache,
            stable_boundary=self.prompt.stable_boundary,
            slot=None if answer else self.request.slot,
            shift=self.shift,
        )


def prepare(model: ServedModel, request: Request, limits: AnswerLimits) -> Prepared:
    """Check `request`, render and tokenise it. Raises InvalidRequest and its kin."""
    sampling = request.sampling.over(limits.sampling).over(model.card.sampling_defaults)
    check_capabilities(request, model.backend.capabilities)
    in_force = _in_force(model.tokenizer, request, sampling)
    sampling = in_force.sampling
    check_bias(sampling, model.tokenizer.size)
    prompt, binding = _bound(model, request, limits)
    contract = Contract(binding.constraint, model.compiler, bound=binding.grammar is not None)
    shift = Shift(request.keep, request.discard) if model.backend.capabilities.shift else None
    max_tokens = token_limit(request, len(prompt.ids), model.backend.context_length, limits, shift=shift is not None)
    return Prepared(
        request=request,
        prompt=prompt,
        prompt_text=prompt.text if isinstance(request.input, ChatInput) else _spelled_out(model, prompt),
        # A bound answer is over when its grammar is, whatever the client thinks of end tokens.
        sampling=sampling if binding.grammar is None else msgspec.structs.replace(sampling, ignore_eos=None),
        max_tokens=max_tokens,
        shift=shift,
        grammar=binding.grammar,
        contract=None if contract.empty else contract,
        unenforced=binding.unenforced,
        closing=closing_of(model, prompt, binding, max_tokens),
        in_force=msgspec.structs.replace(in_force, prompt=prompt.ids),
        adapters=adapters_of(model, request),
        format=format_of(request, model.builder.reply_format),
        spelled=spelled_of(request, model.builder.reply_format),
    )


def _in_force(tokenizer: Tokenizer, request: Request, sampling: SamplingSpec) -> InForce:
    """What the vocabulary makes of the request's texts; `sampling` comes back with its biases."""
    biases = tuple(pair for key, bias in request.biases for pair in _bias_pairs(tokenizer, key, bias))
    if biases:
        summed = dict(sampling.logit_bias or {})
        for token, bias in biases:
            summed[token] = summed.get(token, 0.0) + bias
        sampling = msgspec.structs.replace(sampling, logit_bias=summed)
    return InForce(
        sampling=sampling,
        biases=biases,
        end_tokens=tuple(sorted(tokenizer.stop_tokens)) if sampling.ignore_eos else (),
        spelled=_spelled(tokenizer, request),
    )


def _spelled(tokenizer: Tokenizer, request: Request) -> tuple[int, ...]:
    """Ids of the texts that are one token each, ascending. Raises InvalidField for a trigger word that had to be one of
    them."""
    if request.spelled is None:
        return ()
    found = (_ids(tokenizer, text, special=True) for text in request.spelled)
    ids = {pieces[0] for pieces in found if len(pieces) == 1}
    for trigger in request.format.triggers if request.format is not None else ():
        pieces = _ids(tokenizer, trigger.value, special=True) if trigger.kind == "word" else []
        if len(pieces) == 1 and pieces[0] not in ids:
            words = f"Grammar trigger word should be marked as preserved token: {trigger.value}"
            raise InvalidField(words, field="grammar_triggers")
    return tuple(sorted(ids))


def _bias_pairs(tokenizer: Tokenizer, key: int | str, bias: float) -> list[tuple[int, float]]:
    ids = _ids(tokenizer, key, special=False) if isinstance(key, str) else [key]
    return [(token, bias) for token in ids if 0 <= token < tokenizer.size]


def _ids(tokenizer: Tokenizer, text: str, *, special: bool) -> list[int]:
    return tokenizer.encode(text, add_special=False, parse_special=special)


def prompt_of(model: ServedModel, request: Request, limits: AnswerLimits) -> Prompt:
    """The prompt of a request as `prepare` renders it. Raises InvalidRequest and its kin."""
    return _bound(model, request, limits)[0]


def _bound(model: ServedModel, request: Request, limits: AnswerLimits) -> tuple[Prompt, Binding]:
    """The prompt and what binds its answer; where nothing can, the prompt says it in words."""
    prompt = model.builder.build(request.input)
    constraint = constraint_of(request, model.builder.reply_format, prompt)
    compiler = model.compiler if model.backend.capabilities.grammar else None
    binding = bind(constraint, compiler, prefill=prompt.prefill, degrade=limits.grammar_degrade)
    if binding.unenforced:
        prompt = model.builder.build(instructed(request.input, constraint))
    return prompt, binding


def check_capabilities(request: Request, able: Capabilities) -> None:
    """Refuse what this engine cannot honour, naming the field."""
    for name in sorted(request.sampling.active() - able.sampling):
        raise UnsupportedField(f"This engine does not honour '{name}'.", field=name, remedy="Leave it out.")
    if request.logprobs is not None and (able.logprobs is None or request.logprobs > able.logprobs):
        most = "none" if able.logprobs is None else f"at most {able.logprobs}"
        raise UnsupportedField(f"This engine reports {most} alternatives per token.", field="logprobs")
    if request.logprobs is not None and request.post_sampling and not able.post_sampling_logprobs:
        raise UnsupportedField(
            "This engine does not report probabilities after sampling.",
            field="post_sampling_probs",
            remedy="Leave it out for those before sampling.",
        )
    if request.prompt_logprobs is not None and not able.prompt_logprobs:
        raise UnsupportedField(
            "This engine does not report log probabilities of the prompt.",
            field="echo",
            remedy="Leave echo or logprobs out, or serve the model with --engine mlx.",
        )


def check_bias(sampling: SamplingSpec, vocab_size: int) -> None:
    """Refuse biases for tokens that do not exist."""
    for token in sampling.logit_bias or ():
        if not 0 <= token < vocab_size:
            raise TokenOutOfRange(token, vocab_size, field="logit_bias")


def token_limit(request: Request, n_prompt: int, n_ctx: int, limits: AnswerLimits, *, shift: bool = False) -> int:
    """How many tokens may be sampled: the request's limit or the default, clamped to the room left in the window unless
    that is shifted."""
    room = n_ctx - n_prompt
    if room < 1:
        raise ContextLengthExceeded(n_prompt, n_ctx)
    wanted = request.max_tokens
    if shift:
        return max(1, limits.default_max_tokens if wanted is None else wanted)
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
