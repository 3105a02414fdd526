"""One way to ask each dialect for text through its official SDK, whole and streamed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import anthropic
import ollama
import openai

MODEL = "any-name"


@contextmanager
def openai_client(url: str, **options) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0, **options) as client:
        yield client


@contextmanager
def anthropic_client(url: str, **options) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=url, api_key="x", max_retries=0, **options) as client:
        yield client


@contextmanager
def ollama_client(url: str) -> Iterator[ollama.Client]:
    client = ollama.Client(host=url)
    try:
        yield client
    finally:
        client._client.close()


def openai_chat(url: str, text: str, limit: int, stream: bool) -> str:
    with openai_client(url) as client:
        asked = {"model": MODEL, "messages": [{"role": "user", "content": text}], "max_tokens": limit, "temperature": 0}
        if not stream:
            return client.chat.completions.create(**asked).choices[0].message.content or ""
        with client.chat.completions.create(**asked, stream=True) as chunks:
            return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


def anthropic_messages(url: str, text: str, limit: int, stream: bool) -> str:
    with anthropic_client(url) as client:
        asked = {"model": MODEL, "messages": [{"role": "user", "content": text}], "max_tokens": limit}
        asked["extra_body"] = {"temperature": 0}
        if not stream:
            return "".join(block.text for block in client.messages.create(**asked).content)
        with client.messages.stream(**asked) as events:
            return "".join(events.text_stream)


def ollama_chat(url: str, text: str, limit: int, stream: bool) -> str:
    with ollama_client(url) as client:
        asked = {"model": MODEL, "messages": [{"role": "user", "content": text}]}
        asked["options"] = {"temperature": 0, "num_predict": limit}
        if not stream:
            return client.chat(**asked).message.content or ""
        return "".join(part.message.content or "" for part in client.chat(**asked, stream=True))


def llamacpp_completion(url: str, text: str, limit: int, stream: bool) -> str:
    """The native wire has no chat, so the prompt is rendered by the server first."""
    import httpx2

    with httpx2.Client(base_url=url, timeout=120) as client:
        chat = {"messages": [{"role": "user", "content": text}]}
        prompt = client.post("/apply-template", json=chat).json()["prompt"]
        asked = {"prompt": prompt, "n_predict": limit, "temperature": 0, "stream": stream}
        reply = client.post("/completion", json=asked)
        if not stream:
            return reply.json()["content"]
        frames = [line[6:] for line in reply.text.splitlines() if line.startswith("data: ")]
        import json

        return "".join(json.loads(frame)["content"] for frame in frames)


DIALECTS: dict[str, Callable[[str, str, int, bool], str]] = {
    "openai_chat": openai_chat,
    "anthropic": anthropic_messages,
    "ollama": ollama_chat,
    "llamacpp": llamacpp_completion,
}
