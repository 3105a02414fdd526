"""Writes a request body that is a file to disk as it arrives. Knows no meaning of it."""

from __future__ import annotations

import asyncio
import logging
import os
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from dragoman.core.disk import disk_error
from dragoman.dialects.base import Form, UploadedFile
from dragoman.gateway.reply import Uploads
from dragoman.http.body import Unread

_WRITE_SIZE = 512 * 1024
_log = logging.getLogger(__name__)


class RawUpload:
    """One file on its way in; what nobody has moved away is deleted on leaving."""

    def __init__(self, uploads: Uploads) -> None:
        self._folder = uploads.folder
        self._path: Path | None = None

    async def __aenter__(self) -> RawUpload:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        path = self._path
        if path is not None:
            await asyncio.to_thread(path.unlink, missing_ok=True)

    async def read(self, pieces: AsyncIterator[bytes]) -> Form:
        """The file, under the name ''. Raises Unread with StorageFailure."""
        try:
            handle, name = await asyncio.to_thread(tempfile.mkstemp, dir=self._folder, prefix="upload-")
            self._path = Path(name)
            with os.fdopen(handle, "wb") as file:
                size = await self._write(file, pieces)
        except OSError as error:
            _log.error("an upload could not be written: %s", error)
            raise Unread(disk_error(error), linger=True) from error
        return Form(fields={}, files={"": UploadedFile(name="", content_type="", path=name, size=size)})

    async def _write(self, file: BinaryIO, pieces: AsyncIterator[bytes]) -> int:
        waiting: list[bytes] = []
        size = held = 0
        async for piece in pieces:
            waiting.append(piece)
            size, held = size + len(piece), held + len(piece)
            if held >= _WRITE_SIZE:
                await asyncio.to_thread(file.write, b"".join(waiting))
                waiting, held = [], 0
        await asyncio.to_thread(file.write, b"".join(waiting))
        return size
