"""The service desk: one method for generations, one for every small operation. What the gateway talks to."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import TypeVar

import msgspec

from dragoman import __version__
from dragoman.core.batches import BatchRequest, BatchResult
from dragoman.core.errors import NotSupported, Unavailable
from dragoman.core.files import FileRequest, FileResult
from dragoman.core.model import ModelCard
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
from dragoman.core.slots import Adapters, AdaptersRequest, Slot, SlotActed, SlotAction, SlotsRequest
from dragoman.core.vectors import Embedded, EmbedRequest, Reranked, RerankRequest
from dragoman.service import adapters, slots, tokens
from dragoman.service.batches import BatchDesk
from dragoman.service.embed import embed
from dragoman.service.files import FileDesk
from dragoman.service.generate import Generation
from dragoman.service.listing import all_states, find_state
from dragoman.service.models import ModelRoster, ServedModel
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
    is on its way out; `slot_folder` is where saved slots are; `signatures` signs and verifies thoughts, without it no
    thought is signed and none that is signed believed; `shelf` are the cards of models on disk, found off the loop."""

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
        responses: ResponseShelf | None = None,
        signatures: Signatures | None = None,
        files: FileDesk | None = None,
        batches: BatchDesk | None = None,
        shelf: Callable[[], tuple[ModelCard, ...]] = tuple,
    ) -> None:
        self.roster = roster
        self.responses = responses
        self._files = files
        self._batches = batches
        self._shelf = shelf
        self._signatures = signatures or Signatures(secrets.token_bytes(32))
        self._rerank_rules = rerank_rules or RerankRules()
        self._workers = workers
        self._slot_folder = slot_folder
        self._defaults = limits.sampling
        self._generation = Generation(workers, limits)
        self._metrics = metrics
        self._draining = draining

    async def generate(self, requests: Sequence[Request]) -> tuple[ServedModel, EventStream]:
        """Start answering; all requests name the same model. Raises before anything streams."""
        model = self.roster.for_request(requests[0].model if requests else None)
        believed = [verified(request, self._signatures, model=model.card.id) for request in requests]
        events = await self._generation.open(model, [request for request, _ in believed])
        events.dropped_thoughts = sum(dropped for _, dropped in believed)
        return model, events

    def model_of(self, request: Request) -> ServedModel:
        """The model a request means. Raises ModelNotFound."""
        return self.roster.for_request(request.model)

    def signer(self, model: ServedModel) -> ThoughtSigner:
        """Who signs the thoughts of this model."""
        return self._signatures.signer(model.card.id)

    async def fitted(self, request: Request) -> Request:
        """The request without the turns that do not fit the window. Raises ContextLengthExceeded."""
        return await self._aside(fitted, self.model_of(request), request)

    async def count(self, request: CountRequest) -> Counted:
        """Prompt tokens of a request, as `generate` would count them."""
        model = self.model_of(request.request)
        believed, _ = verified(request.request, self._signatures, model=model.card.id)
        return await self._aside(tokens.count, model, CountRequest(believed))

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
            case SlotsRequest() | SlotAction() | AdaptersRequest():
                return await self._places(request)
            case HealthRequest():
                return self._healthy()
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
        shelved: tuple[ModelCard, ...] = ()
        if request.shelved:
            shelved = await asyncio.get_running_loop().run_in_executor(self._workers, self._shelf)
        if isinstance(request, ModelRequest):
            return find_state(self.roster, request.name, shelved, self._defaults)
        return all_states(self.roster, shelved, self._defaults)

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
        self, request: SlotsRequest | SlotAction | AdaptersRequest
    ) -> tuple[Slot, ...] | SlotActed | Adapters:
        model = self.roster.for_request(request.model)
        match request:
            case SlotsRequest():
                return await slots.slots(model)
            case SlotAction():
                return await slots.act(model, request, self._slot_folder)
            case AdaptersRequest():
                return adapters.adapters(model, request)

    def card_of(self, name: str | None) -> ModelCard:
        """The card of the model that generation requests with this name mean, with the server's defaults over those of
        the model. Raises ModelNotFound."""
        return self._with_defaults(self.roster.for_request(name).card)

    def _with_defaults(self, card: ModelCard) -> ModelCard:
        return msgspec.structs.replace(card, sampling_defaults=self._defaults.over(card.sampling_defaults))

    async def _aside(self, work: Callable[[ServedModel, A], R], model: ServedModel, request: A) -> R:
        return await asyncio.get_running_loop().run_in_executor(self._workers, work, model, request)
