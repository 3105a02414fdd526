"""Opens a model for serving: tokenizer, template, backend, card."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import msgspec
from msgspec import Struct

from dragoman.app.blas.choice import ensure
from dragoman.app.choice import choose_engine
from dragoman.app.context import plan_window
from dragoman.app.embedding import check_memory, mlx_pooling, plan_embeddings
from dragoman.app.gguf import require_for_mlx, tuned
from dragoman.backend.base import Backend
from dragoman.backend.llamacpp.backend import LlamaCppBackend, LlamaCppOptions
from dragoman.backend.llamacpp.encoder import LlamaCppEncoder
from dragoman.backend.llamacpp.tokenizer import EngineTokenizer
from dragoman.backend.local import LocalBackend
from dragoman.backend.local.encoder import EncoderBackend
from dragoman.catalog.find import memory_bytes
from dragoman.catalog.local import LocalModel, generation_defaults
from dragoman.config import EngineSettings, Settings
from dragoman.core.errors import EngineFailure
from dragoman.core.model import ModelCard
from dragoman.core.sampling import SamplingSpec
from dragoman.core.vectors import Pooling
from dragoman.core.vocabulary import Tokenizer
from dragoman.engines.base import Pair
from dragoman.engines.fake import FakeEngine, FakeScript, FakeTokenizer, card_of, load_script
from dragoman.engines.mlx.embed.encoder import EncoderOptions, MlxEncoder
from dragoman.engines.mlx.embed.layout import read_layout
from dragoman.grammar.compiler import Compiler
from dragoman.grammar.mask import MaskFactory
from dragoman.output.families.table import FAMILIES
from dragoman.prompt.builder import PromptBuilder
from dragoman.prompt.gguf import gguf_tokenizer
from dragoman.prompt.gguf_outline import GgufOutline
from dragoman.prompt.hf import load_hf_tokenizer
from dragoman.prompt.infill import why_no_infill
from dragoman.prompt.pairs import PairTokenizer
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

# Seconds: what a prefill chunk may add to the gap between two tokens of running streams, and what a newcomer or a
# cancel waits while nobody decodes.
_LONGEST_GAP = 0.5
_LONGEST_CHUNK = 2.0

Facts = Callable[[], dict[str, Any]]


class Opening(Struct, frozen=True, kw_only=True):
    """A model about to be served: everything but a running engine. `facts` gives card fields the engine knows only
    once it has loaded; `rebuild` makes the builder anew then, where the tokenizer is the engine's."""

    card: ModelCard
    tokenizer: Tokenizer
    builder: PromptBuilder
    backend: Backend
    compiler: Compiler
    facts: Facts
    rebuild: Callable[[], PromptBuilder] | None = None

    async def start(self) -> ServedModel:
        """Start the engine. Raises EngineFailure; nothing is left running then."""
        try:
            await self.backend.start()
        except BaseException:
            await self.backend.stop()
            raise
        able, builder = self.backend.capabilities, self.builder
        if self.rebuild is not None:
            builder = await self._rebuilt(self.rebuild)
        card = msgspec.structs.replace(
            self.card,
            engine_build=self.backend.build,
            context_length=self.backend.context_length,
            lanes=able.lanes,
            generation=able.generation,
            embeddings=able.embeddings,
            rerank=able.rerank,
            tools=bool(builder.reply_format.tool_family) and able.generation,
            thinking=bool(builder.reply_format.think_open),
            no_infill=await asyncio.to_thread(why_no_infill, self.tokenizer),
            **self.facts(),
        )
        return ServedModel(
            card=card, tokenizer=self.tokenizer, builder=builder, backend=self.backend, compiler=self.compiler
        )

    async def _rebuilt(self, rebuild: Callable[[], PromptBuilder]) -> PromptBuilder:
        try:
            return await asyncio.to_thread(rebuild)
        except BaseException:
            await self.backend.stop()
            raise


async def open_model(model: LocalModel, settings: Settings) -> Opening:
    """Prepare `model`; blocking work runs in a thread. Raises EngineFailure with one clear sentence."""
    return await asyncio.to_thread(_open, model, settings)


def open_script(settings: Settings) -> Opening:
    """Prepare the scripted engine."""
    path = settings.engine.script
    script = load_script(path) if path else FakeScript()
    card = card_of(script, name=settings.alias[0] if settings.alias else "fake", path=str(path or ""))
    tokenizer = FakeTokenizer(script)
    builder = PromptBuilder(tokenizer, script.chat_template, tool_family=_tool_family(settings.engine))
    compiler = Compiler(tokenizer)
    masks = compiler.masks if script.grammar else None
    return Opening(
        card=msgspec.structs.replace(
            card, aliases=settings.alias[1:], template_caps=_abilities(builder), sampling_defaults=_WINDOW
        ),
        tokenizer=tokenizer,
        builder=builder,
        backend=_local(lambda: FakeEngine(script, **_overrides(settings.engine)), settings.engine, "fake", masks),
        compiler=compiler,
        facts=dict,
    )


def _tool_family(engine: EngineSettings) -> str:
    if engine.tool_family and engine.tool_family not in FAMILIES:
        raise EngineFailure(
            f"There is no tool family '{engine.tool_family}'.", remedy=f"There are: {', '.join(sorted(FAMILIES))}."
        )
    return engine.tool_family


def _overrides(engine: EngineSettings) -> dict[str, int]:
    """A script says its own lanes and window; the flags win where they differ from their defaults."""
    given = {"context_length": engine.ctx} if engine.ctx else {}
    return given if engine.max_lanes == EngineSettings().max_lanes else {**given, "lanes": engine.max_lanes}


