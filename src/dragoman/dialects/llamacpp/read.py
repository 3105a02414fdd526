"""Native completion bodies to core requests. Decides nothing about models, vocabularies or engines."""

from __future__ import annotations

from functools import partial

from dragoman.core.request import CacheHints, Request
from dragoman.dialects.base import GenerateCall, WireRequest
from dragoman.dialects.llamacpp.body import decode_object
from dragoman.dialects.llamacpp.errors import NativeError, field_error
from dragoman.dialects.llamacpp.prompts import MOST_PROMPTS, read_prompts
from dragoman.dialects.llamacpp.sampling import read_chain, sampling_spec
from dragoman.dialects.llamacpp.schema import KNOWN, read_scalars
from dragoman.dialects.llamacpp.settings import generation_settings
from dragoman.dialects.llamacpp.structured import (
    check_shapes,
    read_reasoning_format,
    read_response_fields,
    read_stop,
    refuse_unoffered,
)
from dragoman.dialects.llamacpp.tokens import model_name
from dragoman.dialects.llamacpp.write import CompletionWriter, ReplyOptions


def read_completion(wire: WireRequest) -> GenerateCall:
    """POST /completion and /completions. Raises NativeError in llama-server's words, UnsupportedField for what is
    known but not offered here."""
    body = decode_object(wire.body)
    if "prompt" not in body:
        raise NativeError("[json.exception.out_of_range.403] key 'prompt' not found", field="prompt")
    prompts = read_prompts(body["prompt"])
    values = read_scalars(body)
    check_shapes(body)
    refuse_unoffered(body, values)
    chain, stop, answers = read_chain(body), read_stop(body.get("stop")), values["n_cmpl"]
    if len(prompts) * answers > MOST_PROMPTS:
        raise field_error("n_cmpl", f"one request may ask for at most {MOST_PROMPTS} answers")
    sampling = sampling_spec(values, chain)
    options = ReplyOptions(
        settings=generation_settings(values, chain, stop, read_reasoning_format(body)),
        results=len(prompts) * answers,
        answers=answers,
        return_tokens=values["return_tokens"],
        response_fields=read_response_fields(body),
        probabilities=values["n_probs"] > 0,
        timings_per_token=values["timings_per_token"],
    )
    requests = tuple(
        Request(
            input=prompt,
            model=model_name(body),
            sampling=sampling,
            max_tokens=_max_tokens(values["n_predict"]),
            stop=stop,
            n=answers,
            logprobs=values["n_probs"] if values["n_probs"] > 0 else None,
            progress=values["return_progress"] and values["stream"],
            cache=CacheHints(reuse=values["cache_prompt"]),
        )
        for prompt in prompts
    )
    return GenerateCall(
        requests=requests,
        stream=values["stream"],
        writer=partial(CompletionWriter, options),
        ignored=tuple(sorted(set(body) - KNOWN)),
    )


def _max_tokens(n_predict: int) -> int | None:
    """-1 is the room left. The budget is looked at after a token is sampled, so 0 still gives one."""
    return None if n_predict < 0 else max(1, n_predict)
