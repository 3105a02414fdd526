"""The contract between a dialect folder and everyone else: endpoint rows, calls, writers, error envelopes.

A dialect is data plus pure functions. `read` functions run on the event loop and must not block; they raise the
errors of `core.errors`. Writers live for one reply and are used from one coroutine.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from types import UnionType
from typing import Any, Literal, Protocol

from msgspec import Struct, field

from dragoman.core.answer import Answer
from dragoman.core.edits import AppliedEdit
from dragoman.core.errors import DragomanError
from dragoman.core.events import Event
from dragoman.core.inforce import InForce
from dragoman.core.model import ModelCard
from dragoman.core.operations import Counted, SmallRequest, SmallResult
from dragoman.core.request import Request
from dragoman.core.responses import Recalled, ResponseEvent, ResponseInput, ResponseLookup, ResponsePlan, ResponseRecord
from dragoman.core.signatures import ThoughtSigner


class UploadedFile(Struct, frozen=True, kw_only=True):
    """A file part of a form. `name` as the client calls it, without folders; `path` is where its bytes are until the
    call is over, unless they are moved; `size` in bytes."""

    name: str
    content_type: str
    path: str
    size: int


class Form(Struct, frozen=True, kw_only=True):
    """A multipart/form-data body; the last of a repeated name counts."""

    fields: Mapping[str, str]
    files: Mapping[str, UploadedFile]


class WireRequest(Struct, frozen=True, kw_only=True):
    """A request as it arrived. Header names are lower case; `params` are the decoded path parameters; `form`
    stands in place of `body` for endpoints that take a form. `card_of` gives the card of the model a name means, with
    the server's own defaults among its `sampling_defaults`; None where nobody knows."""

    method: str
    path: str
    body: bytes = b""
    params: Mapping[str, str] = field(default_factory=dict[str, str])
    query: Mapping[str, str] = field(default_factory=dict[str, str])
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    form: Form | None = None
    card_of: Callable[[str | None], ModelCard] | None = None


class ByteStream(Struct, frozen=True, kw_only=True):
    """A body that is sent in pieces, with status 200; `size` in bytes when it is known. `pieces` are read to their end
    or closed."""

    pieces: AsyncGenerator[bytes]
    size: int | None = None
    content_type: str = ""
    headers: dict[str, str] = field(default_factory=dict[str, str])


class Frame(Struct, frozen=True):
    """One unit of a stream: the payload, and for SSE the event name ('' for none)."""

    data: bytes
    event: str = ""


class ReplyContext(Struct, frozen=True, kw_only=True):
    """What a writer may know beside events: the served model, when (Unix seconds), this request's id, what each of its
    requests came to, who signs its thoughts, and what was left out of the conversation."""

    card: ModelCard
    created: int
    request_id: str
    in_force: tuple[InForce, ...] = ()
    signer: ThoughtSigner | None = None
    edits: tuple[AppliedEdit, ...] = ()


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

    `ignored` names fields that were accepted though this server does not know them. `agent` says for which agent's
    protocol it was read, and why, '' for none. `keep_alive` is for how many seconds from now on the client wants the
    model loaded (infinity: for ever), None where it says nothing.
    """

    requests: tuple[Request, ...]
    stream: bool
    writer: Callable[[ReplyContext], Writer]
    ignored: tuple[str, ...] = ()
    agent: str = ""
    keep_alive: float | None = None


class SmallCall(Struct, frozen=True, kw_only=True):
    """A small operation as read off a wire, and how its result is written, with the status of its row. `content_type`
    '' is the dialect's own; `keep_alive` as for a generation, of the model named `model`."""

    request: SmallRequest
    write: Callable[[Any], bytes | ByteStream]
    ignored: tuple[str, ...] = ()
    content_type: str = ""
    keep_alive: float | None = None
    model: str | None = None


class StaticCall(Struct, frozen=True, kw_only=True):
    """An answer that needs nobody: the body is known already."""

    body: bytes
    content_type: str = "application/json"
    status: int = 200


class KeptStream(Struct, frozen=True, kw_only=True):
    """A stream that is kept for its client to come back to. Times in Unix seconds; `bytes` since its beginning."""

    conversation: str
    done: bool
    bytes: int
    began: int
    ended: int | None


class ResumeCall(Struct, frozen=True, kw_only=True):
    """The rest of a kept stream, from a byte on. `lost` is raised when these bytes are no longer kept."""

    conversation: str
    offset: int
    lost: DragomanError


class KeptCall(Struct, frozen=True, kw_only=True):
    """Which streams of these conversations are kept."""

    conversations: tuple[str, ...]
    write: Callable[[tuple[KeptStream, ...]], bytes]


class DropCall(Struct, frozen=True, kw_only=True):
    """Cancel a conversation's stream and forget it. Answered with status 204 whether there was one or not."""

    conversation: str


class EndThoughtCall(Struct, frozen=True, kw_only=True):
    """Let the answer with this id, which runs, end its thought. `write` is told whether there was one to be ended, None
    where no such answer runs."""

    id: str
    write: Callable[[bool | None], bytes]


