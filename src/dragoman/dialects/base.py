"""The contract between a dialect folder and everyone else: endpoint rows, calls, writers, error envelopes.

A dialect is data plus pure functions. `read` functions run on the event loop and must not block; they raise the
errors of `core.errors`. Writers live for one reply and are used from one coroutine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, Protocol

from msgspec import Struct, field

from dragoman.core.answer import Answer
from dragoman.core.errors import DragomanError
from dragoman.core.events import Event
from dragoman.core.model import ModelCard
from dragoman.core.operations import SmallRequest, SmallResult
from dragoman.core.request import Request


class WireRequest(Struct, frozen=True, kw_only=True):
    """A request as it arrived. Header names are lower case; `params` are the decoded path parameters."""

    method: str
    path: str
    body: bytes = b""
    params: Mapping[str, str] = field(default_factory=dict[str, str])
    query: Mapping[str, str] = field(default_factory=dict[str, str])
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


class Frame(Struct, frozen=True):
    """One unit of a stream: the payload, and for SSE the event name ('' for none)."""

    data: bytes
    event: str = ""


class ReplyContext(Struct, frozen=True, kw_only=True):
    """What a writer may know beside events: the served model, when (Unix seconds), and this request's id."""

    card: ModelCard
    created: int
    request_id: str


class Writer(Protocol):
    """Writes one reply, either as frames or whole; the frames folded by a client equal the whole."""

    def frames(self, event: Event) -> list[Frame]:
        """Frames for one event, in order; often none. `Failed` becomes this wire's error event."""
        ...

    def end(self) -> list[Frame]:
        """Frames after every choice has finished (usage, end marks). Not called after `Failed`."""
        ...

    def whole(self, answer: Answer) -> bytes:
        """The whole body."""
        ...


class GenerateCall(Struct, frozen=True, kw_only=True):
    """A generation as read off a wire. Choices are numbered request-major: request r, answer i -> r * n + i.

    `ignored` names fields that were accepted though this server does not know them.
    """

    requests: tuple[Request, ...]
    stream: bool
    writer: Callable[[ReplyContext], Writer]
    ignored: tuple[str, ...] = ()


class SmallCall(Struct, frozen=True, kw_only=True):
    """A small operation as read off a wire, and how its result is written. `content_type` '' is the dialect's own."""

    request: SmallRequest
    write: Callable[[Any], bytes]
    ignored: tuple[str, ...] = ()
    content_type: str = ""


class StaticCall(Struct, frozen=True, kw_only=True):
    """An answer that needs nobody: the body is known already."""

    body: bytes
    content_type: str = "application/json"


Call = GenerateCall | SmallCall | StaticCall


class Endpoint(Struct, frozen=True, kw_only=True):
    """One row of a dialect's table.

    `path` uses `{name}` for one segment and `{name:path}` for the rest; `body` is the msgspec type of the JSON body
    (None: no body), used for the OpenAPI document; `public` rows need no API key.
    """

    method: Literal["GET", "POST", "DELETE", "HEAD"]
    path: str
    summary: str
    read: Callable[[WireRequest], Call]
    body: type[Any] | None = None
    public: bool = False


class ErrorReply(Struct, frozen=True):
    """An error in a dialect's envelope."""

    status: int
    body: bytes


class Dialect(Struct, frozen=True, kw_only=True):
    """A wire. `stream_type` is the content type of streams; `ping` the frame sent in silence (None: an SSE comment,
    or nothing on NDJSON); `prefixes` the paths whose unknown routes get this dialect's error envelope (longest
    match wins); `request_id_header` carries the request id; `request_id_prefix` starts it."""

    name: str
    endpoints: tuple[Endpoint, ...]
    error: Callable[[DragomanError, str], ErrorReply]
    stream_type: Literal["text/event-stream", "application/x-ndjson"] = "text/event-stream"
    ping: Frame | None = None
    prefixes: tuple[str, ...] = ()
    request_id_header: str = "x-request-id"
    request_id_prefix: str = "req_"
    content_type: str = "application/json"


__all__ = [
    "Call",
    "Dialect",
    "Endpoint",
    "ErrorReply",
    "Frame",
    "GenerateCall",
    "ReplyContext",
    "SmallCall",
    "SmallResult",
    "StaticCall",
    "WireRequest",
    "Writer",
]
