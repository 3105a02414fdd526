"""Routes of llama-server that are answered with why they do nothing here."""

from __future__ import annotations

from typing import NoReturn

from dragoman.core.errors import NotSupported
from dragoman.dialects.base import StaticCall, WireRequest
from dragoman.dialects.llamacpp.tokens import JSON

_DISABLED = b'{"error":{"message":"this feature is disabled","type":"feature_disabled"}}'


def read_disabled(_: WireRequest) -> StaticCall:
    """/tools and /cors-proxy let web pages reach into the machine; llama-server has them off unless told otherwise."""
    return StaticCall(body=_DISABLED, content_type=JSON, status=403)


def read_audio(_: WireRequest) -> NoReturn:
    """No model here hears."""
    raise NotSupported("The current model does not support audio input.")


def read_router(_: WireRequest) -> NoReturn:
    """Loading and unloading models while the server runs is llama-server's router mode."""
    raise NotSupported(
        "This server serves the model it was started with and loads no other.",
        remedy="Start another server for another model.",
    )
