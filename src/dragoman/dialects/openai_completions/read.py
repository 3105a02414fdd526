"""Completions requests -> core. Runs nothing and knows no model."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from dragoman.core.errors import InvalidField, MissingField, UnsupportedField
from dragoman.core.request import InfillInput, RawInput, Request
from dragoman.dialects.base import GenerateCall, WireRequest
from dragoman.dialects.decoding import convert, decode_object
from dragoman.dialects.openai_completions.schema import CompletionRequest
from dragoman.dialects.openai_completions.write import CompletionReply, CompletionWriter
from dragoman.dialects.openai_fields import (
    MAX_CHOICES,
    StreamOptions,
    ranged_int,
    read_cache,
    read_ignored,
    read_max_tokens,
    read_n,
    read_stop,
)
from dragoman.dialects.openai_format import read_format
from dragoman.dialects.openai_labels import check_labels
from dragoman.dialects.openai_options import flattened, told_as
from dragoman.dialects.openai_sampling import read_sampling

MAX_PROMPTS = 2048
MAX_LOGPROBS = 20
_NO_CUT = 1 << 30  # tokens around a gap: a prompt that does not fit is refused on this wire, not cut

Piece = str | tuple[int, ...]


def read_completion(wire: WireRequest) -> GenerateCall:
    """POST /v1/completions. Raises InvalidRequest and its kin naming the field."""
    flat = flattened(decode_object(wire.body))
    with told_as(flat.moved):
        return _read(wire, flat.value, flat.ignored)


def _read(wire: WireRequest, value: dict[str, Any], ignored: tuple[str, ...]) -> GenerateCall:
    body = convert(value, CompletionRequest)
    ignored += read_ignored(value, CompletionRequest)
    check_labels(body)
    prompts = read_prompts(body.prompt)
    stream = body.stream is True
    n, best_of = _numbers(body, stream=stream)
    logprobs = _logprobs(body)
    _check_gap(body, prompts, logprobs)
    shared = Request(
        input=RawInput(()),
        model=body.model,
        sampling=read_sampling(body),
        max_tokens=read_max_tokens(body),
        stop=read_stop(body.stop),
        n=best_of,
        format=read_format(body),
        # Answers are ranked by what their tokens were worth.
        logprobs=0 if logprobs is None and best_of > n else logprobs,
        prompt_logprobs=logprobs if body.echo is True else None,
        progress=stream and body.return_progress is True,
        cache=read_cache(body, wire.headers),
    )
    options = body.stream_options or StreamOptions()
    reply = CompletionReply(
        n=n,
        best_of=best_of,
        prompts=len(prompts),
        echo=_echo(body, prompts, logprobs),
        include_usage=options.include_usage is True,
        running_usage=options.continuous_usage_stats is True,
        logprobs=logprobs,
        timings=body.timings is True or body.timings_per_token is True,
        verbose=body.verbose is True,
    )
    return GenerateCall(
        requests=tuple(_with_prompt(shared, prompt, body.suffix) for prompt in prompts),
        stream=stream,
        writer=lambda context: CompletionWriter(context, reply),
        ignored=ignored,
    )


def read_prompts(prompt: str | list[str | int | list[int]] | None) -> tuple[Piece, ...]:
    """The prompts in order. Raises MissingField or InvalidField naming the offending entry."""
    if prompt is None:
        raise MissingField("The field 'prompt' is required.", field="prompt")
    if isinstance(prompt, str):
        return (prompt,)
    if not prompt:
        raise InvalidField("Invalid 'prompt': at least one prompt is required.", field="prompt")
    if isinstance(prompt[0], int):
        return (_ids(prompt, "prompt"),)
    if len(prompt) > MAX_PROMPTS:
        raise InvalidField(f"Invalid 'prompt': at most {MAX_PROMPTS} prompts are allowed.", field="prompt")
    return tuple(_piece(entry, f"prompt[{index}]") for index, entry in enumerate(prompt))


def _piece(entry: str | int | list[int], at: str) -> Piece:
    if isinstance(entry, int):
        raise InvalidField("Invalid 'prompt': token ids and prompts cannot be mixed.", field=at)
    return entry if isinstance(entry, str) else _ids(entry, at)


def _ids(entry: list[str | int | list[int]] | list[int], at: str) -> tuple[int, ...]:
    if not entry:
        raise InvalidField(f"Invalid '{at}': at least one token id is required.", field=at)
    for index, token in enumerate(entry):
        if not isinstance(token, int) or token < 0:
            raise InvalidField(f"Invalid '{at}[{index}]': it is not a token id.", field=f"{at}[{index}]")
    return cast("tuple[int, ...]", tuple(entry))


def _with_prompt(shared: Request, prompt: Piece, suffix: str | None) -> Request:
    """The request for one prompt; with a suffix the answer is what belongs between the two."""
    raw = RawInput((prompt,))
    if not suffix:
        return msgspec.structs.replace(shared, input=raw)
    gap = InfillInput(prefix="", suffix=suffix, prompt=raw, batch=_NO_CUT, field="suffix")
    return msgspec.structs.replace(shared, input=gap)


def _check_gap(body: CompletionRequest, prompts: tuple[Piece, ...], logprobs: int | None) -> None:
    """Only a text prompt can be repeated before the gap: the text of the tokens has markers and suffix in it."""
    plain = logprobs is None and all(isinstance(prompt, str) for prompt in prompts)
    if body.suffix and body.echo is True and not plain:
        raise UnsupportedField(
            "With 'suffix', 'echo' repeats text prompts only, without log probabilities.",
            field="echo",
            remedy="Leave it out.",
        )


def _numbers(body: CompletionRequest, *, stream: bool) -> tuple[int, int]:
    """Answers per prompt to be given, and to be made. Raises InvalidField."""
    n = read_n(body.n)
    best_of = ranged_int(body.best_of, "best_of", 1, MAX_CHOICES) or n
    if best_of < n:
        raise InvalidField(f"Invalid 'best_of': {best_of} is less than 'n', {n}.", field="best_of")
    if best_of > n and stream:
        raise InvalidField("The best of several answers cannot be streamed.", field="best_of", remedy="Leave it out.")
    return n, best_of


def _logprobs(body: CompletionRequest) -> int | None:
    """Alternatives per token. mlx_lm.server takes a boolean here, with the count in `top_logprobs`."""
    top = ranged_int(body.top_logprobs, "top_logprobs", -1, MAX_LOGPROBS)
    count = None if top == -1 else top
    if body.logprobs is True:
        return count or 0
    if body.logprobs is None or body.logprobs is False:
        return count or None
    asked = ranged_int(body.logprobs, "logprobs", -1, MAX_LOGPROBS)
    return None if asked == -1 else asked


def _echo(body: CompletionRequest, prompts: tuple[Piece, ...], logprobs: int | None) -> tuple[str | None, ...]:
    """What to repeat before the answers: a text prompt as it was sent, None for the text of token ids; () for none.
    Beside log probabilities it is always the text of the tokens, so that their offsets fit."""
    if body.echo is not True:
        return ()
    return tuple(prompt if isinstance(prompt, str) and logprobs is None else None for prompt in prompts)
