"""The engine's own tokenizer beside ours, on a vocabulary both can read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from dragoman.backend.llamacpp.backend import LlamaCppBackend, LlamaCppOptions
from dragoman.backend.llamacpp.tokenizer import EngineTokenizer
from dragoman.catalog.gguf import read_gguf
from dragoman.config import EngineSettings, ListenSettings, LogSettings, Settings
from dragoman.core.errors import EngineFailure, Unavailable
from dragoman.core.vocabulary import GgufVocabulary
from dragoman.prompt.gguf import GgufTokenizer, gguf_tokenizer
from dragoman.prompt.gguf_outline import GgufOutline
from tests.support.running import running

pytestmark = [pytest.mark.anyio, pytest.mark.llamacpp]

TEXTS = (
    "", " ", "Hello, world", "  two  spaces\n\n\ttab", "naïve café 😀 日本語 é", "<|im_start|>user\nHi<|im_end|>\n",
    "<|im_end|>", "123456 + 7 = x_y", "\ud800 lone", "\x00nul", "a" * 3000,
)  # fmt: skip


def vocabulary_of(path: Path) -> GgufVocabulary:
    return read_gguf(path).vocabulary()


@pytest.fixture(scope="module")
async def pair(starter_gguf: Path) -> AsyncIterator[tuple[EngineTokenizer, GgufTokenizer, LlamaCppBackend]]:
    vocabulary = vocabulary_of(starter_gguf)
    theirs = EngineTokenizer(GgufOutline(vocabulary))
    backend = LlamaCppBackend(LlamaCppOptions(model=str(starter_gguf), lanes=1, context=512, threads=1), theirs)
    await backend.start()
    try:
        yield theirs, gguf_tokenizer(vocabulary), backend
    finally:
        await backend.stop()


@pytest.mark.parametrize("text", TEXTS)
async def test_gives_the_ids_ours_gives(
    pair: tuple[EngineTokenizer, GgufTokenizer, LlamaCppBackend], text: str
) -> None:
    theirs, ours, _ = pair
    for special in (False, True):
        for parsed in (False, True):
            wanted = ours.encode(text, add_special=special, parse_special=parsed)
            found = await asyncio.to_thread(theirs.encode, text, add_special=special, parse_special=parsed)
            assert found == wanted, (special, parsed)


async def test_knows_the_tokens_ours_knows(pair: tuple[EngineTokenizer, GgufTokenizer, LlamaCppBackend]) -> None:
    theirs, ours, _ = pair
    assert (theirs.size, theirs.stop_tokens) == (ours.size, ours.stop_tokens)
    assert (theirs.bos_token, theirs.eos_token) == (ours.bos_token, ours.eos_token)
    for token in range(-1, ours.size + 1):
        assert theirs.token_bytes(token) == ours.token_bytes(token), token
        assert theirs.is_special(token) == ours.is_special(token), token
        assert theirs.piece(token) == ours.piece(token), token


async def test_says_so_while_the_engine_is_down(pair: tuple[EngineTokenizer, GgufTokenizer, LlamaCppBackend]) -> None:
    theirs, _, backend = pair
    backend.engine_down(EngineFailure("gone"))
    with pytest.raises(Unavailable):
        await asyncio.to_thread(theirs.encode, "Hi there", add_special=False, parse_special=True)
    assert theirs.encode("<|im_end|>", add_special=False, parse_special=True) == [2]


async def test_before_the_engine_runs_special_tokens_are_known(starter_gguf: Path) -> None:
    tokenizer = EngineTokenizer(GgufOutline(vocabulary_of(starter_gguf)))
    assert tokenizer.encode("<|im_end|>", add_special=False, parse_special=True) == [2]
    assert tokenizer.encode("Hello", add_special=False, parse_special=True) == []


def test_a_whole_server_answers_alike_with_either(starter_gguf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(
        model=str(starter_gguf),
        listen=ListenSettings(port=0),
        engine=EngineSettings(ctx=512, max_lanes=1, threads=1),
        log=LogSettings(level="error"),
    )
    asked = {
        "messages": [{"role": "user", "content": "Name the capital of France. 😀"}],
        "max_tokens": 12,
        "temperature": 0,
        "logprobs": True,
    }

    def refuse(vocabulary: GgufVocabulary) -> GgufTokenizer:
        raise EngineFailure(f"The tokenizer model '{vocabulary.model}' of this GGUF file is not supported.")

    answers = []
    for patched in (False, True):
        if patched:
            monkeypatch.setattr("dragoman.app.opening.gguf_tokenizer", refuse)
        with running(settings) as server:
            told = httpx2.post(f"{server.url}/v1/chat/completions", json=asked, timeout=120).json()
        answers.append((told["choices"], told["usage"]["prompt_tokens"]))
    assert answers[0][0][0]["message"] == answers[1][0][0]["message"]
    assert answers[0][1] == answers[1][1]
