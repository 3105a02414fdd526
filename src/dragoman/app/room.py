"""The server room: models opened, stations wired, ready for HTTP, the command line or a test."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

import msgspec

from dragoman.app.defaults import answer_limits
from dragoman.app.keeping import open_shelf, open_signatures
from dragoman.app.opening import Opening, open_model, open_script
from dragoman.app.rows import RowDesk, load_of
from dragoman.app.shelf import Shelf
from dragoman.app.storage import open_storage
from dragoman.catalog.entries import STARTER, entry_named
from dragoman.catalog.fetch import fetch_entry
from dragoman.catalog.find import best_local, require_model
from dragoman.catalog.local import LocalModel
from dragoman.catalog.names import NameBook
from dragoman.catalog.store import Store, default_state_dir
from dragoman.config import Settings
from dragoman.dialects.anthropic import endpoints as anthropic
from dragoman.dialects.base import Dialect
from dragoman.dialects.cohere import endpoints as cohere
from dragoman.dialects.llamacpp import endpoints as llamacpp
from dragoman.dialects.ollama import endpoints as ollama
from dragoman.dialects.openai_batches import endpoints as openai_batches
from dragoman.dialects.openai_chat import endpoints as openai_chat
from dragoman.dialects.openai_completions import endpoints as openai_completions
from dragoman.dialects.openai_embeddings import endpoints as openai_embeddings
from dragoman.dialects.openai_files import endpoints as openai_files
from dragoman.dialects.openai_models import endpoints as openai_models
from dragoman.dialects.openai_responses import endpoints as openai_responses
from dragoman.dialects.operator import endpoints as operator
from dragoman.dialects.rerank import endpoints as rerank
from dragoman.dialects.vllm import endpoints as vllm
from dragoman.gateway.desk import GatewayOptions, ServiceGateway
from dragoman.gateway.reply import Uploads
from dragoman.jobs.batch import BatchRules
from dragoman.jobs.runner import BatchRunner, RunnerRules
from dragoman.service.batches import BatchDesk
from dragoman.service.desk import ServiceDesk
from dragoman.service.files import FileDesk
from dragoman.service.models import ModelRoster, ServedModel
from dragoman.service.names import NameDesk
from dragoman.service.rerank import RerankRules
from dragoman.stores.stores import Stores
from dragoman.telemetry.log import logger
from dragoman.telemetry.metrics import Metrics
from dragoman.telemetry.receipt import Receipt

# The first dialect's error envelope answers for paths that no dialect claims.
DIALECTS: tuple[Dialect, ...] = (
    llamacpp.DIALECT,
    openai_chat.DIALECT,
    openai_completions.DIALECT,
    openai_embeddings.DIALECT,
    openai_models.DIALECT,
    openai_responses.DIALECT,
    openai_files.DIALECT,
    openai_batches.DIALECT,
    rerank.DIALECT,
    cohere.DIALECT,
    anthropic.DIALECT,
    ollama.DIALECT,
    vllm.DIALECT,
    operator.DIALECT,
)


def ollama_first(dialects: tuple[Dialect, ...]) -> tuple[Dialect, ...]:
    """The same dialects, with Ollama's answering for the root and for paths that no dialect claims."""
    home = ollama.at_home()
    others = (dialect for dialect in dialects if dialect.name != home.name)
    roots = {(endpoint.method, endpoint.path) for endpoint in home.endpoints if endpoint.path == "/"}
    rest = (
        msgspec.structs.replace(
            dialect,
            endpoints=tuple(one for one in dialect.endpoints if (one.method, one.path) not in roots),
        )
        for dialect in others
    )
    return (home, *rest)


# A thread that holds the interpreter lock would otherwise keep the engine thread or the event loop waiting for 5 ms.
_SWITCH_INTERVAL = 0.0005
_WORKERS = 2
NAMES = "names.json"

Say = Callable[[str], None]


