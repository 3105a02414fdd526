"""The same grammar texts on both engines: whatever they answer at temperature 1 is valid (cases 13 and 14).

200 answers over the 40 schemas are marked `long`; without that mark a few schemas are tried.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from dragoman.catalog.gguf import read_gguf
from dragoman.core.constraint import Constraint
from dragoman.core.prompt import ReplyFormat
from dragoman.core.tools import ToolChoice
from dragoman.grammar.compiler import Compiler
from dragoman.output.families.table import FAMILIES
from dragoman.prompt.gguf import gguf_tokenizer
from dragoman.prompt.hf import load_hf_tokenizer
from dragoman.scheduler.limits import SchedulerLimits
from tests.grammar.generating import Tally, answers, one
from tests.grammar.rig import SCHEMAS, tool
from tests.support.checkpoints import write_checkpoint

pytestmark = pytest.mark.anyio

FEW = ("ref_enum", "enum_mixed", "all_of", "unicode_keys", "dates", "map", "pattern_code")


async def on_llamacpp(gguf: Path, each: int, names: tuple[str, ...]) -> Tally:
    pytest.importorskip("xllamacpp")
    from dragoman.backend.llamacpp.backend import LlamaCppBackend, LlamaCppOptions

    tokenizer = gguf_tokenizer(read_gguf(gguf).vocabulary())
    prompt = tokenizer.encode(
        "<|im_start|>user\nGive me JSON.<|im_end|>\n<|im_start|>assistant\n", add_special=True, parse_special=True
    )
    backend = LlamaCppBackend(LlamaCppOptions(model=str(gguf), lanes=1, context=512, threads=1), tokenizer)
    await backend.start()
    try:
        assert backend.capabilities.grammar
        return await answers(backend, tokenizer, prompt, each, names=names)
    finally:
        await backend.stop()


async def on_mlx(folder: Path, each: int, names: tuple[str, ...]) -> Tally:
    pytest.importorskip("mlx.core")
    from dragoman.backend.local import LocalBackend
    from dragoman.engines.mlx.engine import MlxEngine, MlxOptions

    path = write_checkpoint(folder)
    tokenizer = load_hf_tokenizer(path)
    engine = MlxEngine(MlxOptions(path=str(path), context_length=512, lanes=2))
    backend = LocalBackend(lambda: engine, SchedulerLimits(), mask_for=Compiler(tokenizer).masks)
    await backend.start()
    try:
        assert backend.capabilities.grammar
        return await answers(backend, tokenizer, [5, 77, 300, 12], each, names=names)
    finally:
        await backend.stop()


def check(tally: Tally, wanted: int) -> None:
    print(f"{tally.valid} of {wanted} valid, drawn again because a limit cut them: {Counter(tally.cut)}")
    assert tally.invalid == []
    assert tally.strayed == []
    assert tally.valid == wanted


@pytest.mark.llamacpp
async def test_a_few_on_llamacpp(starter_gguf: Path) -> None:
    check(await on_llamacpp(starter_gguf, 1, FEW), len(FEW))


@pytest.mark.mlx
async def test_a_few_on_mlx(tmp_path: Path) -> None:
    check(await on_mlx(tmp_path, 1, FEW), len(FEW))


@pytest.mark.long
@pytest.mark.llamacpp
async def test_200_on_llamacpp(starter_gguf: Path) -> None:
    check(await on_llamacpp(starter_gguf, 5, tuple(SCHEMAS)), 200)


@pytest.mark.long
@pytest.mark.mlx
async def test_200_on_mlx(tmp_path: Path) -> None:
    check(await on_mlx(tmp_path, 5, tuple(SCHEMAS)), 200)


@pytest.mark.llamacpp
async def test_every_familys_forced_call_is_taken_by_llamacpp(starter_gguf: Path) -> None:
    """Its compiler is older than ours; what it could not compile, it would let pass unconstrained."""
    pytest.importorskip("xllamacpp")
    from dragoman.backend.llamacpp.backend import LlamaCppBackend, LlamaCppOptions

    tokenizer = gguf_tokenizer(read_gguf(starter_gguf).vocabulary())
    prompt = tokenizer.encode("Hi", add_special=True, parse_special=True)
    compiler = Compiler(tokenizer)
    backend = LlamaCppBackend(LlamaCppOptions(model=str(starter_gguf), lanes=1, context=256, threads=1), tokenizer)
    tools = (tool("look", place={"enum": ["Oslo"]}, n={"type": "integer"}), tool("save", tags={"type": "array"}))
    await backend.start()
    try:
        for family in FAMILIES:
            for mode in ("required", "auto"):
                constraint = Constraint(
                    tools=tuple(type(t)(t.name, None, t.parameters, True) for t in tools),
                    choice=ToolChoice(mode),  # type: ignore[arg-type]
                    reply=ReplyFormat(tool_family=family, think_open="<think>", think_close="</think>"),
                    may_think=True,
                )
                text = compiler.compile(constraint)
                tokens, _ = await one(backend, prompt, text, 1, 12)
                assert compiler.matcher(text).consume_tokens(tokens), (family, mode)
    finally:
        await backend.stop()
