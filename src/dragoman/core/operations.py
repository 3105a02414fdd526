"""Requests and results of the small operations beside generation. Knows no wire."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from dragoman.core.batches import BatchRequest, BatchResult
from dragoman.core.files import FileRequest, FileResult
from dragoman.core.model import ModelCard
from dragoman.core.names import NamedModel, NameRequest, NameResult
from dragoman.core.request import ChatInput, RawInput, Request
from dragoman.core.responses import ResponseRequest, ResponseResult
from dragoman.core.slots import (
    AdapterMount,
    Adapters,
    AdaptersRequest,
    AdapterUnmount,
    Slot,
    SlotActed,
    SlotAction,
    SlotsRequest,
)
from dragoman.core.vectors import Embedded, EmbedRequest, Reranked, RerankRequest


class TokenizeRequest(Struct, frozen=True):
    """A prompt to be tokenised as it would be for an answer."""

    input: RawInput | ChatInput
    model: str | None = None


class Tokenized(Struct, frozen=True):
    """Ids and, index by index, the bytes each stands for."""

    ids: tuple[int, ...]
    pieces: tuple[bytes, ...]


class DetokenizeRequest(Struct, frozen=True):
    """Ids to be turned into text, special tokens spelled out."""

    ids: tuple[int, ...]
    model: str | None = None


class Detokenized(Struct, frozen=True):
    """Text; bytes that are not UTF-8 are replaced by U+FFFD."""

    text: str


class RenderRequest(Struct, frozen=True):
    """A conversation whose prompt text is wanted."""

    input: ChatInput
    model: str | None = None


class Rendered(Struct, frozen=True):
    """The prompt text the model would see."""

    text: str


class CountRequest(Struct, frozen=True):
    """A generation request whose prompt tokens are to be counted, not run."""

    request: Request


class Counted(Struct, frozen=True):
    """Tokens of the prompt, exactly as generation would count them; `original_tokens` before the request's edits."""

    prompt_tokens: int
    original_tokens: int = 0


class ModelsRequest(Struct, frozen=True):
    """All served models; with `shelved` those too that are on this machine's disk and not loaded, behind the others."""

    shelved: bool = False


class ModelRequest(Struct, frozen=True):
    """One served model by any of its names; None asks for the default model. With `shelved` it may be one that is not
    loaded."""

    name: str | None
    shelved: bool = False


class HealthRequest(Struct, frozen=True):
    """Whether the server can answer."""


class Health(Struct, frozen=True):
    """`loading` and `draining` answer 503, `failed` tells that the engine gave up."""

    status: Literal["ok", "loading", "draining", "failed"]
    detail: str = ""


class ModelState(Struct, frozen=True):
    """A served model with what it is doing now, or with `loaded` False one that is on disk only. `named` is the name a
    client gave it, where it was asked for or is listed by that. `expires` is when, in Unix seconds, the client that
    used it last wanted it unloaded; None: never."""

    card: ModelCard
    busy: int = 0
    waiting: int = 0
    loaded: bool = True
    named: NamedModel | None = None
    expires: float | None = None


class VersionRequest(Struct, frozen=True):
    """The version of this server."""


class Version(Struct, frozen=True):
    """A PEP 440 version."""

    version: str


class MetricsRequest(Struct, frozen=True):
    """All counters and gauges."""


class Metrics(Struct, frozen=True):
    """Prometheus text exposition, format 0.0.4."""

    text: bytes


SmallRequest = (
    TokenizeRequest
    | DetokenizeRequest
    | RenderRequest
    | CountRequest
    | ModelsRequest
    | ModelRequest
    | HealthRequest
    | VersionRequest
    | MetricsRequest
    | EmbedRequest
    | RerankRequest
    | FileRequest
    | BatchRequest
    | SlotsRequest
    | SlotAction
    | AdaptersRequest
    | AdapterMount
    | AdapterUnmount
    | ResponseRequest
    | NameRequest
)
SmallResult = (
    Tokenized
    | Detokenized
    | Rendered
    | Counted
    | Health
    | Version
    | Metrics
    | ModelState
    | tuple[ModelState, ...]
    | Embedded
    | Reranked
    | FileResult
    | BatchResult
    | tuple[Slot, ...]
    | SlotActed
    | Adapters
    | ResponseResult
    | NameResult
)
