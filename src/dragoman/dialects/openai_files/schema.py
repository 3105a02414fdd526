"""Wire structs of the Files API."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

Purpose = Literal["assistants", "batch", "fine-tune", "vision", "user_data", "evals"]
PURPOSES: tuple[str, ...] = ("assistants", "batch", "fine-tune", "vision", "user_data", "evals")


class ExpiresAfter(msgspec.Struct, frozen=True):
    """When a file is to go; `seconds` after the anchor."""

    anchor: Literal["created_at"]
    seconds: int


class UploadForm(msgspec.Struct, frozen=True):
    """The parts of an upload; the policy comes as `expires_after[anchor]` and `expires_after[seconds]`."""

    file: Annotated[str, msgspec.Meta(extra_json_schema={"format": "binary"})]
    purpose: Purpose
    expires_after: ExpiresAfter | None = None


class FilesQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Query of GET /v1/files."""

    after: str | None = None
    limit: int | None = None
    order: Literal["asc", "desc"] | None = None
    purpose: str | None = None


class FileObject(msgspec.Struct, frozen=True, kw_only=True):
    """A file. Times in Unix seconds."""

    id: str
    object: str = "file"
    bytes: int
    created_at: int
    expires_at: int | None
    filename: str
    purpose: str
    status: str = "processed"
    status_details: str | None = None


class FileDeletion(msgspec.Struct, frozen=True, kw_only=True):
    """A file that is gone."""

    id: str
    object: str = "file"
    deleted: bool = True
