"""What all rerank wires have in common: a query, documents, how many of them. Knows no endpoint."""

from __future__ import annotations

from typing import Any

import msgspec

from dragoman.core.errors import InvalidField, MissingField

MAX_DOCUMENTS = 1000
"""Documents of one request; Cohere's recommendation and mlx2's limit."""


class TextObject(msgspec.Struct, kw_only=True):
    """A text in an object, as Jina and Cohere also take it."""

    text: str


class RerankFields(msgspec.Struct, kw_only=True):
    """Fields of every rerank request."""

    model: str | None = None
    query: str | TextObject | None = None
    documents: list[str | TextObject] | None = None
    top_n: int | None = None
    return_documents: bool | None = None


def read_query(query: str | TextObject | None) -> str:
    """The text of the query. Raises MissingField."""
    if query is None:
        # llama-server's own words, here and below.
        raise MissingField('"query" must be provided', field="query")
    return query if isinstance(query, str) else query.text


def read_documents(documents: list[str | TextObject] | None, name: str = "documents") -> tuple[str, ...]:
    """The texts of the documents, in order. Raises InvalidField."""
    if not documents:
        raise InvalidField(f'"{name}" must be a non-empty string array', field=name)
    if len(documents) > MAX_DOCUMENTS:
        raise InvalidField(f"Invalid '{name}': at most {MAX_DOCUMENTS} documents are allowed.", field=name)
    return tuple(document if isinstance(document, str) else document.text for document in documents)


def read_top_n(top_n: int | None) -> int | None:
    """How many results; None for all. Raises InvalidField below 1."""
    if top_n is not None and top_n < 1:
        raise InvalidField(f"Invalid 'top_n': {top_n} is below the minimum of 1.", field="top_n")
    return top_n


def with_document(result: dict[str, Any], documents: tuple[str, ...] | None) -> dict[str, Any]:
    """`result` with its document, where documents are to be returned."""
    return result if documents is None else {**result, "document": {"text": documents[result["index"]]}}
