"""The service desk: one method for generations, one for every small operation. What the gateway talks to."""

from __future__ import annotations

import asyncio
import math
import secrets
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec

from dragoman import __version__
from dragoman.core.batches import BatchRequest, BatchResult
from dragoman.core.errors import NotSupported, Unavailable
from dragoman.core.files import FileRequest, FileResult
from dragoman.core.model import ModelCard
from dragoman.core.names import BlobLookup, BlobPut, NameCopy, NameDelete, NameRequest, NameResult, NameSet, PullRequest
from dragoman.core.operations import (
    Counted,
    CountRequest,
    Detokenized,
    DetokenizeRequest,
    Health,
    HealthRequest,
    Metrics,
    MetricsRequest,
    ModelRequest,
    ModelsRequest,
    ModelState,
    Rendered,
    RenderRequest,
    SmallRequest,
    SmallResult,
    Tokenized,
    TokenizeRequest,
    Version,
    VersionRequest,
)
from dragoman.core.request import Request
from dragoman.core.responses import (
    ResponseCancel,
    ResponseDelete,
    ResponseItems,
    ResponseLookup,
    ResponseRequest,
    ResponseResult,
)
from dragoman.core.signatures import Signatures, ThoughtSigner
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
from dragoman.service import adapters, slots, tokens
from dragoman.service.batches import BatchDesk
from dragoman.service.edits import Edited, edited
from dragoman.service.embed import embed
from dragoman.service.files import FileDesk
from dragoman.service.generate import Generation
from dragoman.service.listing import Listing
from dragoman.service.models import ModelRoster, ServedModel
from dragoman.service.names import NameDesk
from dragoman.service.naming import Naming
from dragoman.service.prepare import AnswerLimits
from dragoman.service.rerank import RerankRules, rerank
from dragoman.service.responses import ResponseShelf
from dragoman.service.stream import EventStream
from dragoman.service.thoughts import verified
from dragoman.service.truncate import fitted

A = TypeVar("A")
R = TypeVar("R")


