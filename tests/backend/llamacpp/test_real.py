"""The child process with the starter model."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from dragoman.backend.llamacpp.backend import LlamaCppBackend, LlamaCppOptions
from dragoman.backend.llamacpp.client import Client
from dragoman.core.errors import ContextLengthExceeded, EngineFailure
from dragoman.core.exchange import EngineFinish
from dragoman.core.request import CacheHints
from dragoman.core.sampling import SamplingSpec
from tests.backend.llamacpp.processes import gone_soon
from tests.backend.llamacpp.rig import ask, chunks_of, eventually_ids, ids_of

pytestmark = [pytest.mark.anyio, pytest.mark.llamacpp]

FRANCE = (504, 3575, 282, 4649, 314)


@pytest.fixture(scope="module")
async def backend(starter_gguf: Path) -> AsyncIterator[LlamaCppBackend]:
    made = LlamaCppBackend(LlamaCppOptions(model=str(starter_gguf), lanes=1, context=2048, threads=1))
    await made.start()
    try:
        yield made
    finally:
        await made.stop()


async def tokens_of(backend: LlamaCppBackend, text: str) -> list[int]:
    body = msgspec.json.encode({"content": text})
    _, answer = await client_of(backend).request("POST", "/tokenize", body, patience=30)
    return msgspec.json.decode(answer)["tokens"]


async def text_of(backend: LlamaCppBackend, tokens: list[int]) -> str:
    body = msgspec.json.encode({"tokens": tokens})
    _, answer = await client_of(backend).request("POST", "/detokenize", body, patience=30)
    return msgspec.json.decode(answer)["content"]


def client_of(backend: LlamaCppBackend) -> Client:
    client = backend._client
    assert client is not None
    return client


async def test_answers_as_a_bare_llama_server_does(backend: LlamaCppBackend) -> None:
    assert backend.context_length == 2048
    assert "xllamacpp" in backend.build
    assert await tokens_of(backend, "The capital of France is") == list(FRANCE)
    chunks = await chunks_of(backend, ask(FRANCE, 8, progress=True, logprobs=2))
    assert await text_of(backend, ids_of(chunks)) == " Paris.\n\nThe United States has"
    assert chunks[-1].finish is EngineFinish.LENGTH
    entries = [entry for chunk in chunks for entry in chunk.logprobs]
    assert [entry.chosen.id for entry in entries] == ids_of(chunks)
    assert [rival.id for rival in entries[0].top] == [7042, 260]
    assert entries[0].chosen.logprob == pytest.approx(-0.259, abs=0.05)

    again = await chunks_of(backend, ask(FRANCE, 1))
    assert again[-1].report is not None
    assert again[-1].report.cached_tokens == 4
    fresh = await chunks_of(backend, ask(FRANCE, 1, cache=CacheHints(reuse=False)))
    assert fresh[-1].report is not None
    assert fresh[-1].report.cached_tokens == 0

    drawn = [ids_of(await chunks_of(backend, ask(FRANCE, 12, sampling=SamplingSpec(seed=2**40)))) for _ in range(2)]
    assert drawn[0] == drawn[1]


async def test_every_id_of_emoji_arrives(backend: LlamaCppBackend) -> None:
    prompt = await tokens_of(backend, "Repeat: 😀😀😀😀😀😀😀😀")
    for logprobs in (None, 1):
        chunks = await chunks_of(backend, ask(prompt, 8, logprobs=logprobs))
        assert ids_of(chunks) == [10813, 242, 218, 10813, 242, 218, 10813, 242]
        entries = [entry for chunk in chunks for entry in chunk.logprobs]
        assert [entry.chosen.id for entry in entries] == (ids_of(chunks) if logprobs else [])


async def test_bytes_that_never_become_text_do_not_swallow_the_rest(backend: LlamaCppBackend) -> None:
    # Token 10813 is the first half of an emoji, 81 the letter a: forced in turn they make broken text for ever.
    sampling = SamplingSpec(
        temperature=0.0, logit_bias={81: 60.0, 10813: 60.0}, repetition_penalty=5.0, penalty_window=1
    )
    chunks = await chunks_of(backend, ask((253,), 30, sampling=sampling))
    tokens = ids_of(chunks)
    assert len(tokens) == 30
    assert {81, 10813} == set(tokens)


async def test_the_window_ends_an_answer(starter_gguf: Path) -> None:
    made = LlamaCppBackend(LlamaCppOptions(model=str(starter_gguf), lanes=1, context=256, threads=1))
    await made.start()
    try:
        assert made.context_length == 256
        chunks = await chunks_of(made, ask((504,) * 250, 50, sampling=SamplingSpec(temperature=0.0, ignore_eos=True)))
        assert (len(ids_of(chunks)), chunks[-1].finish) == (6, EngineFinish.CONTEXT)
        with pytest.raises(ContextLengthExceeded):
            await made.submit(ask((504,) * 256))
    finally:
        await made.stop()


async def test_closing_frees_the_slot(backend: LlamaCppBackend) -> None:
    before = backend.stats().cancelled
    stream = await backend.submit(ask(FRANCE, 1500, sampling=SamplingSpec(temperature=0.0, ignore_eos=True)))
    async for chunk in stream:
        if chunk.tokens:
            break
    assert await busy(backend)
    await stream.aclose()
    async with asyncio.timeout(10):
        while await busy(backend):
            await asyncio.sleep(0.01)
    assert backend.stats().cancelled == before + 1
    assert len(ids_of(await chunks_of(backend, ask(FRANCE, 3)))) == 3


async def busy(backend: LlamaCppBackend) -> bool:
    _, answer = await client_of(backend).request("GET", "/slots", patience=30)
    return any(slot["is_processing"] for slot in msgspec.json.decode(answer))


async def test_a_killed_child_fails_its_stream_and_comes_back(backend: LlamaCppBackend) -> None:
    stream = await backend.submit(ask(FRANCE, 1500, sampling=SamplingSpec(temperature=0.0, ignore_eos=True)))
    await anext(stream)
    killed = backend.pid
    assert killed is not None
    os.kill(killed, signal.SIGKILL)
    with pytest.raises(EngineFailure, match="was killed by SIGKILL"):
        async for _chunk in stream:
            pass
    assert await eventually_ids(backend, ask(FRANCE, 2)) == [7042, 30]
    assert backend.pid != killed
    assert backend.stats().restarts == 1


async def test_stop_leaves_no_process(starter_gguf: Path) -> None:
    made = LlamaCppBackend(LlamaCppOptions(model=str(starter_gguf), lanes=1, context=512, threads=1))
    await made.start()
    pid = made.pid
    assert pid is not None
    await made.stop()
    assert gone_soon(pid, 1.0)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs prctl")
async def test_the_child_dies_with_its_parent(starter_gguf: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.backend.llamacpp.orphan", str(starter_gguf)]
    parent = subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, "TMPDIR": str(tmp_path)})
    assert parent.stdout is not None
    child = int(await asyncio.to_thread(parent.stdout.readline))
    parent.kill()
    parent.wait()
    parent.stdout.close()
    assert gone_soon(child)
    assert list(tmp_path.iterdir()) == [], "the socket is tidied up, too"


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"hello, this is no model", "invalid magic characters"), (b"", "failed to read magic"), (None, "No such file")],
)
async def test_a_broken_model_is_told_in_one_sentence(tmp_path: Path, content: bytes | None, reason: str) -> None:
    path = tmp_path / "broken.gguf"
    if content is not None:
        path.write_bytes(content)
    made = LlamaCppBackend(LlamaCppOptions(model=str(path), lanes=1, context=512, threads=1))
    with pytest.raises(EngineFailure) as caught:
        await made.start()
    assert caught.value.message.startswith("llama.cpp could not load 'broken.gguf': ")
    assert reason in caught.value.message
    assert any("failed to load model" in line for line in made.log_tail())
    await made.stop()
