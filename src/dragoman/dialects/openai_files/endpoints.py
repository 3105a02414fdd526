"""The endpoint table of the Files API."""

from __future__ import annotations

from dragoman.core.errors import StorageFull
from dragoman.dialects.base import Dialect, Endpoint
from dragoman.dialects.openai_errors import ErrorEnvelope, openai_error
from dragoman.dialects.openai_files.read import read_content, read_delete, read_list, read_lookup, read_upload
from dragoman.dialects.openai_files.schema import FileDeletion, FileObject, FilesQuery, UploadForm
from dragoman.dialects.openai_listing import Listing

_ONE = "/v1/files/{id}"

DIALECT = Dialect(
    name="openai_files",
    endpoints=(
        Endpoint(
            method="POST",
            path="/v1/files",
            summary="Upload a file (OpenAI).",
            read=read_upload,
            form=UploadForm,
            answer=FileObject,
            errors=(StorageFull,),
        ),
        Endpoint(
            method="GET",
            path="/v1/files",
            summary="List the files (OpenAI).",
            read=read_list,
            query=FilesQuery,
            answer=Listing[FileObject],
        ),
        Endpoint(method="GET", path=_ONE, summary="Show a file (OpenAI).", read=read_lookup, answer=FileObject),
        Endpoint(method="DELETE", path=_ONE, summary="Delete a file (OpenAI).", read=read_delete, answer=FileDeletion),
        Endpoint(
            method="GET",
            path=f"{_ONE}/content",
            summary="Download a file (OpenAI), under its own media type.",
            read=read_content,
            content_type="*/*",
        ),
    ),
    error=openai_error,
    error_body=ErrorEnvelope,
    prefixes=("/v1/files",),
)
