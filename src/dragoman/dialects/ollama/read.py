"""Ollama's chat and generate bodies to core requests. Decides nothing about models or engines."""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec

from dragoman.core.errors import InvalidField, UnsupportedField
from dragoman.core.messages import Message, TextPart
from dragoman.core.operations import CountRequest
from dragoman.core.request import ChatInput, InfillInput, Input, OutputFormat, RawInput, Request, Thinking
from dragoman.dialects.base import GenerateCall, SmallCall, WireRequest
from dragoman.dialects.decoding import unknown_fields
from dragoman.dialects.ollama.body import decode_body
from dragoman.dialects.ollama.keep import read_keep_alive
from dragoman.dialects.ollama.messages import images_of, read_messages, read_tools
from dragoman.dialects.ollama.options import read_options
from dragoman.dialects.ollama.schema import AnswerBody, ChatBody, GenerateBody
from dragoman.dialects.ollama.stamp import Stamp
from dragoman.dialects.ollama.write import CHAT, GENERATE, AnswerWriter, ReplyOptions, Shape

_EFFORTS = ("low", "medium", "high", "max")
MOST_LOGPROBS = 20
_NO_CUT = 2**31 - 1


def read_chat(wire: WireRequest) -> GenerateCall | SmallCall:
    """POST /api/chat. No messages: only asks for the model to be loaded."""
    fields, body = decode_body(wire, ChatBody)
    if not body.messages:
        return _load(fields, body, CHAT)
    chat = ChatInput(
        messages=read_messages(body.messages),
        tools=read_tools(body.tools),
        thinking=read_thinking(body.think),
    )
    return _call(fields, body, chat, CHAT)


def read_generate(wire: WireRequest) -> GenerateCall | SmallCall:
    """POST /api/generate. An empty prompt only asks for the model to be loaded."""
    fields, body = decode_body(wire, GenerateBody)
    _refuse_contradictions(body)
    if not body.prompt and not body.images and not body.suffix:
        return _load(fields, body, GENERATE)
    return _call(fields, body, _generate_input(body), GENERATE)


def read_format(value: str | dict[str, Any] | None) -> OutputFormat | None:
    """`json` for any JSON, a schema for JSON of its kind."""
    if value is None or value == "":
        return None
    if isinstance(value, dict):
        return OutputFormat("json_schema", msgspec.json.encode(value).decode(), "format")
    if value == "json":
        return OutputFormat("json", field="format")
    raise InvalidField(f"invalid format: '{value}'; expected 'json' or a JSON schema", field="format")


def read_thinking(value: bool | str | None) -> Thinking:
    """On, off, or on with an effort."""
    if value is None or value == "":
        return Thinking()
    if isinstance(value, bool):
        return Thinking("on" if value else "off")
    if value in _EFFORTS:
        return Thinking("on", effort=value)
    known = ", ".join(f"'{effort}'" for effort in _EFFORTS)
    raise InvalidField(f"invalid think value: '{value}' (must be {known}, true, or false)", field="think")


def _call(fields: dict[str, Any], body: AnswerBody, prompt: Input, shape: Shape) -> GenerateCall:
    options = read_options(body.options)
    logprobs = _read_logprobs(body)
    request = Request(
        input=prompt,
        model=body.model,
        sampling=options.sampling,
        max_tokens=options.max_tokens,
        stop=options.stop,
        format=read_format(body.format),
        logprobs=logprobs,
    )
    context = shape is GENERATE and isinstance(prompt, ChatInput)
    reply = ReplyOptions(model=body.model or "", shape=shape, logprobs=logprobs is not None, context=context)
    return GenerateCall(
        requests=(request,),
        stream=body.stream is not False,
        writer=partial(AnswerWriter, reply),
        keep_alive=read_keep_alive(body.keep_alive),
        # A prompt that does not fit is refused, so a wish to have it cut has no effect.
        ignored=(*unknown_fields(fields, type(body)), *(("truncate",) if body.truncate else ()), *options.ignored),
    )


def _load(fields: dict[str, Any], body: AnswerBody, shape: Shape) -> SmallCall:
    """Counting nothing resolves the model's name exactly as a generation would. A model that is to be kept for no time
    is told to be unloaded."""
    options = read_options(body.options)
    seconds = read_keep_alive(body.keep_alive)
    reason = "load" if seconds else "unload"

    def write(_: object) -> bytes:
        told = {"response": ""} if shape is GENERATE else {"message": {"role": "assistant", "content": ""}}
        created = Stamp().now().decode()
        return msgspec.json.encode(
            {"model": body.model, "created_at": created, **told, "done": True, "done_reason": reason}
        )

    nothing = Request(input=RawInput(("",)), model=body.model)
    return SmallCall(
        request=CountRequest(nothing),
        write=write,
        ignored=(*unknown_fields(fields, type(body)), *options.ignored),
        keep_alive=seconds,
        model=body.model,
    )


def _read_logprobs(body: AnswerBody) -> int | None:
    top = body.top_logprobs or 0
    if not 0 <= top <= MOST_LOGPROBS:
        raise InvalidField(f"top_logprobs must be between 0 and {MOST_LOGPROBS}", field="top_logprobs")
    return top if body.logprobs else None


def _refuse_contradictions(body: GenerateBody) -> None:
    shaping = (
        ("template", body.template),
        ("system", body.system),
        ("context", body.context),
        ("images", body.images),
    )
    given = [name for name, value in shaping if value]
    if body.raw and given:
        raise UnsupportedField("raw mode does not support template, system, context or images", field=given[0])
    if body.suffix and given:
        raise UnsupportedField(f"'{given[0]}' cannot be used together with 'suffix'", field=given[0])


def _generate_input(body: GenerateBody) -> Input:
    prompt = body.prompt or ""
    if body.suffix:
        return InfillInput(prefix="", suffix=body.suffix, prompt=RawInput((prompt,)), batch=_NO_CUT, field="suffix")
    if body.raw:
        return RawInput((prompt,))
    system = (Message("system", (TextPart(body.system),)),) if body.system else ()
    texts = (TextPart(prompt),) if prompt else ()
    user = Message("user", (*images_of(body.images), *texts))
    return ChatInput(
        messages=(*system, user),
        thinking=read_thinking(body.think),
        context=tuple(body.context or ()),
        template=body.template or "",
    )
