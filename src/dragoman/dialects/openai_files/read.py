"""File routes -> core requests. Knows no disk."""

from __future__ import annotations

from collections.abc import Mapping

from dragoman.core.errors import InvalidField, MissingField
from dragoman.core.files import FileDelete, FileList, FileLookup, FileRead, FileUpload
from dragoman.dialects.base import Form, SmallCall, WireRequest
from dragoman.dialects.openai_expiry import read_expiry
from dragoman.dialects.openai_files.schema import PURPOSES
from dragoman.dialects.openai_files.write import write_content, write_deleted, write_file, write_page
from dragoman.dialects.openai_listing import read_cursor, read_limit

MAX_LIST = 10_000
_POLICY = {"expires_after[anchor]": "anchor", "expires_after[seconds]": "seconds"}
_FIELDS = {"purpose", *_POLICY}


def read_upload(wire: WireRequest) -> SmallCall:
    """POST /v1/files: a form with `file`, `purpose` and perhaps `expires_after`."""
    form = wire.form or Form(fields={}, files={})
    file = form.files.get("file")
    if file is None:
        told = "came as a field without a file name" if "file" in form.fields else "is required"
        raise MissingField(f"The field 'file' {told}.", field="file", remedy="Send it as a file part of the form.")
    if not file.name:
        raise InvalidField("The file has no name.", field="file")
    request = FileUpload(
        path=file.path,
        name=file.name,
        size=file.size,
        content_type=file.content_type[:128],
        purpose=_purpose(form.fields),
        expires_after=_expiry(form.fields),
    )
    ignored = tuple(sorted({*form.fields, *form.files} - _FIELDS - {"file"}))
    return SmallCall(request=request, write=write_file, ignored=ignored)


def read_list(wire: WireRequest) -> SmallCall:
    """GET /v1/files."""
    order = wire.query.get("order") or "desc"
    if order not in ("asc", "desc"):
        raise InvalidField("'order' must be 'asc' or 'desc'.", field="order")
    request = FileList(
        limit=read_limit(wire.query, MAX_LIST, MAX_LIST),
        after=read_cursor(wire.query),
        order=order,
        purpose=wire.query.get("purpose") or None,
    )
    return SmallCall(request=request, write=write_page)


def read_lookup(wire: WireRequest) -> SmallCall:
    """GET /v1/files/{id}."""
    return SmallCall(request=FileLookup(wire.params["id"]), write=write_file)


def read_content(wire: WireRequest) -> SmallCall:
    """GET /v1/files/{id}/content."""
    return SmallCall(request=FileRead(wire.params["id"]), write=write_content)


def read_delete(wire: WireRequest) -> SmallCall:
    """DELETE /v1/files/{id}."""
    return SmallCall(request=FileDelete(wire.params["id"]), write=write_deleted)


def _purpose(fields: Mapping[str, str]) -> str:
    purpose = fields.get("purpose")
    if purpose is None:
        raise MissingField("The field 'purpose' is required.", field="purpose")
    if purpose not in PURPOSES:
        listed = ", ".join(f"'{name}'" for name in PURPOSES)
        raise InvalidField(f"'{purpose[:40]}' is no purpose; it must be one of {listed}.", field="purpose")
    return purpose


def _expiry(fields: Mapping[str, str]) -> int | None:
    if not any(name in fields for name in _POLICY):
        return None
    anchor, seconds = (fields.get(name) for name in _POLICY)
    return read_expiry(anchor, seconds, "expires_after")
