"""What constraints cost: the time of one mask for the starter model's vocabulary, and a decode step with and without a
grammar on both engines. Backends are driven directly, so that nothing but the engine is in the way."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bench.part import Options, Outcome
from bench.row import Row, Trouble, percentile
from dragoman.backend.base import Backend
from dragoman.catalog.gguf import read_gguf
from dragoman.core.constraint import Constraint
from dragoman.core.exchange import EngineRequest
from dragoman.core.prompt import ReplyFormat
from dragoman.core.request import OutputFormat
from dragoman.core.sampling import SamplingSpec
from dragoman.core.tools import Tool, ToolChoice
from dragoman.core.vocabulary import Tokenizer
from dragoman.grammar.compiler import Compiler
from dragoman.grammar.mask import GrammarMask
from dragoman.prompt.gguf import gguf_tokenizer

PART = "grammar"

_RECORD = (
    '{"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0, '
    '"maximum": 130}, "mail": {"type": "string", "format": "email"}, "tags": {"type": "array", "items": '
    '{"enum": ["new", "old", "vip"]}}}, "required": ["name", "age", "mail", "tags"]}'
)
_TREE = (
    '{"$ref": "#/$defs/n", "$defs": {"n": {"type": "object", "properties": {"label": {"type": "string"}, "children": '
    '{"type": "array", "items": {"$ref": "#/$defs/n"}}}, "required": ["label", "children"]}}}'
)
_LOOK = Tool("look", None, {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]})

WALKS: dict[str, tuple[Constraint, str]] = {
    "schema": (
        Constraint(format=OutputFormat("json_schema", _RECORD)),
        '{"name": "Ada Lovelace, countess", "age": 36, "mail": "ada@example.org", "tags": ["new", "vip"]}',
    ),
    "recursive schema": (
        Constraint(format=OutputFormat("json_schema", _TREE)),
        '{"label": "the root of it", "children": [{"label": "a leaf", "children": []}]}',
    ),
    "any JSON": (
        Constraint(format=OutputFormat("json")),
        '{"what": "a text of some words", "n": [1, 2.5, null, true]}',
    ),
    "regex": (Constraint(format=OutputFormat("regex", r"[A-Z][a-z ]{10,60}\. \d{4}-\d\d")), "Some words here. 2024-05"),
    "thought and call": (
        Constraint(
            tools=(_LOOK,),
            choice=ToolChoice("required"),
            reply=ReplyFormat(think_open="<think>", think_close="</think>", tool_family="hermes"),
            thinking_open=True,
        ),
        "The user wants the weather.</think>\n\n"
        '<tool_call>\n{"name": "look", "arguments": {"place": "Oslo"}}\n</tool_call>',
    ),
}
"""Constraints with an answer to be followed through their masks."""

ENGINES = ("llama.cpp", "mlx")
WORKLOADS = (*WALKS, "all masks", *ENGINES)

_ENDLESS = Constraint(
    format=OutputFormat(
        "json_schema", '{"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 999}, "minItems": 2000}'
    )
)


def constraint_cost(options: Options) -> Outcome:
    """All of it."""
    gguf = options.gguf()
    tokenizer = gguf_tokenizer(read_gguf(gguf).vocabulary())
    compiler = Compiler(tokenizer)
    outcome = Outcome(rows=fill_times(compiler, tokenizer, options.rounds * 20))
    tokens = 24 if options.quick else 96
    for name, make in zip(ENGINES, (_llamacpp, _mlx), strict=True):
        try:
            backend = make(gguf, tokenizer, compiler)
        except ImportError as missing:
            outcome.troubles.append(Trouble(PART, name, str(missing)))
            continue
        outcome.rows += asyncio.run(_steps(name, backend, tokenizer, compiler, options.rounds * 2, tokens))
    return outcome


def fill_times(compiler: Compiler, tokenizer: Tokenizer, rounds: int) -> list[Row]:
    """Microseconds of one mask: median and 99th percentile over all masks of all rounds."""
    rows: list[Row] = []
    times_of_all: list[float] = []
    for name, (constraint, answer) in WALKS.items():
        text = compiler.compile(constraint)
        tokens = tokenizer.encode(answer, add_special=False, parse_special=True)
        times = [t for _ in range(rounds) for t in _walk(GrammarMask(compiler.matcher(text), tokenizer.size), tokens)]
        times_of_all += times
        rows += [
            Row(PART, name, "mask p50", (percentile(times, 0.5),)),
            Row(PART, name, "mask p99", (percentile(times, 0.99),)),
        ]
    return [*rows, Row(PART, "all masks", "mask p50", (percentile(times_of_all, 0.5),))]


def _walk(mask: GrammarMask, tokens: Sequence[int]) -> list[float]:
    words = np.zeros(-(-mask.vocabulary_size // 32), np.int32)
    times: list[float] = []
    for token in tokens:
        began = time.perf_counter()
        mask.fill(words)
        times.append((time.perf_counter() - began) * 1e6)
        mask.advance(token)
    return times


async def _steps(
    name: str, backend: Backend, tokenizer: Tokenizer, compiler: Compiler, rounds: int, tokens: int
) -> list[Row]:
    """Milliseconds of a decode step with a grammar, beside those without, in turn."""
    prompt = tuple(tokenizer.encode("Numbers, one after the other: ", add_special=True, parse_special=True))
    text = compiler.compile(_ENDLESS)
    bound: list[float] = []
    free: list[float] = []
    await backend.start()
    try:
        await _step(backend, prompt, text, tokens)
        for _ in range(rounds):
            free.append(await _step(backend, prompt, None, tokens))
            bound.append(await _step(backend, prompt, text, tokens))
    finally:
        await backend.stop()
    return [Row(PART, name, "step", tuple(bound), tuple(free))]


async def _step(backend: Backend, prompt: tuple[int, ...], text: str | None, tokens: int) -> float:
    sampling = SamplingSpec(temperature=1.0, seed=1, ignore_eos=True if text is None else None)
    request = EngineRequest(id="step", prompt=prompt, max_tokens=tokens, sampling=sampling, grammar=text)
    report = None
    async for chunk in await backend.submit(request):
        report = chunk.report or report
    if report is None or report.completion_tokens < tokens:
        raise RuntimeError("the answer ended early")
    return report.predicted_ms / (report.completion_tokens - 1)


def _llamacpp(gguf: Path, tokenizer: Tokenizer, compiler: Compiler) -> Backend:
    from dragoman.backend.llamacpp.backend import LlamaCppBackend, LlamaCppOptions

    return LlamaCppBackend(LlamaCppOptions(model=str(gguf), lanes=1, context=1024), tokenizer)


def _mlx(gguf: Path, tokenizer: Tokenizer, compiler: Compiler) -> Backend:
    from dragoman.backend.local import LocalBackend
    from dragoman.engines.mlx.engine import MlxEngine, MlxOptions

    engine = MlxEngine(MlxOptions(path=str(gguf), context_length=1024, lanes=1))
    return LocalBackend(lambda: engine, mask_for=compiler.masks)
