"""Responses requests -> core. Runs nothing and knows no model."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from dragoman.core.errors import MissingField
from dragoman.core.messages import Message, TextPart
from dragoman.core.request import ChatInput, Request
from dragoman.core.responses import Recalled, ResponseInput, ResponsePlan
from dragoman.dialects.base import ResponseCall, ResponseCount, WireRequest
from dragoman.dialects.decoding import convert, decode_object
from dragoman.dialects.openai_fields import read_cache, read_ignored, read_max_tokens, read_stop
from dragoman.dialects.openai_responses.compat import agent_of
from dragoman.dialects.openai_responses.fields import (
    ENCRYPTED,
    check_create,
    check_fields,
    read_include,
    read_logprobs,
    read_text_format,
    read_thinking,
    read_truncation,
    wants_summary,
)
from dragoman.dialects.openai_responses.ids import new_response_id
from dragoman.dialects.openai_responses.items import (
    Item,
    item_list,
    kept_items,
    named_in,
    read_items,
    references,
    resolved,
    skipped,
)
from dragoman.dialects.openai_responses.schema import CountInput, CreateResponse, InputFields
from dragoman.dialects.openai_responses.tools import ToolSetup, read_tools
from dragoman.dialects.openai_responses.write import ResponseReply, ResponsesWriter, counted
from dragoman.dialects.openai_sampling import read_sampling


class _Base(Struct, frozen=True):
    """What a request and a count have in common, read once."""

    body: InputFields
    items: list[Item]
    tools: ToolSetup

    def chat(self, messages: tuple[Message, ...]) -> ChatInput:
        """The conversation with everything that shapes its prompt."""
        return ChatInput(
            messages=messages,
            tools=self.tools.tools,
            tool_choice=self.tools.choice,
            parallel_tool_calls=self.tools.parallel,
            thinking=read_thinking(self.body),
            template_kwargs=self.body.chat_template_kwargs or {},
        )

    def plan(self, id: str) -> ResponsePlan:
        """What the input names."""
        return ResponsePlan(
            id=id,
            previous=self.body.previous_response_id,
            references=tuple(references(self.items)),
            files=tuple(named_in(self.items, "file_id")),
            truncate=read_truncation(self.body),
        )


def read_response(wire: WireRequest) -> ResponseCall:
    """POST /v1/responses. Raises InvalidRequest and its kin naming the field."""
    value = decode_object(wire.body)
    body = convert(value, CreateResponse)
    ignored = read_ignored(value, CreateResponse)
    check_create(body)
    base = _base(body)
    include = read_include(body.include)
    id, stream, store = new_response_id(), body.stream is True, body.store is not False
    template = Request(
        input=base.chat(()),
        model=body.model,
        sampling=read_sampling(body),
        max_tokens=read_max_tokens(body),
        stop=read_stop(body.stop),
        format=read_text_format(body),
        logprobs=read_logprobs(body, include),
        progress=stream and body.return_progress is True,
        cache=read_cache(body, wire.headers),
    )
    reply = ResponseReply(
        id=id,
        body=body,
        tools=base.tools,
        summaries=wants_summary(body),
        logprobs=template.logprobs is not None,
        encrypted=ENCRYPTED in include,
        phases=bool(agent_of(wire.headers)) or any("phase" in item for item in base.items),
    )
    plan = _planned(base.plan(id), store=store, background=body.background is True, stream=stream)
    return ResponseCall(
        plan=plan,
        build=lambda recalled: _build(base, template, recalled, id),
        stream=stream,
        writer=lambda context: ResponsesWriter(context, reply),
        ignored=ignored + base.tools.hosted + skipped(base.items),
        agent=agent_of(wire.headers),
    )


def read_count(wire: WireRequest) -> ResponseCount:
    """POST /v1/responses/input_tokens."""
    value = decode_object(wire.body)
    body = convert(value, CountInput)
    check_fields(body)
    base = _base(body)
    template = Request(input=base.chat(()), model=body.model, format=read_text_format(body))
    id = new_response_id()
    return ResponseCount(
        plan=base.plan(id),
        build=lambda recalled: _build(base, template, recalled, id),
        write=counted,
        ignored=read_ignored(value, CountInput) + base.tools.hosted + skipped(base.items),
    )


def _base(body: InputFields) -> _Base:
    if body.input is None and body.previous_response_id is None:
        raise MissingField("The field 'input' is required.", field="input")
    return _Base(body, item_list(body.input), read_tools(body))


def _planned(plan: ResponsePlan, *, store: bool, background: bool, stream: bool) -> ResponsePlan:
    return replace(plan, store=store, background=background, events=stream)


def _build(base: _Base, template: Request, recalled: Recalled, id: str) -> ResponseInput:
    items = resolved(base.items, recalled.referenced)
    own = read_items(items, recalled)
    context = (*recalled.history, *own)
    messages = (*_instructions(base.body, recalled), *context)
    return ResponseInput(
        request=replace(template, input=base.chat(messages)),
        context=context,
        items=(*recalled.items, *kept_items(items, id)),
    )


def _instructions(body: InputFields, recalled: Recalled) -> tuple[Message, ...]:
    """Instructions come first; those of the response that is continued are not carried over."""
    given = body.instructions
    if not given:
        return ()
    if isinstance(given, str):
        return (Message("system", (TextPart(given),)),)
    return read_items(given, recalled)