def _open(model: LocalModel, settings: Settings) -> Opening:
    engine = choose_engine(model, settings.engine)
    tokenizer = _tokenizer(model, engine)
    template = model.header.chat_template if model.header else read_template(model.path)
    family = _tool_family(settings.engine)
    builder = PromptBuilder(tokenizer, template, tool_family=family)
    compiler = Compiler(tokenizer)
    if engine == "llamacpp":
        backend, facts = _llamacpp(model, settings, tokenizer)
    else:
        backend, facts = _mlx(model, settings, tokenizer, compiler.masks)
    card = _card(model, settings, engine, tokenizer, builder)
    return Opening(
        card=card,
        tokenizer=tokenizer,
        builder=builder,
        backend=backend,
        compiler=compiler,
        facts=facts,
        rebuild=partial(PromptBuilder, tokenizer, template, tool_family=family)
        if isinstance(tokenizer, EngineTokenizer)
        else None,
    )


def _tokenizer(model: LocalModel, engine: str) -> Tokenizer:
    """Ours where it can be, since that needs no running engine; else llama.cpp's. Raises EngineFailure for neither."""
    if model.header is None:
        return load_hf_tokenizer(model.path)
    vocabulary = model.header.vocabulary()
    try:
        return gguf_tokenizer(vocabulary)
    except EngineFailure as failure:
        if engine != "llamacpp":
            raise
        logger("engine").info("%s llama.cpp tokenises for it.", failure.message)
        return EngineTokenizer(GgufOutline(vocabulary))


def _llamacpp(model: LocalModel, settings: Settings, tokenizer: Tokenizer) -> tuple[Backend, Facts]:
    engine = settings.engine
    window, plan = plan_window(model, engine, engine.max_lanes), plan_embeddings(model, engine)
    check_memory(model, plan, window.tokens, engine, memory_bytes())
    options = LlamaCppOptions(
        model=str(model.path),
        context=window.tokens,
        kv_unified=window.shared,
        pooling=plan.pooling,
        embed_context=plan.context,
        lanes=engine.max_lanes,
        threads=engine.threads,
        llama_server=engine.llama_server,
        api_key=engine.llama_server_key or "",
        engine_args=engine.engine_args,
        max_waiting=engine.max_waiting,
        prefix_bytes=_cache_budget(engine),
        prompt_cache_mib=0,
        cache_folder=engine.cache_dir,
        cache_disk_bytes=engine.cache_disk_bytes,
    )
    options = tuned(options, model, settings)
    if not plan.encodes:
        return LlamaCppBackend(options, tokenizer), dict
    if isinstance(tokenizer, EngineTokenizer):
        raise EngineFailure("The vocabulary of this embedding model is not supported.")
    return LlamaCppEncoder(options), dict


def _mlx(model: LocalModel, settings: Settings, tokenizer: Tokenizer, masks: MaskFactory) -> tuple[Backend, Facts]:
    from dragoman.engines.mlx.engine import MlxEngine, MlxOptions

    engine = settings.engine
    require_for_mlx(engine)
    # Before the engine imports MLX: what is bound then stays bound.
    logger("engine").info(ensure(engine.mlx_blas, "mlx", engine.threads).sentence)
    if model.format == "safetensors":
        pooling = mlx_pooling(model, read_layout(model.path), engine)
        if pooling != "no":
            return _mlx_encoder(model, engine, pooling)
    options = MlxOptions(
        path=str(model.path),
        context_length=plan_window(model, engine, 1).tokens,
        lanes=engine.max_lanes,
        dtype=engine.dtype,
        kv_bits=engine.kv_bits,
    )
    mlx = MlxEngine(options, _breakers(tokenizer))

    def facts() -> dict[str, Any]:
        known = msgspec.structs.asdict(mlx.facts)
        return {name: value for name, value in known.items() if name in ModelCard.__struct_fields__ and value}

    return _local(lambda: mlx, engine, "mlx", masks), facts


def _mlx_encoder(model: LocalModel, engine: EngineSettings, pooling: Pooling | Literal[""]) -> tuple[Backend, Facts]:
    encoder = MlxEncoder(
        EncoderOptions(path=str(model.path), pooling=pooling, context_length=engine.ctx, dtype=engine.dtype)
    )
    pairs = PairTokenizer(model.path)

    def pair_of(query: str, document: str) -> Pair:
        encoded = pairs(query, document)
        return Pair(encoded.ids, encoded.types)

    return EncoderBackend(encoder, pair_of=pair_of, max_waiting=engine.max_waiting), lambda: encoder.facts


def _breakers(tokenizer: Tokenizer) -> BreakerTable:
    """DRY's breakers are text, so they are looked up in the text of every token."""
    ids = range(tokenizer.size)
    pieces = [
        "" if tokenizer.is_special(token) else tokenizer.token_bytes(token).decode(errors="replace") for token in ids
    ]
    return BreakerTable(pieces, lambda text: tokenizer.encode(text, add_special=False, parse_special=False))


def _local(make: Callable[[], Any], engine: EngineSettings, name: str, masks: MaskFactory | None) -> Backend:
    limits = SchedulerLimits(
        max_waiting=engine.max_waiting,
        kv_budget=engine.kv_budget_bytes or None,
        prefill_seconds=_LONGEST_GAP,
        prefill_seconds_idle=_LONGEST_CHUNK,
    )
    return LocalBackend(make, limits, cache_budget=_cache_budget(engine), mask_for=masks, name=name)


def _cache_budget(engine: EngineSettings) -> int:
    given = engine.prompt_cache_bytes
    return int(_CACHE_SHARE * memory_bytes()) if given < 0 else given


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
