"""Stored files -> the OpenAI file object, lists and contents."""

from __future__ import annotations

from urllib.parse import quote

import msgspec

from dragoman.core.files import FileContent, FileDeleted, FilePage, FileRecord
from dragoman.dialects.base import ByteStream
from dragoman.dialects.openai_files.schema import FileDeletion, FileObject
from dragoman.dialects.openai_listing import listing

_BYTES = "application/octet-stream"
# What no browser runs. Anything else is sent as plain bytes.
_INERT = {
    "text/plain", "text/csv", "text/markdown", "application/json", "application/jsonl", "application/x-ndjson",
    "application/pdf", "image/png", "image/jpeg", "image/gif", "image/webp", "audio/wav", "audio/mpeg",
}  # fmt: skip
_BY_ENDING = {
    "jsonl": "application/jsonl", "json": "application/json", "txt": "text/plain", "md": "text/markdown",
    "csv": "text/csv", "pdf": "application/pdf", "png": "image/png", "jpg": "image/jpeg", "jpeg": "image/jpeg",
    "gif": "image/gif", "webp": "image/webp", "wav": "audio/wav", "mp3": "audio/mpeg",
}  # fmt: skip


def write_file(record: FileRecord) -> bytes:
    """One file."""
    return msgspec.json.encode(file_object(record))


def write_page(page: FilePage) -> bytes:
    """A page of files."""
    objects = [file_object(record) for record in page.files]
    return msgspec.json.encode(listing(objects, [file.id for file in objects], page.more))


def write_deleted(deleted: FileDeleted) -> bytes:
    """A file that is gone."""
    return msgspec.json.encode(FileDeletion(id=deleted.id))


def write_content(content: FileContent) -> ByteStream:
    """The bytes, under the type they were uploaded with if no browser would run it."""
    record = content.record
    plain = "".join(
        char if char.isascii() and char.isprintable() and char not in '"\\' else "_" for char in record.name
    )
    return ByteStream(
        pieces=content.pieces,
        size=record.size,
        content_type=content_type(record),
        headers={
            # RFC 6266: the ASCII name for the old, the whole name for the rest.
            "content-disposition": f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(record.name, safe='')}",
            "x-content-type-options": "nosniff",
        },
    )


def content_type(record: FileRecord) -> str:
    """The media type a file is sent with."""
    declared = record.content_type.partition(";")[0].strip().lower()
    if declared in ("", _BYTES):
        return _BY_ENDING.get(record.name.rpartition(".")[2].lower(), _BYTES)
    return declared if declared in _INERT else _BYTES


def file_object(record: FileRecord) -> FileObject:
    """One file as the wire has it."""
    return FileObject(
        id=record.id,
        bytes=record.size,
        created_at=record.created,
        expires_at=record.expires,
        filename=record.name,
        purpose=record.purpose,
    )
