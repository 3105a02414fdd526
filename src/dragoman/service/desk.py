"""The service desk: one method for generations, one for every small operation. What the gateway talks to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import TypeVar

from dragoman import __version__
from dragoman.core.errors import Unavailable
from dragoman.core.operations import (
    CountRequest,
    DetokenizeRequest,
    Health,
    HealthRequest,
    Metrics,
    MetricsRequest,
    ModelRequest,
    ModelsRequest,
    RenderRequest,
    SmallRequest,
    SmallResult,
    TokenizeRequest,
    Version,
    VersionRequest,
)
from dragoman.core.request import Request
from dragoman.service import tokens
from dragoman.service.generate import Generation
from dragoman.service.models import ModelRoster, ServedModel
from dragoman.service.prepare import AnswerLimits
from dragoman.service.stream import EventStream

A = TypeVar("A")
R = TypeVar("R")


class ServiceDesk:
    """All use cases on a roster of models. `metrics` renders the metrics text; `draining` tells whether the server
    is on its way out."""

    def __init__(
        self,
        roster: ModelRoster,
        workers: Executor,
        limits: AnswerLimits,
        *,
        metrics: Callable[[], bytes],
        draining: Callable[[], bool],
    ) -> None:
        self.roster = roster
        self._workers = workers
        self._generation = Generation(workers, limits)
        self._metrics = metrics
        self._draining = draining

    async def generate(self, requests: Sequence[Request]) -> tuple[ServedModel, EventStream]:
        """Start answering; all requests name the same model. Raises before anything streams."""
        model = self.roster.for_request(requests[0].model if requests else None)
        return model, await self._generation.open(model, requests)

    async def small(self, request: SmallRequest) -> SmallResult:
        """Run a small operation."""
        match request:
            case TokenizeRequest():
                return await self._aside(tokens.tokenize, self.roster.for_request(request.model), request)
            case DetokenizeRequest():
                return await self._aside(tokens.detokenize, self.roster.for_request(request.model), request)
            case RenderRequest():
                return await self._aside(tokens.render, self.roster.for_request(request.model), request)
            case CountRequest():
                return await self._aside(tokens.count, self.roster.for_request(request.request.model), request)
            case ModelsRequest():
                return tuple(model.state for model in self.roster)
            case ModelRequest():
                return self.roster.lookup(request.name).state
            case HealthRequest():
                return self._healthy()
            case VersionRequest():
                return Version(__version__)
            case MetricsRequest():
                return Metrics(self._metrics())

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

    async def _aside(self, work: Callable[[ServedModel, A], R], model: ServedModel, request: A) -> R:
        return await asyncio.get_running_loop().run_in_executor(self._workers, work, model, request)
