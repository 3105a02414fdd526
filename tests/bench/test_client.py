from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from bench.client import Run, chat, events, read_chat

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"


def frame(text: str | None = None, **fields: Any) -> bytes:
    choices = [] if text is None else [{"index": 0, "delta": {"content": text}}]
    return b"data: " + json.dumps({"choices": choices, **fields}).encode() + b"\n\n"


def chunked(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def read(*pieces: bytes, sent: float = 10.0) -> Run:
    """A run whose pieces came one second apart."""
    return read_chat(Run(sent=sent, arrivals=[(sent + 1 + at, piece) for at, piece in enumerate(pieces)]))


def test_texts_counts_and_times() -> None:
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 2}}
    run = read(HEAD, frame(""), frame("a"), frame("b"), frame("c"), frame(usage=usage), b"data: [DONE]\n\n")
    assert run.text == "abc"
    assert (run.tokens, run.prompt_tokens, run.cached_tokens) == (3, 7, 2)
    assert run.first == 3.0, "an empty role chunk is no text"
    assert run.decode_rate == 1.0
    assert run.frames == 6


def test_usage_without_details() -> None:
    run = read(frame("a", usage={"prompt_tokens": 1, "completion_tokens": 1}), b"data: [DONE]\n\n")
    assert run.cached_tokens == 0
    assert run.decode_rate == 0.0, "one token has no rate"


def test_reasoning_is_text_under_both_names() -> None:
    deltas = [{"reasoning_content": "x"}, {"reasoning": "y"}, {"content": None}]
    pieces = [b"data: " + json.dumps({"choices": [{"delta": delta}]}).encode() + b"\n\n" for delta in deltas]
    assert read(*pieces, b"data: [DONE]\n\n").text == "xy"


def test_events_split_over_reads_and_framed_by_chunks() -> None:
    whole = HEAD + chunked(frame("one")) + b": keepalive 3/9\n\n" + chunked(frame("two") + frame("three"))
    for cut in range(1, len(whole)):
        found = list(events([(1.0, whole[:cut]), (2.0, whole[cut:])]))
        texts = [json.loads(data)["choices"][0]["delta"]["content"] for _, data in found]
        assert texts == ["one", "two", "three"]
        assert [at for at, _ in found] == sorted(at for at, _ in found)


def test_an_event_counts_when_its_last_byte_came() -> None:
    data = frame("one")
    assert [at for at, _ in events([(1.0, data[:9]), (2.0, data[9:])])] == [2.0]


def test_broken_off_and_failed_streams_are_told() -> None:
    with pytest.raises(RuntimeError, match="broke off"):
        read(frame("a"))
    with pytest.raises(RuntimeError, match="too bad"):
        read(frame("a"), b'data: {"error": {"message": "too bad"}}\n\n')


def test_gaps_overlap_the_window() -> None:
    run = Run(texts=[(1.0, "a"), (2.0, "b"), (5.0, "c"), (6.0, "d")])
    assert run.gaps() == [1.0, 3.0, 1.0]
    assert run.gaps(3.0, 4.0) == [3.0]
    assert run.gaps(5.5) == [1.0]
    assert run.gaps(7.0) == []


@pytest.mark.anyio
async def test_a_refusal_is_told_with_its_body() -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 429 Too Many Requests\r\n\r\nqueue full")
        writer.close()

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(RuntimeError, match=r"(?s)429.*queue full"):
            await chat(f"http://127.0.0.1:{port}", {})


@pytest.mark.anyio
async def test_the_listener_hears_frames_as_they_come() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(HEAD)
        for piece in (frame("a"), frame("b"), b"data: [DONE]\n\n"):
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0.01)
        writer.close()

    heard: list[int] = []
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        run = await chat(f"http://127.0.0.1:{port}", {"messages": []}, heard.append)
    assert heard == sorted(heard)
    assert heard[-1] == 3
    assert run.text == "ab"
    assert run.sent < run.ended