class ResponseWriter(Writer, Protocol):
    """Writes a response that may be kept: it can be asked at any time how that stands."""

    def queued(self) -> list[Frame]:
        """The first frames of a response whose turn has not come."""
        ...

    def stopped(self) -> list[Frame]:
        """The last frames of a response that its client cancelled."""
        ...

    def record(self) -> ResponseRecord:
        """The response after the events so far."""
        ...


class ResponseCall(Struct, frozen=True, kw_only=True):
    """A generation that may continue an earlier one and be kept itself. `build` makes the request once everything is
    found that `plan` names; it raises as a read does. `agent` says for which agent's protocol, and why, '' for none."""

    plan: ResponsePlan
    build: Callable[[Recalled], ResponseInput]
    stream: bool
    writer: Callable[[ReplyContext], ResponseWriter]
    ignored: tuple[str, ...] = ()
    agent: str = ""


class ResponseCount(Struct, frozen=True, kw_only=True):
    """A response that is not to be answered: the tokens of its prompt are wanted."""

    plan: ResponsePlan
    build: Callable[[Recalled], ResponseInput]
    write: Callable[[Counted], bytes]
    ignored: tuple[str, ...] = ()


class ResponseReplay(Struct, frozen=True, kw_only=True):
    """The stream of a kept response behind the event numbered `after`, those to come included. `events` makes it anew
    from the body where only that was kept."""

    lookup: ResponseLookup
    after: int
    events: Callable[[bytes], tuple[ResponseEvent, ...]]


Call = (
    GenerateCall
    | SmallCall
    | StaticCall
    | ResumeCall
    | KeptCall
    | DropCall
    | EndThoughtCall
    | ResponseCall
    | ResponseCount
    | ResponseReplay
)


class Endpoint(Struct, frozen=True, kw_only=True):
    """One row of a dialect's table.

    `path` uses `{name}` for one segment and `{name:path}` for the rest; `body` is the msgspec type of the JSON body
    (None: no body), used for the OpenAPI document; `public` rows need no API key. `form` is a msgspec type that
    describes a multipart/form-data body; where it is set, the request has a `form` and no `body`. `answer` and `frame`
    are the msgspec types of the whole JSON body and of one JSON frame of a stream, None where they are not told;
    `query` is a struct with the fields of the query string. `status` is that of success, `content_type` the media type
    of its body where that is not the dialect's own; `errors` are those of this route that not every route can have.
    With `when`, the row is for requests whose headers it is true of; others go to the row of the same method and path
    without it. With `keys`, it is for JSON bodies that have all keys of one of the sets, and other bodies go to the row
    without any. With `upload`, the body is a file of any size, which comes as the only one of a `form`.
    """

    method: Literal["GET", "POST", "DELETE", "HEAD"]
    path: str
    summary: str
    read: Callable[[WireRequest], Call]
    body: type[Any] | None = None
    public: bool = False
    form: type[Any] | None = None
    answer: type[Any] | UnionType | None = None
    frame: type[Any] | UnionType | None = None
    when: Callable[[Mapping[str, str]], bool] | None = None
    keys: tuple[frozenset[str], ...] = ()
    upload: bool = False
    query: type[Any] | None = None
    status: int = 200
    content_type: str = ""
    errors: tuple[type[DragomanError], ...] = ()


class ErrorReply(Struct, frozen=True):
    """An error in a dialect's envelope."""

    status: int
    body: bytes


class Dialect(Struct, frozen=True, kw_only=True):
    """A wire. `stream_type` is the content type of streams; `ping` the frame sent in silence (None: an SSE comment,
    or nothing on NDJSON); `prefixes` the paths whose unknown routes get this dialect's error envelope (longest
    match wins); `request_id_header` carries the request id; `request_id_prefix` starts it. `error_body` is the msgspec
    type of the error envelope, None where it is not told."""

    name: str
    endpoints: tuple[Endpoint, ...]
    error: Callable[[DragomanError, str], ErrorReply]
    stream_type: Literal["text/event-stream", "application/x-ndjson"] = "text/event-stream"
    ping: Frame | None = None
    prefixes: tuple[str, ...] = ()
    request_id_header: str = "x-request-id"
    request_id_prefix: str = "req_"
    content_type: str = "application/json"
    error_body: type[Any] | None = None


__all__ = [
    "ByteStream",
    "Call",
    "Dialect",
    "DropCall",
    "EndThoughtCall",
    "Endpoint",
    "ErrorReply",
    "Form",
    "Frame",
    "GenerateCall",
    "KeptCall",
    "KeptStream",
    "ReplyContext",
    "ResponseCall",
    "ResponseCount",
    "ResponseReplay",
    "ResponseWriter",
    "ResumeCall",
    "SmallCall",
    "SmallResult",
    "StaticCall",
    "UploadedFile",
    "WireRequest",
    "Writer",
]
