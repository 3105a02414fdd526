"""Files that clients upload or the server writes for them: records and requests. Knows no wire and no disk."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Literal

from msgspec import Struct


class FileRecord(Struct, frozen=True, kw_only=True):
    """A stored file. `created` and `expires` in Unix seconds, `expires` None: never; `size` in bytes; `content_type`
    as the uploader declared it, '' for none."""

    id: str
    tenant: str = ""
    name: str
    content_type: str = ""
    purpose: str
    size: int
    created: int
    expires: int | None = None


class FileUpload(Struct, frozen=True, kw_only=True):
    """A file has arrived and is to be kept. `path` is where its bytes are now; they are moved from there.
    `expires_after` seconds from now, None: what the purpose has by default."""

    path: str
    name: str
    size: int
    content_type: str = ""
    purpose: str
    expires_after: int | None = None
    tenant: str = ""


class FileLookup(Struct, frozen=True):
    """The record of one file."""

    id: str
    tenant: str = ""


class FileRead(Struct, frozen=True):
    """The bytes of one file."""

    id: str
    tenant: str = ""


class FileDelete(Struct, frozen=True):
    """One file is to be deleted."""

    id: str
    tenant: str = ""


class FileList(Struct, frozen=True, kw_only=True):
    """One page of files by age. `after` is the id of the last file of the page before."""

    limit: int
    after: str | None = None
    order: Literal["asc", "desc"] = "desc"
    purpose: str | None = None
    tenant: str = ""


class FilePage(Struct, frozen=True):
    """Files, and whether there are more behind them."""

    files: tuple[FileRecord, ...]
    more: bool


class FileContent(Struct, frozen=True):
    """A file and its bytes in pieces. The pieces must be read or closed."""

    record: FileRecord
    pieces: AsyncGenerator[bytes]


class FileDeleted(Struct, frozen=True):
    """The file of that id is gone."""

    id: str


FileRequest = FileUpload | FileLookup | FileRead | FileDelete | FileList
FileResult = FileRecord | FilePage | FileContent | FileDeleted
