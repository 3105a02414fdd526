"""The endpoint table of the Files API."""

from __future__ import annotations

from dragoman.dialects.base import Dialect, Endpoint
from dragoman.dialects.openai_errors import openai_error
from dragoman.dialects.openai_files.read import read_content, read_delete, read_list, read_lookup, read_upload
from dragoman.dialects.openai_files.schema import UploadForm

DIALECT = Dialect(
    name="openai_files",
    endpoints=(
        Endpoint(method="POST", path="/v1/files", summary="Upload a file (OpenAI).", read=read_upload, form=UploadForm),
        Endpoint(method="GET", path="/v1/files", summary="List the files (OpenAI).", read=read_list),
        Endpoint(method="GET", path="/v1/files/{id}", summary="Show a file (OpenAI).", read=read_lookup),
        Endpoint(method="DELETE", path="/v1/files/{id}", summary="Delete a file (OpenAI).", read=read_delete),
        Endpoint(method="GET", path="/v1/files/{id}/content", summary="Download a file (OpenAI).", read=read_content),
    ),
    error=openai_error,
    prefixes=("/v1/files",),
)