class Room:
    """Everything of one server but its socket."""

    def __init__(
        self, settings: Settings, models: list[ServedModel], workers: ThreadPoolExecutor, stores: Stores
    ) -> None:
        answer, limits = settings.answer, answer_limits(settings)
        signatures = open_signatures(settings)
        book = _book(settings)
        roster = ModelRoster(models, strict=answer.strict_models, given=book.find)
        shelf = Shelf(Store(settings.state_dir))
        self.metrics = Metrics(roster.stats)
        self.draining: Callable[[], bool] = lambda: False
        self._log = logger("request")
        self.runner = BatchRunner(
            stores,
            lambda method, path, body: RowDesk(self.gateway, DIALECTS)(method, path, body),
            lambda: load_of(roster, self.draining),
            lambda model: any(model == served.card.id for served in roster),
            RunnerRules(
                restart=settings.store.batch_restart,
                batch=BatchRules(max_rows=settings.store.batch_rows, max_line=settings.listen.max_body),
            ),
        )
        self.desk = ServiceDesk(
            roster,
            workers,
            limits,
            metrics=self.metrics.render,
            draining=lambda: self.draining(),
            rerank_rules=RerankRules(cosine=answer.rerank_cosine),
            slot_folder=settings.engine.slot_save_path,
            adapter_folder=settings.engine.adapter_dir,
            files=FileDesk(stores.files),
            batches=BatchDesk(stores, self.runner, lambda: roster.default.card.id),
            responses=open_shelf(stores, signatures, settings),
            signatures=signatures,
            # A scripted server has nothing to do with models on disk that nobody named.
            shelf=tuple if settings.engine.engine == "fake" else shelf,
            names=NameDesk(book, Store(settings.state_dir), roster, shelf, shelf.forget),
        )
        uploads = Uploads(stores.incoming, stores.limits.file_bytes)
        options = GatewayOptions(strict_fields=answer.strict_fields, log_prompts=settings.log.prompts)
        self.gateway = ServiceGateway(self.desk, options, self.book, logger("gateway"), uploads)

    @property
    def model(self) -> ServedModel:
        """The model served by default."""
        return self.desk.roster.default

    def book(self, receipt: Receipt) -> None:
        """Count and log one request. Look-ups that went well, such as a monitor's /health, are told at debug level."""
        self.metrics.record(receipt)
        level = logging.INFO if receipt.model or receipt.outcome != "finished" else logging.DEBUG
        self._log.log(level, "request", extra={"fields": msgspec.to_builtins(receipt)})


@asynccontextmanager
async def open_room(settings: Settings, say: Say) -> AsyncGenerator[Room]:
    """Find or fetch the model, load it, wire everything; on the way out stop the engine. Raises DragomanError."""
    sys.setswitchinterval(_SWITCH_INTERVAL)
    answer_limits(settings)  # What is wrong there is told before a model is fetched or loaded.
    opening = await _opening(settings, say)
    async with _storage(settings) as stores:
        say(f"Loading {opening.card.id} on {opening.card.engine} …")
        model = await opening.start()
        with ThreadPoolExecutor(_WORKERS, thread_name_prefix="prompt") as workers:
            try:
                room = Room(settings, [model], workers, stores)
                try:
                    await room.runner.start()
                    yield room
                finally:
                    await room.runner.stop()
                    await room.gateway.close()
            finally:
                await model.backend.stop()


@asynccontextmanager
async def _storage(settings: Settings) -> AsyncGenerator[Stores]:
    stores = await open_storage(settings)
    try:
        yield stores
    finally:
        await stores.close()


def choose_model(settings: Settings, say: Say) -> LocalModel:
    """The model to serve: the one named (fetched only when it is a known name), else the best one here, else the
    starter. Raises EngineFailure with the command that helps."""
    store = Store(settings.state_dir)
    if settings.model is None:
        return best_local(store) or fetch_entry(STARTER, store, say)
    known = entry_named(settings.model)
    return fetch_entry(known, store, say) if known else require_model(settings.model, store)


async def _opening(settings: Settings, say: Say) -> Opening:
    if settings.engine.engine == "fake":
        return open_script(settings)
    model = await asyncio.to_thread(choose_model, settings, say)
    return await open_model(model, settings)


def _book(settings: Settings) -> NameBook:
    """The names clients gave; those of a server that keeps nothing end with it."""
    return NameBook(None if settings.store.ephemeral else (settings.state_dir or default_state_dir()) / NAMES)
