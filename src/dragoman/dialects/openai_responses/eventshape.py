"""The shapes of the events of a response's stream, for the OpenAPI document. The writer makes them from pieces; a test
holds the two together."""

from __future__ import annotations

from msgspec import Struct

from dragoman.dialects.openai_responses.shape import Item, Part, ResponseObject, TokenLogprob


class Event(Struct, frozen=True, kw_only=True, tag_field="type"):
    """Every event has its place in the stream, from 0."""

    sequence_number: int


class Progress(Struct, frozen=True, kw_only=True):
    """How far the prompt has been read: tokens, and milliseconds since the beginning."""

    total: int
    cached: int
    processed: int
    time_ms: int


class Created(Event, frozen=True, kw_only=True, tag="response.created"):
    """The response exists."""

    response: ResponseObject


class Queued(Event, frozen=True, kw_only=True, tag="response.queued"):
    """It waits for its turn, in the background."""

    response: ResponseObject


class InProgress(Event, frozen=True, kw_only=True, tag="response.in_progress"):
    """It is being answered; `prompt_progress` where that was asked for."""

    response: ResponseObject
    prompt_progress: Progress | None = None


class Completed(Event, frozen=True, kw_only=True, tag="response.completed"):
    """It is whole."""

    response: ResponseObject


class Incomplete(Event, frozen=True, kw_only=True, tag="response.incomplete"):
    """The limit or the window cut it."""

    response: ResponseObject


class Failed(Event, frozen=True, kw_only=True, tag="response.failed"):
    """It ended with an error."""

    response: ResponseObject


class Cancelled(Event, frozen=True, kw_only=True, tag="response.cancelled"):
    """Its client stopped it."""

    response: ResponseObject


class ItemAdded(Event, frozen=True, kw_only=True, tag="response.output_item.added"):
    """An item begins."""

    output_index: int
    item: Item


class ItemDone(Event, frozen=True, kw_only=True, tag="response.output_item.done"):
    """An item is whole."""

    output_index: int
    item: Item


class Place(Event, frozen=True, kw_only=True):
    """About one item."""

    item_id: str
    output_index: int


class ContentPlace(Place, frozen=True, kw_only=True):
    """About one part of a message, or of a thought shown as such."""

    content_index: int


class SummaryPlace(Place, frozen=True, kw_only=True):
    """About one part of a summary."""

    summary_index: int


class PartAdded(ContentPlace, frozen=True, kw_only=True, tag="response.content_part.added"):
    """A part begins."""

    part: Part


class PartDone(ContentPlace, frozen=True, kw_only=True, tag="response.content_part.done"):
    """A part is whole."""

    part: Part


class TextDelta(ContentPlace, frozen=True, kw_only=True, tag="response.output_text.delta"):
    """A piece of text."""

    delta: str
    logprobs: list[TokenLogprob]


class TextDone(ContentPlace, frozen=True, kw_only=True, tag="response.output_text.done"):
    """The whole text."""

    text: str
    logprobs: list[TokenLogprob]


class RefusalDelta(ContentPlace, frozen=True, kw_only=True, tag="response.refusal.delta"):
    """A piece of a refusal."""

    delta: str


class RefusalDone(ContentPlace, frozen=True, kw_only=True, tag="response.refusal.done"):
    """The whole refusal."""

    refusal: str


class ThoughtDelta(ContentPlace, frozen=True, kw_only=True, tag="response.reasoning_text.delta"):
    """A piece of a thought."""

    delta: str


class ThoughtDone(ContentPlace, frozen=True, kw_only=True, tag="response.reasoning_text.done"):
    """The whole thought."""

    text: str


class SummaryAdded(SummaryPlace, frozen=True, kw_only=True, tag="response.reasoning_summary_part.added"):
    """A part of a summary begins."""

    part: Part


class SummaryDone(SummaryPlace, frozen=True, kw_only=True, tag="response.reasoning_summary_part.done"):
    """A part of a summary is whole."""

    part: Part


class SummaryTextDelta(SummaryPlace, frozen=True, kw_only=True, tag="response.reasoning_summary_text.delta"):
    """A piece of a summary."""

    delta: str


class SummaryTextDone(SummaryPlace, frozen=True, kw_only=True, tag="response.reasoning_summary_text.done"):
    """The whole summary."""

    text: str


class ArgumentsDelta(Place, frozen=True, kw_only=True, tag="response.function_call_arguments.delta"):
    """A piece of the arguments, which are JSON text."""

    delta: str


class ArgumentsDone(Place, frozen=True, kw_only=True, tag="response.function_call_arguments.done"):
    """The whole arguments."""

    name: str
    arguments: str


class InputDelta(Place, frozen=True, kw_only=True, tag="response.custom_tool_call_input.delta"):
    """A piece of the input of a custom tool."""

    delta: str


class InputDone(Place, frozen=True, kw_only=True, tag="response.custom_tool_call_input.done"):
    """The whole input of a custom tool."""

    input: str


ResponseStreamEvent = (
    Created | Queued | InProgress | Completed | Incomplete | Failed | Cancelled | ItemAdded | ItemDone
    | PartAdded | PartDone | TextDelta | TextDone | RefusalDelta | RefusalDone | ThoughtDelta | ThoughtDone
    | SummaryAdded | SummaryDone | SummaryTextDelta | SummaryTextDone | ArgumentsDelta | ArgumentsDone
    | InputDelta | InputDone
)  # fmt: skip
