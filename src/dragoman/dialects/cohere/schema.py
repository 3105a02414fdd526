"""The wire struct of Cohere's rerank requests. Shapes only: what values mean is decided where they are read."""

from __future__ import annotations

from dragoman.dialects.rerank_fields import RerankFields


class CohereRerankBody(RerankFields, kw_only=True):
    """Body of POST /v2/rerank. `priority` cannot change a local answer."""

    max_tokens_per_doc: int | None = None
    priority: int | None = None
