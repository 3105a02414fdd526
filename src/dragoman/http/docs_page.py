"""GET /docs: a page that renders the OpenAPI document in the browser. It is one file and asks nobody else."""

from __future__ import annotations

from importlib.resources import files

from dragoman.dialects.base import Endpoint, StaticCall, WireRequest

_HTML = "text/html; charset=utf-8"


def docs_endpoint() -> Endpoint:
    """The row of the page. It tells nothing by itself and needs no key; the document it asks for does."""
    return Endpoint(
        method="GET",
        path="/docs",
        summary="This document as a page for people.",
        read=_read,
        public=True,
        content_type=_HTML,
    )


def _read(_: WireRequest) -> StaticCall:
    page = files("dragoman.http").joinpath("docs.html").read_bytes()
    return StaticCall(body=page, content_type=_HTML)
