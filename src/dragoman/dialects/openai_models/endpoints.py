"""The endpoint table of the model list."""

from __future__ import annotations

from dragoman.dialects.base import Dialect, Endpoint
from dragoman.dialects.openai_errors import ErrorEnvelope, openai_error
from dragoman.dialects.openai_models.read import read_model, read_models
from dragoman.dialects.openai_models.schema import ModelList, SingleModel

DIALECT = Dialect(
    name="openai_models",
    endpoints=(
        *(
            Endpoint(method="GET", path=path, summary="List the models (OpenAI).", read=read_models, answer=ModelList)
            for path in ("/v1/models", "/models")
        ),
        *(
            Endpoint(method="GET", path=path, summary="Show a model (OpenAI).", read=read_model, answer=SingleModel)
            for path in ("/v1/models/{id:path}", "/models/{id:path}")
        ),
    ),
    error=openai_error,
    error_body=ErrorEnvelope,
    prefixes=("/v1/models", "/models"),
)
