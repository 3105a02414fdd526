"""The wire struct of embeddings requests. Shapes only: what values mean is decided where they are read."""

from __future__ import annotations

import msgspec

Inputs = str | list[str | int | list[int]]


class EmbeddingsRequest(msgspec.Struct, kw_only=True):
    """Body of POST /v1/embeddings. `instruction` goes before each text (Qwen3-Embedding); `truncate` and vLLM's
    `truncate_prompt_tokens` cut inputs that are too long, which are refused else; `embd_normalize` is llama-server's,
    and so is `content`, another name of `input` that asks for its own shape of answer."""

    input: Inputs | None = None
    content: Inputs | None = None
    model: str | None = None
    dimensions: int | None = None
    encoding_format: str | None = None
    user: str | None = None
    instruction: str | None = None
    truncate: bool | None = None
    truncate_prompt_tokens: int | None = None
    embd_normalize: int | None = None
