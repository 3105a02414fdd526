"""Reads a multipart/form-data body (RFC 7578): files go to disk as they arrive. Knows no field's meaning."""

from __future__ import annotations

import asyncio
import logging
import os
import tempfile
from collections.abc import AsyncIterator
from email.message import Message
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser

if TYPE_CHECKING:
    from python_multipart.multipart import MultipartCallbacks

from dragoman.core.disk import disk_error
from dragoman.core.errors import DragomanError, InvalidRequest, PayloadTooLarge
from dragoman.dialects.base import Form, UploadedFile
from dragoman.gateway.reply import Uploads
from dragoman.http.body import Unread

MAX_PARTS = 64
MAX_FIELD = 64 * 1024
MAX_NAME = 255
# What the parts of a form may take beside the file: headers, boundaries, fields.
OVERHEAD = 1024 * 1024
_WRITE_SIZE = 512 * 1024
_log = logging.getLogger(__name__)


class FormReader:
    """One form on its way in. `uploads` says where its files go and how large one may be."""

    def __init__(self, content_type: str, uploads: Uploads) -> None:
        self._parts = _Parts(uploads)
        self._parser = MultipartParser(_boundary(content_type), self._parts.callbacks(), max_header_size=8192)

    async def read(self, pieces: AsyncIterator[bytes]) -> Form:
        """The whole form. Raises Unread with PayloadTooLarge, InvalidRequest or StorageFailure; then nothing is left on
        disk, as after a cancellation."""
        try:
            await self._feed(pieces)
            return self._parts.form()
        except BaseException:
            await asyncio.to_thread(self.discard)
            raise

    def discard(self) -> None:
        """Delete what was written and nobody has moved away."""
        self._parts.discard()

    async def _feed(self, pieces: AsyncIterator[bytes]) -> None:
        waiting: list[bytes] = []
        size = 0
        async for piece in pieces:
            waiting.append(piece)
            size += len(piece)
            if size >= _WRITE_SIZE:
                await self._write(b"".join(waiting))
                waiting, size = [], 0
        await self._write(b"".join(waiting))

    async def _write(self, data: bytes) -> None:
        try:
            await asyncio.to_thread(self._parser.write, data)
        except FormParserError as error:
            raise Unread(_malformed(str(error)), linger=True) from error
        except OSError as error:
            _log.error("an upload could not be written: %s", error)
            raise Unread(disk_error(error), linger=True) from error
        except DragomanError as error:
            raise Unread(error, linger=True) from error


class _Parts:
    """The parts of one form, as the parser tells of them."""

    def __init__(self, uploads: Uploads) -> None:
        self._uploads = uploads
        self._fields: dict[str, str] = {}
        self._files: dict[str, UploadedFile] = {}
        self._paths: list[Path] = []
        self._header = (bytearray(), bytearray())
        self._headers = Message()
        self._name = ""
        self._value = bytearray()
        self._file: BinaryIO | None = None
        self._size = 0
        self._count = 0
        self._over = False

    def callbacks(self) -> MultipartCallbacks:
        """What the parser calls."""
        return {
            "on_part_begin": self._begin,
            "on_header_field": lambda data, start, end: self._header[0].extend(data[start:end]),
            "on_header_value": lambda data, start, end: self._header[1].extend(data[start:end]),
            "on_header_end": self._end_header,
            "on_headers_finished": self._end_headers,
            "on_part_data": self._data,
            "on_part_end": self._end,
            "on_end": self._finish,
        }

    def form(self) -> Form:
        """All of it. Raises InvalidRequest when the last boundary has not come."""
        if not self._over:
            raise _malformed("it ends before its last boundary")
        return Form(fields=self._fields, files=self._files)

    def discard(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
        for path in self._paths:
            path.unlink(missing_ok=True)

    def _begin(self) -> None:
        self._count += 1
        if self._count > MAX_PARTS:
            raise InvalidRequest(f"The form has more than {MAX_PARTS} parts.")
        self._headers = Message()
        self._value = bytearray()
        self._size = 0

    def _end_header(self) -> None:
        name, value = (bytes(part).decode("utf-8", "replace") for part in self._header)
        self._header = (bytearray(), bytearray())
        self._headers[name] = value.strip()

    def _end_headers(self) -> None:
        name = self._headers.get_param("name", header="content-disposition")
        if not isinstance(name, str) or not name:
            raise _malformed("a part has no name")
        self._name = name
        if self._headers.get_filename() is not None:
            handle, path = tempfile.mkstemp(dir=self._uploads.folder, prefix="upload-")
            self._paths.append(Path(path))
            self._file = os.fdopen(handle, "wb")

    def _data(self, data: bytes, start: int, end: int) -> None:
        self._size += end - start
        if self._file is None:
            if self._size > MAX_FIELD:
                raise PayloadTooLarge(f"The form field is larger than {MAX_FIELD} bytes.", field=self._name)
            self._value += data[start:end]
            return
        if self._size > self._uploads.limit:
            raise file_too_large(self._uploads.limit, self._name)
        self._file.write(memoryview(data)[start:end])

    def _end(self) -> None:
        if self._file is None:
            self._fields[self._name] = self._value.decode("utf-8", "replace")
            return
        self._file.close()
        self._file = None
        self._files[self._name] = UploadedFile(
            name=_plain_name(self._headers.get_filename() or ""),
            content_type=self._headers.get("content-type", ""),
            path=str(self._paths[-1]),
            size=self._size,
        )

    def _finish(self) -> None:
        self._over = True


def file_too_large(limit: int, field: str | None = None) -> PayloadTooLarge:
    """The error for a file over `limit` bytes."""
    return PayloadTooLarge(
        f"The file is larger than {limit} bytes.",
        field=field,
        remedy="Upload less, or start the server with a larger --max-file-bytes.",
    )


def _boundary(content_type: str) -> bytes:
    head = Message()
    head["content-type"] = content_type
    boundary = head.get_boundary("")
    # RFC 2046 section 5.1.1 has at most 70 characters.
    if head.get_content_type() != "multipart/form-data" or not 0 < len(boundary) <= 70:
        raise Unread(
            InvalidRequest(
                "The request body must be a form of the type multipart/form-data with a boundary.",
                field="content-type",
            ),
            linger=True,
        )
    return boundary.encode("latin-1", "replace")


def _plain_name(name: str) -> str:
    """The name without folders (of either slant) and control characters. Clients write a quotation mark as %22 and line
    ends as %0D and %0A (WHATWG HTML, multipart form data)."""
    for code, char in (("%22", '"'), ("%0D", ""), ("%0A", "")):
        name = name.replace(code, char)
    last = name.replace("\\", "/").rsplit("/", 1)[-1]
    return "".join(char for char in last if char.isprintable())[:MAX_NAME]


def _malformed(why: str) -> InvalidRequest:
    return InvalidRequest(f"The form is malformed: {why.rstrip('.')}.")
