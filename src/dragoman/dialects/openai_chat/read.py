"""Chat Completions requests -> core. Runs nothing and knows no model."""

from __future__ import annotations

from typing import Any

from dragoman.core.errors import InvalidField, UnsupportedField
from dragoman.core.messages import Message
from dragoman.core.request import ChatInput, Request
from dragoman.dialects.base import GenerateCall, WireRequest
from dragoman.dialects.decoding import convert, decode_object
from dragoman.dialects.openai_chat.messages import read_messages
from dragoman.dialects.openai_chat.schema import ChatCompletionRequest
from dragoman.dialects.openai_chat.thinking import read_thinking, shows_thoughts
from dragoman.dialects.openai_chat.tools import ToolSetup, read_tools
from dragoman.dialects.openai_chat.write import ChatReply, ChatWriter
from dragoman.dialects.openai_fields import (
    StreamOptions,
    ranged_int,
    read_cache,
    read_ignored,
    read_max_tokens,
    read_n,
    read_stop,
)
from dragoman.dialects.openai_format import read_format
from dragoman.dialects.openai_labels import check_labels, check_prediction, check_verbosity
from dragoman.dialects.openai_options import flattened, told_as
from dragoman.dialects.openai_sampling import read_sampling

MAX_TOP_LOGPROBS = 20


def read_chat(wire: WireRequest) -> GenerateCall:
    """POST /v1/chat/completions. Raises InvalidRequest and its kin naming the field."""
    flat = flattened(decode_object(wire.body))
    with told_as(flat.moved):
        return _read(wire, flat.value, flat.ignored)


def _read(wire: WireRequest, value: dict[str, Any], ignored: tuple[str, ...]) -> GenerateCall:
    body = convert(value, ChatCompletionRequest)
    ignored += read_ignored(value, ChatCompletionRequest)
    _check(body)
    tools = read_tools(body)
    n = read_n(body.n)
    stream = body.stream is True
    request = Request(
        input=_input(body, tools),
        model=body.model,
        sampling=read_sampling(body),
        max_tokens=read_max_tokens(body),
        stop=read_stop(body.stop),
        n=n,
        format=read_format(body),
        logprobs=_logprobs(body),
        progress=stream and body.return_progress is True,
        cache=read_cache(body, wire.headers),
    )
    options = body.stream_options or StreamOptions()
    reply = ChatReply(
        n=n,
        include_usage=options.include_usage is True,
        running_usage=options.continuous_usage_stats is True,
        logprobs=request.logprobs is not None,
        legacy_calls=tools.legacy,
        thoughts=shows_thoughts(body),
        timings=body.timings is True or body.timings_per_token is True,
        verbose=body.verbose is True,
    )
    return GenerateCall(
        requests=(request,),
        stream=stream,
        writer=lambda context: ChatWriter(context, reply),
        ignored=ignored + tools.ignored,
    )


def _input(body: ChatCompletionRequest, tools: ToolSetup) -> ChatInput:
    messages = read_messages(body.messages)
    continues = body.continue_final_message is True
    if continues:
        _check_continuation(body, messages)
    return ChatInput(
        messages=messages,
        tools=tools.tools,
        tool_choice=tools.choice,
        parallel_tool_calls=tools.parallel,
        thinking=read_thinking(body),
        add_generation_prompt=not continues and body.add_generation_prompt is not False,
        continue_final=continues,
        template_kwargs=body.chat_template_kwargs or {},
    )


def _check_continuation(body: ChatCompletionRequest, messages: tuple[Message, ...]) -> None:
    name = "continue_final_message"
    if body.add_generation_prompt is True:
        raise InvalidField(f"'{name}' and 'add_generation_prompt' exclude each other.", field=name)
    if messages[-1].role != "assistant":
        raise InvalidField(f"'{name}' needs a last message of role assistant.", field=name)


def _logprobs(body: ChatCompletionRequest) -> int | None:
    """Alternatives per token, None for no logprobs; -1 is mlx_lm.server's way to leave `top_logprobs` unset."""
    top = ranged_int(body.top_logprobs, "top_logprobs", -1, MAX_TOP_LOGPROBS)
    wanted = None if top in (None, -1) else top
    if body.logprobs is True:
        return wanted or 0
    if wanted:
        raise InvalidField("'top_logprobs' needs 'logprobs' to be true.", field="top_logprobs")
    return None


def _check(body: ChatCompletionRequest) -> None:
    """What cannot change a local answer must still be well formed; answers other than text are refused."""
    check_labels(body)
    check_verbosity(body.verbosity)
    check_prediction(body.prediction)
    if any(kind != "text" for kind in body.modalities or ()):
        raise UnsupportedField("This server answers in text only.", field="modalities", remedy='Use ["text"].')
