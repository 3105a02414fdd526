"""The wire struct of rerank requests. Shapes only: what values mean is decided where they are read."""

from __future__ import annotations

from dragoman.dialects.rerank_fields import RerankFields, TextObject


class RerankBody(RerankFields, kw_only=True):
    """Body of POST /v1/rerank. `truncation` cuts documents that do not fit, `max_tokens_per_doc` to so many tokens;
    `texts` instead of `documents` asks for the answer of text-embeddings-inference, with texts on `return_text`."""

    truncation: bool | None = None
    max_tokens_per_doc: int | None = None
    texts: list[str | TextObject] | None = None
    return_text: bool | None = None
    raw_scores: bool | None = None
    user: str | None = None
