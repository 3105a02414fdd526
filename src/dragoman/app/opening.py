"""Opens a model for serving: tokenizer, template, backend, card."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct

from dragoman.app.blas.choice import ensure
from dragoman.app.choice import choose_engine
from dragoman.app.context import fit_context, kv_bytes_per_token
from dragoman.backend.base import Backend
from dragoman.backend.llamacpp.backend import LlamaCppBackend, LlamaCppOptions
from dragoman.backend.local import LocalBackend
from dragoman.catalog.find import memory_bytes
from dragoman.catalog.local import LocalModel, generation_defaults
from dragoman.config import EngineSettings, Settings
from dragoman.core.errors import EngineFailure
from dragoman.core.model import ModelCard
from dragoman.core.sampling import SamplingSpec
from dragoman.core.vocabulary import Tokenizer
from dragoman.engines.fake import FakeEngine, FakeScript, FakeTokenizer, card_of, load_script
from dragoman.prompt.builder import PromptBuilder
from dragoman.prompt.gguf import gguf_tokenizer
from dragoman.prompt.hf import load_hf_tokenizer
from dragoman.prompt.template_files import read_template
from dragoman.sampling.breakers import BreakerTable
from dragoman.scheduler.limits import SchedulerLimits
from dragoman.service.models import ServedModel
from dragoman.telemetry.log import logger

# llama-server's defaults, for models that recommend nothing.
BUILT_IN = SamplingSpec(temperature=0.8, top_k=40, top_p=0.95, min_p=0.05)
# A window only matters once a penalty is asked for; this is llama-server's.
_WINDOW = SamplingSpec(penalty_window=64)

# Of this machine's memory, for cached prefixes, when nobody says.
_CACHE_SHARE = 0.1

Facts = Callable[[], dict[str, Any]]


class Opening(Struct, frozen=True, kw_only=True):
    """A model about to be served: everything but a running engine. `facts` gives card fields the engine knows only
    once it has loaded."""

    card: ModelCard
    tokenizer: Tokenizer
    builder: PromptBuilder
    backend: Backend
    facts: Facts

    async def start(self) -> ServedModel:
        """Start the engine. Raises EngineFailure; nothing is left running then."""
        try:
            await self.backend.start()
        except BaseException:
            await self.backend.stop()
            raise
        card = msgspec.structs.replace(
            self.card,
            engine_build=self.backend.build,
            context_length=self.backend.context_length,
            lanes=self.backend.capabilities.lanes,
            **self.facts(),
        )
        return ServedModel(card=card, tokenizer=self.tokenizer, builder=self.builder, backend=self.backend)


async def open_model(model: LocalModel, settings: Settings) -> Opening:
    """Prepare `model`; blocking work runs in a thread. Raises EngineFailure with one clear sentence."""
    return await asyncio.to_thread(_open, model, settings)


def open_script(settings: Settings) -> Opening:
    """Prepare the scripted engine."""
    path = settings.engine.script
    script = load_script(path) if path else FakeScript()
    card = card_of(script, name=settings.alias[0] if settings.alias else "fake", path=str(path or ""))
    tokenizer = FakeTokenizer(script)
    builder = PromptBuilder(tokenizer, script.chat_template)
    return Opening(
        card=msgspec.structs.replace(
            card, aliases=settings.alias[1:], template_caps=_abilities(builder), sampling_defaults=_WINDOW
        ),
        tokenizer=tokenizer,
        builder=builder,
        backend=_local(lambda: FakeEngine(script, **_overrides(settings.engine)), settings.engine, "fake"),
        facts=dict,
    )


def _overrides(engine: EngineSettings) -> dict[str, int]:
    """A script says its own lanes and window; the flags win where they differ from their defaults."""
    given = {"context_length": engine.ctx} if engine.ctx else {}
    return given if engine.max_lanes == EngineSettings().max_lanes else {**given, "lanes": engine.max_lanes}


def _open(model: LocalModel, settings: Settings) -> Opening:
    engine = choose_engine(model, settings.engine)
    tokenizer = gguf_tokenizer(model.header.vocabulary()) if model.header else load_hf_tokenizer(model.path)
    builder = PromptBuilder(tokenizer, model.header.chat_template if model.header else read_template(model.path))
    backend, facts = (_llamacpp if engine == "llamacpp" else _mlx)(model, settings, tokenizer)
    card = _card(model, settings, engine, tokenizer, builder)
    return Opening(card=card, tokenizer=tokenizer, builder=builder, backend=backend, facts=facts)


def _llamacpp(model: LocalModel, settings: Settings, tokenizer: Tokenizer) -> tuple[Backend, Facts]:
    engine = settings.engine
    options = LlamaCppOptions(
        model=str(model.path),
        context=_context(model, engine),
        lanes=engine.max_lanes,
        threads=engine.threads,
        llama_server=engine.llama_server,
        api_key=engine.llama_server_key or "",
        engine_args=engine.engine_args,
        max_waiting=engine.max_waiting,
    )
    return LlamaCppBackend(options, tokenizer), dict


def _mlx(model: LocalModel, settings: Settings, tokenizer: Tokenizer) -> tuple[Backend, Facts]:
    from dragoman.engines.mlx.engine import MlxEngine, MlxOptions

    engine = settings.engine
    # Before the engine imports MLX: what is bound then stays bound.
    logger("engine").info(ensure(engine.mlx_blas, "mlx", engine.threads).sentence)
    options = MlxOptions(
        path=str(model.path),
        context_length=_context(model, engine),
        lanes=engine.max_lanes,
        dtype=engine.dtype,
        kv_bits=engine.kv_bits,
    )
    mlx = MlxEngine(options, _breakers(tokenizer))

    def facts() -> dict[str, Any]:
        known = msgspec.structs.asdict(mlx.facts)
        return {name: value for name, value in known.items() if name in ModelCard.__struct_fields__ and value}

    return _local(lambda: mlx, engine, "mlx"), facts


def _breakers(tokenizer: Tokenizer) -> BreakerTable:
    """DRY's breakers are text, so they are looked up in the text of every token."""
    ids = range(tokenizer.size)
    pieces = [
        "" if tokenizer.is_special(token) else tokenizer.token_bytes(token).decode(errors="replace") for token in ids
    ]
    return BreakerTable(pieces, lambda text: tokenizer.encode(text, add_special=False, parse_special=False))


