"""Native completion bodies to core requests. Decides nothing about models, vocabularies or engines."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec

from dragoman.core.model import ModelCard
from dragoman.core.request import CacheHints, Input, Request
from dragoman.dialects.base import GenerateCall, WireRequest
from dragoman.dialects.llamacpp.body import decode_object
from dragoman.dialects.llamacpp.casts import as_float32
from dragoman.dialects.llamacpp.constraint import echoed, read_constraint
from dragoman.dialects.llamacpp.errors import NativeError, field_error
from dragoman.dialects.llamacpp.prompts import MOST_PROMPTS, read_prompts
from dragoman.dialects.llamacpp.sampling import Chain, read_chain, sampling_spec, without_infill
from dragoman.dialects.llamacpp.schema import KNOWN, read_scalars, server_of
from dragoman.dialects.llamacpp.settings import generation_settings
from dragoman.dialects.llamacpp.structured import (
    check_shapes,
    read_lora,
    read_preserved,
    read_reasoning_format,
    read_response_fields,
    read_slot,
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
    return generation(body, read_prompts(body["prompt"]), card_for(wire, body))


def card_for(wire: WireRequest, body: dict[str, Any]) -> ModelCard | None:
    """The card of the model that would answer, None where nobody knows. Raises ModelNotFound."""
    return wire.card_of(model_name(body)) if wire.card_of is not None else None


def generation(
    body: dict[str, Any], prompts: Sequence[Input], card: ModelCard | None, known: frozenset[str] = KNOWN
) -> GenerateCall:
    """The completion fields of `body` on these prompts. `known` are the fields the route has."""
    values = read_scalars(body, server_of(card))
    check_shapes(body)
    refuse_unoffered(body, values)
    chain, stop, answers = read_chain(body), read_stop(body.get("stop")), values["n_cmpl"]
    if len(prompts) * answers > MOST_PROMPTS:
        raise field_error("n_cmpl", f"one request may ask for at most {MOST_PROMPTS} answers")
    format = read_constraint(body, lazy=values["grammar_lazy"])
    request = Request(
        input=prompts[0],
        model=model_name(body),
        sampling=sampling_spec(values, without_infill(chain) if _lacks_infill(card) else chain),
        max_tokens=_max_tokens(values["n_predict"]),
        stop=stop,
        n=answers,
        format=format,
        logprobs=values["n_probs"] if values["n_probs"] > 0 else None,
        post_sampling=values["post_sampling_probs"],
        progress=values["return_progress"] and values["stream"],
        cache=CacheHints(reuse=values["cache_prompt"]),
        adapter_places=read_lora(body),
        biases=chain.biases,
        spelled=read_preserved(body),
        slot=read_slot(body),
        keep=values["n_keep"],
        discard=values["n_discard"],
        indent=values["n_indent"],
        line_ms=max(0, values["t_max_predict_ms"]),
    )
    extra = {**echoed(body, format), "lora": _shown_lora(request.adapter_places), **_shown_chat(body)}
    return GenerateCall(
        requests=tuple(msgspec.structs.replace(request, input=prompt) for prompt in prompts),
        stream=values["stream"],
        writer=partial(CompletionWriter, _reply_options(body, values, chain, stop, extra, len(prompts))),
        ignored=tuple(sorted(set(body) - known)),
    )


def _reply_options(
    body: dict[str, Any],
    values: dict[str, Any],
    chain: Chain,
    stop: tuple[str, ...],
    extra: dict[str, Any],
    prompts: int,
) -> ReplyOptions:
    return ReplyOptions(
        settings=generation_settings(values, chain, stop, read_reasoning_format(body), extra),
        results=prompts * values["n_cmpl"],
        answers=values["n_cmpl"],
        return_tokens=values["return_tokens"],
        response_fields=read_response_fields(body),
        probabilities=values["n_probs"] > 0,
        post_sampling=values["post_sampling_probs"],
        timings_per_token=values["timings_per_token"],
    )


def _lacks_infill(card: ModelCard | None) -> bool:
    """Whether the engine has no stage of that name: editors ask for it with every request, and it only makes answers
    end sooner."""
    return card is not None and card.engine != "llamacpp"


def _shown_lora(places: tuple[tuple[int, float], ...]) -> list[dict[str, int | float]]:
    return [{"id": place, "scale": as_float32(scale)} for place, scale in places]


def _shown_chat(body: dict[str, Any]) -> dict[str, Any]:
    prompt = body.get("generation_prompt")
    return {} if prompt is None else {"generation_prompt": prompt}


def _max_tokens(n_predict: int) -> int | None:
    """-1 is the room left. The budget is looked at after a token is sampled, so 0 still gives one."""
    return None if n_predict < 0 else max(1, n_predict)
