"""The endpoint table of the model list."""

from __future__ import annotations

from dragoman.dialects.base import Dialect, Endpoint
from dragoman.dialects.openai_errors import openai_error
from dragoman.dialects.openai_models.read import read_model, read_models

DIALECT = Dialect(
    name="openai_models",
    endpoints=(
        Endpoint(method="GET", path="/v1/models", summary="List the served models (OpenAI).", read=read_models),
        Endpoint(method="GET", path="/models", summary="List the served models (OpenAI).", read=read_models),
        Endpoint(method="GET", path="/v1/models/{id:path}", summary="Show a served model (OpenAI).", read=read_model),
        Endpoint(method="GET", path="/models/{id:path}", summary="Show a served model (OpenAI).", read=read_model),
    ),
    error=openai_error,
    prefixes=("/v1/models", "/models"),
)