def _local(make: Callable[[], Any], engine: EngineSettings, name: str) -> Backend:
    limits = SchedulerLimits(max_waiting=engine.max_waiting, kv_budget=engine.kv_budget_bytes or None)
    return LocalBackend(make, limits, cache_budget=_cache_budget(engine), name=name)


def _cache_budget(engine: EngineSettings) -> int:
    given = engine.prompt_cache_bytes
    return int(_CACHE_SHARE * memory_bytes()) if given < 0 else given


def _context(model: LocalModel, engine: EngineSettings) -> int:
    if engine.ctx:
        if model.trained_context and engine.ctx > model.trained_context:
            raise EngineFailure(
                f"--ctx {engine.ctx} is more than the {model.trained_context} tokens '{model.id}' was trained with.",
                remedy=f"Use at most {model.trained_context}.",
            )
        return engine.ctx
    per_token = kv_bytes_per_token(model.header) if model.header else 0
    return fit_context(model.trained_context, per_token, engine.max_lanes, memory_bytes())


def _card(
    model: LocalModel, settings: Settings, engine: str, tokenizer: Tokenizer, builder: PromptBuilder
) -> ModelCard:
    names = (*settings.alias, model.id, *model.aliases)
    header = model.header
    return ModelCard(
        id=names[0],
        aliases=tuple(dict.fromkeys(names[1:])),
        path=str(model.path),
        format=model.format,
        engine=engine,
        architecture=model.architecture,
        quantization=model.quantization,
        parameters=model.parameters,
        size_bytes=model.size_bytes,
        vocab_size=tokenizer.size,
        embedding_length=header.number("embedding_length") if header else 0,
        digest=model.digest,
        created=model.modified,
        trained_context=model.trained_context,
        chat_template=builder.template_source,
        template_caps=_abilities(builder),
        bos_token=tokenizer.bos_token,
        eos_token=tokenizer.eos_token,
        tools=bool(builder.reply_format.tool_family),
        thinking=bool(builder.reply_format.think_open),
        sampling_defaults=_recommended(model).over(_WINDOW),
        metadata=_metadata(header.metadata) if header else {},
    )


def _abilities(builder: PromptBuilder) -> frozenset[str]:
    return frozenset(name for name, able in msgspec.structs.asdict(builder.template_caps).items() if able)


def _recommended(model: LocalModel) -> SamplingSpec:
    if model.header is not None:
        return _spec(model.header.metadata, "general.sampling.", {"temp": "temperature"})
    return _spec(generation_defaults(model.path), "", {})


def _spec(source: dict[str, Any], prefix: str, renamed: dict[str, str]) -> SamplingSpec:
    wanted = ("temp", "temperature", "top_k", "top_p", "min_p")
    found = {renamed.get(name, name): source[prefix + name] for name in wanted if prefix + name in source}
    if not found:
        return BUILT_IN
    try:
        return msgspec.convert(found, SamplingSpec)
    except msgspec.ValidationError:
        return BUILT_IN


def _metadata(metadata: dict[str, Any]) -> dict[str, str | int | float | bool]:
    return {
        key: value
        for key, value in metadata.items()
        if isinstance(value, str | int | float | bool) and not key.startswith("tokenizer.chat_template")
    }
