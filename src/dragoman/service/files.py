"""The use cases of stored files. Knows no wire and no HTTP."""

from __future__ import annotations

from pathlib import Path

from dragoman.core.errors import InvalidField, NotFound
from dragoman.core.files import (
    FileContent,
    FileDelete,
    FileDeleted,
    FileList,
    FileLookup,
    FilePage,
    FileRead,
    FileRecord,
    FileRequest,
    FileResult,
    FileUpload,
)
from dragoman.stores.files import FileStore

# As OpenAI's: what is read once, for a batch, need not stay for ever.
_BATCH_SECONDS = 30 * 86400


class FileDesk:
    """Files by request."""

    def __init__(self, files: FileStore) -> None:
        self._files = files

    async def run(self, request: FileRequest) -> FileResult:
        """Raises NotFound for a file that is not there, PayloadTooLarge when there is no room, StorageFailure."""
        match request:
            case FileUpload():
                return await self._add(request)
            case FileLookup():
                return await self._found(request)
            case FileRead():
                return await self._content(request)
            case FileDelete():
                if not await self._files.delete(request.id, request.tenant):
                    raise _missing(request.id)
                return FileDeleted(request.id)
            case FileList():
                return await self._page(request)

    async def _add(self, request: FileUpload) -> FileRecord:
        if not request.size:
            raise InvalidField("The file is empty.", field="file")
        lifetime = request.expires_after
        if lifetime is None and request.purpose == "batch":
            lifetime = _BATCH_SECONDS
        return await self._files.add(
            Path(request.path),
            name=request.name,
            content_type=request.content_type,
            purpose=request.purpose,
            lifetime=lifetime,
            tenant=request.tenant,
        )

    async def _found(self, request: FileLookup) -> FileRecord:
        record = await self._files.get(request.id, request.tenant)
        if record is None:
            raise _missing(request.id)
        return record

    async def _content(self, request: FileRead) -> FileContent:
        opened = await self._files.open(request.id, request.tenant)
        if opened is None:
            raise _missing(request.id)
        record, reader = opened
        return FileContent(record, reader.pieces())

    async def _page(self, request: FileList) -> FilePage:
        page = await self._files.page(
            limit=request.limit,
            after=request.after,
            order=request.order,
            purpose=request.purpose,
            tenant=request.tenant,
        )
        if page is None:
            raise InvalidField(f"There is no file '{request.after}' to list from.", field="after")
        return page


def _missing(id: str) -> NotFound:
    return NotFound(f"There is no file '{id[:80]}' on this server.", field="id")
