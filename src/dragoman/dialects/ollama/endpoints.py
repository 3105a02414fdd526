"""The route table of Ollama's wire."""

from __future__ import annotations

import msgspec

from dragoman.core.errors import StorageFull
from dragoman.dialects.base import Dialect, Endpoint, StaticCall, WireRequest
from dragoman.dialects.ollama.catalog_schema import CopyBody, CreateBody, DeleteBody, PullBody
from dragoman.dialects.ollama.embed import read_embed, read_old_embed
from dragoman.dialects.ollama.errors import error_reply
from dragoman.dialects.ollama.models import JSON, read_running, read_show, read_tags, read_version
from dragoman.dialects.ollama.names import read_blob, read_blob_upload, read_copy, read_create, read_delete
from dragoman.dialects.ollama.pull import read_pull, read_push
from dragoman.dialects.ollama.read import read_chat, read_generate
from dragoman.dialects.ollama.schema import ChatBody, EmbedBody, GenerateBody, OldEmbedBody, ShowBody

_BLOB = "/api/blobs/{digest}"


def read_root(wire: WireRequest) -> StaticCall:
    """GET and HEAD of the root, by which clients find a server of this wire."""
    return StaticCall(body=b"Ollama is running", content_type="text/plain; charset=utf-8")


def read_account(wire: WireRequest) -> StaticCall:
    """What belongs to an account of Ollama's cloud: there is none."""
    return StaticCall(body=b'{"error":"unauthorized"}', content_type=JSON, status=401)


DIALECT = Dialect(
    name="ollama",
    endpoints=(
        Endpoint(method="POST", path="/api/chat", summary="Chat (Ollama)", read=read_chat, body=ChatBody),
        Endpoint(
            method="POST", path="/api/generate", summary="Generate (Ollama)", read=read_generate, body=GenerateBody
        ),
        Endpoint(method="POST", path="/api/embed", summary="Vectors of texts", read=read_embed, body=EmbedBody),
        Endpoint(
            method="POST",
            path="/api/embeddings",
            summary="Vector of one text (superseded by /api/embed)",
            read=read_old_embed,
            body=OldEmbedBody,
        ),
        Endpoint(method="POST", path="/api/show", summary="One model in detail", read=read_show, body=ShowBody),
        Endpoint(method="GET", path="/api/tags", summary="Models that are here", read=read_tags),
        Endpoint(method="GET", path="/api/ps", summary="Models that are loaded", read=read_running),
        Endpoint(method="GET", path="/api/version", summary="The Ollama version spoken", read=read_version),
        Endpoint(method="POST", path="/api/pull", summary="Fetch a model", read=read_pull, body=PullBody),
        Endpoint(method="POST", path="/api/push", summary="Refused (Ollama)", read=read_push, body=PullBody),
        Endpoint(method="POST", path="/api/create", summary="Name a model", read=read_create, body=CreateBody),
        Endpoint(method="POST", path="/api/copy", summary="Name a model twice", read=read_copy, body=CopyBody),
        Endpoint(method="DELETE", path="/api/delete", summary="Forget a name", read=read_delete, body=DeleteBody),
        Endpoint(method="HEAD", path=_BLOB, summary="Whether a blob is here", read=read_blob),
        Endpoint(
            method="POST",
            path=_BLOB,
            summary="Upload a blob",
            read=read_blob_upload,
            upload=True,
            status=201,
            errors=(StorageFull,),
        ),
        *(
            Endpoint(method="POST", path=path, summary="No account here (Ollama)", read=read_account)
            for path in ("/api/me", "/api/signout")
        ),
    ),
    error=error_reply,
    stream_type="application/x-ndjson",
    prefixes=("/api",),
    content_type=JSON,
)


def at_home() -> Dialect:
    """The dialect of a port of its own, where the root and whatever nobody else claims are its too."""
    roots = tuple(
        Endpoint(method=method, path="/", summary="Tell that the server is there", read=read_root, public=True)
        for method in ("GET", "HEAD")
    )
    return msgspec.structs.replace(DIALECT, endpoints=(*DIALECT.endpoints, *roots), prefixes=("/api", "/"))
