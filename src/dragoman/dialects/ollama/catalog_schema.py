"""Ollama's bodies of requests about models as msgspec types. `name` is the older spelling of `model`."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from dragoman.dialects.ollama.schema import MessageBody


class CreateBody(Struct, kw_only=True, rename={"from_": "from"}):
    """Body of POST /api/create. `files` maps file names to digests of blobs; `parameters` are options."""

    model: str | None = None
    name: str | None = None
    from_: str | None = None
    files: dict[str, str] | None = None
    adapters: dict[str, str] | None = None
    template: str | None = None
    license: str | list[str] | None = None
    system: str | None = None
    parameters: dict[str, Any] | None = None
    messages: list[MessageBody] | None = None
    stream: bool | None = None
    quantize: str | None = None
    quantization: str | None = None
    modelfile: str | None = None
    path: str | None = None


class CopyBody(Struct, kw_only=True):
    """Body of POST /api/copy."""

    source: str | None = None
    destination: str | None = None


class DeleteBody(Struct, kw_only=True):
    """Body of DELETE /api/delete."""

    model: str | None = None
    name: str | None = None


class PullBody(Struct, kw_only=True):
    """Body of POST /api/pull and /api/push."""

    model: str | None = None
    name: str | None = None
    insecure: bool | None = None
    username: str | None = None
    password: str | None = None
    stream: bool | None = None