class ServiceDesk:
    """All use cases on a roster of models. `metrics` renders the metrics text; `draining` tells whether the server
    is on its way out; `slot_folder` is where saved slots are, `adapter_folder` where the adapters are that clients may
    mount; `signatures` signs and verifies thoughts, without it no thought is signed and none that is signed believed;
    `shelf` are the cards of models on disk, found off the loop; `names` are those that clients gave."""

    def __init__(
        self,
        roster: ModelRoster,
        workers: Executor,
        limits: AnswerLimits,
        *,
        metrics: Callable[[], bytes],
        draining: Callable[[], bool],
        rerank_rules: RerankRules | None = None,
        slot_folder: Path | None = None,
        adapter_folder: Path | None = None,
        responses: ResponseShelf | None = None,
        signatures: Signatures | None = None,
        files: FileDesk | None = None,
        batches: BatchDesk | None = None,
        shelf: Callable[[], tuple[ModelCard, ...]] = tuple,
        names: NameDesk | None = None,
    ) -> None:
        self.roster = roster
        self._names = names
        self._naming = Naming(roster, names.find if names else lambda _: None)
        self._expiries: dict[str, float] = {}
        self.responses = responses
        self._files = files
        self._batches = batches
        self._shelf = shelf
        self._signatures = signatures or Signatures(secrets.token_bytes(32))
        self._rerank_rules = rerank_rules or RerankRules()
        self._workers = workers
        self._slot_folder = slot_folder
        self._adapter_folder = adapter_folder
        self._defaults = limits.sampling
        self._limits = limits
        self._generation = Generation(workers, limits)
        self._metrics = metrics
        self._draining = draining

    async def generate(self, requests: Sequence[Request]) -> tuple[ServedModel, EventStream]:
        """Start answering; all requests name the same model. Raises before anything streams."""
        requests = [self._naming.resolved(request) for request in requests]
        model = self.roster.for_request(requests[0].model if requests else None)
        believed = [verified(request, self._signatures, model=model.card.id) for request in requests]
        shorter = [await self._edited(model, request) for request, _ in believed]
        events = await self._generation.open(model, [one.request for one in shorter])
        events.dropped_thoughts = sum(dropped for _, dropped in believed)
        events.applied_edits = tuple(applied for one in shorter for applied in one.applied)
        return model, events

    def model_of(self, request: Request) -> ServedModel:
        """The model a request means. Raises ModelNotFound."""
        return self.roster.for_request(request.model)

    def signer(self, model: ServedModel) -> ThoughtSigner:
        """Who signs the thoughts of this model."""
        return self._signatures.signer(model.card.id)

    async def fitted(self, request: Request) -> Request:
        """The request without the turns that do not fit the window. Raises ContextLengthExceeded."""
        request = self._naming.resolved(request)
        return await self._aside(fitted, self.model_of(request), request)

    async def count(self, request: CountRequest) -> Counted:
        """Prompt tokens of a request, as `generate` would count them."""
        asked = self._naming.resolved(request.request)
        model = self.model_of(asked)
        believed, _ = verified(asked, self._signatures, model=model.card.id)
        return await self._aside(partial(tokens.count, limits=self._limits), model, CountRequest(believed))

    async def small(self, request: SmallRequest) -> SmallResult:
        """Run a small operation."""
        match request:
            case TokenizeRequest() | DetokenizeRequest() | RenderRequest() | CountRequest():
                return await self._tokens(request)
            case ModelsRequest() | ModelRequest():
                return await self._models(request)
            case ResponseLookup() | ResponseItems() | ResponseCancel() | ResponseDelete():
                return await self._kept(request)
            case EmbedRequest() | RerankRequest():
                return await self._vectors(request)
            case SlotsRequest() | SlotAction() | AdaptersRequest() | AdapterMount() | AdapterUnmount():
                return await self._places(request)
            case HealthRequest():
                return self._healthy()
            case NameSet() | NameCopy() | NameDelete() | BlobLookup() | BlobPut() | PullRequest():
                return await self._named(request)
            case VersionRequest() | MetricsRequest():
                return Version(__version__) if isinstance(request, VersionRequest) else Metrics(self._metrics())
            case _:
                return await self._stored(request)

    def health(self) -> Health:
        """The worst news of any model."""
        if self._draining():
            return Health("draining", "The server is shutting down.")
        news = (model.backend.health() for model in self.roster)
        return next((health for health in news if health.status != "ok"), Health("ok"))

    def _healthy(self) -> Health:
        health = self.health()
        if health.status != "ok":
            raise Unavailable(health.detail or health.status, retry_after=2)
        return health

    async def _tokens(
        self, request: TokenizeRequest | DetokenizeRequest | RenderRequest | CountRequest
    ) -> Tokenized | Detokenized | Rendered | Counted:
        match request:
            case TokenizeRequest():
                return await self._aside(tokens.tokenize, self.roster.for_request(request.model), request)
            case DetokenizeRequest():
                return await self._aside(tokens.detokenize, self.roster.for_request(request.model), request)
            case RenderRequest():
                return await self._aside(tokens.render, self.roster.for_request(request.model), request)
            case CountRequest():
                return await self.count(request)

    async def _models(self, request: ModelsRequest | ModelRequest) -> ModelState | tuple[ModelState, ...]:
        named = self._names.all() if self._names else ()
        loop = asyncio.get_running_loop()
        shelved = await loop.run_in_executor(self._workers, self._shelf) if request.shelved else ()
        stored: tuple[ModelCard, ...] = ()
        if self._names and any(self.roster.named(one.base) is None for one in named):
            stored = await loop.run_in_executor(self._workers, self._names.shelf)
        listing = Listing(
            roster=self.roster,
            defaults=self._defaults,
            shelved=shelved,
            named=named,
            stored=stored,
            expiries=self._expiries,
        )
        return listing.find(request.name) if isinstance(request, ModelRequest) else listing.states()

    def wish(self, name: str | None, seconds: float) -> None:
        """A client wants the model of that name loaded for so long from now on. It is told again and changes nothing:
        what is served stays loaded."""
        card = self.roster.for_request(name).card
        if math.isinf(seconds):
            self._expiries.pop(card.id, None)
        else:
            self._expiries[card.id] = time.time() + seconds

    async def _named(self, request: NameRequest) -> NameResult:
        if self._names is None:
            raise NotSupported("This server keeps no names.")
        return await self._names.run(request)

    async def _kept(self, request: ResponseRequest) -> ResponseResult:
        if self.responses is None:
            raise NotSupported("This server keeps no responses.")
        return await self.responses.handle(request)

    async def _stored(self, request: FileRequest | BatchRequest) -> FileResult | BatchResult:
        if self._files is None or self._batches is None:
            raise NotSupported("This server keeps no files.")
        if isinstance(request, FileRequest):
            return await self._files.run(request)
        return await self._batches.run(request)

    async def _vectors(self, request: EmbedRequest | RerankRequest) -> Embedded | Reranked:
        model = self.roster.for_request(request.model)
        if isinstance(request, EmbedRequest):
            return await embed(model, request, self._workers)
        return await rerank(model, request, self._rerank_rules, self._workers)

    async def _places(
        self, request: SlotsRequest | SlotAction | AdaptersRequest | AdapterMount | AdapterUnmount
    ) -> tuple[Slot, ...] | SlotActed | Adapters:
        model = self.roster.for_request(request.model)
        match request:
            case SlotsRequest():
                return await slots.slots(model)
            case SlotAction():
                return await slots.act(model, request, self._slot_folder)
            case AdaptersRequest():
                return adapters.adapters(model, request)
            case AdapterMount() | AdapterUnmount():
                return await adapters.change(model, request, self._adapter_folder)

    async def _edited(self, model: ServedModel, request: Request) -> Edited:
        if not request.edits:
            return Edited(request)
        return await self._aside(_edited, model, request)

    def card_of(self, name: str | None) -> ModelCard:
        """The card of the model that generation requests with this name mean, with the server's defaults over those of
        the model. Raises ModelNotFound."""
        return self._with_defaults(self.roster.for_request(name).card)

    def _with_defaults(self, card: ModelCard) -> ModelCard:
        return msgspec.structs.replace(card, sampling_defaults=self._defaults.over(card.sampling_defaults))

    async def _aside(self, work: Callable[[ServedModel, A], R], model: ServedModel, request: A) -> R:
        return await asyncio.get_running_loop().run_in_executor(self._workers, work, model, request)


def _edited(model: ServedModel, request: Request) -> Edited:
    return edited(request, lambda chat: len(model.builder.build(chat).ids))
