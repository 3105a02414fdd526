"""Names for models: create, copy, delete, and the blobs that a model may be made of. Stores nothing itself."""

from __future__ import annotations

import msgspec

from dragoman.core.errors import InvalidField, MissingField, UnsupportedField
from dragoman.core.names import BlobLookup, BlobPut, NameCopy, NameDelete, NamedModel, NameSet, NameSettings
from dragoman.dialects.base import SmallCall, WireRequest
from dragoman.dialects.decoding import unknown_fields
from dragoman.dialects.ollama.body import decode_body, model_of
from dragoman.dialects.ollama.catalog_schema import CopyBody, CreateBody, DeleteBody
from dragoman.dialects.ollama.messages import read_messages
from dragoman.dialects.ollama.options import read_options

NDJSON = "application/x-ndjson"
_STATUSES = ("using existing layer", "writing manifest", "success")
_REFUSED = {
    "adapters": "Mount adapters with --adapter.",
    "quantize": "Quantize the model before you upload it.",
    "quantization": "Quantize the model before you upload it.",
    "modelfile": "Send its parts as fields: from, parameters, system, template, messages.",
    "path": "Send the parts of the Modelfile as fields: from, parameters, system, template, messages.",
}


def read_create(wire: WireRequest) -> SmallCall:
    """POST /api/create: a name with settings for a model that is here, or for one made of uploaded files."""
    fields, body = decode_body(wire, CreateBody)
    for name, remedy in _REFUSED.items():
        if getattr(body, name):
            raise UnsupportedField(f"'{name}' is not supported by this server.", field=name, remedy=remedy)
    if not body.from_ and not body.files:
        raise InvalidField("neither 'from' or 'files' was specified", field="from")
    if body.from_ and body.files:
        raise UnsupportedField("'files' together with 'from' is not supported.", field="files")
    options = read_options(body.parameters, "parameters")
    licences = [body.license] if isinstance(body.license, str) else body.license or []
    named = NamedModel(
        name=model_of(body),
        base=body.from_ or "",
        settings=NameSettings(
            sampling=options.sampling,
            max_tokens=options.max_tokens,
            stop=options.stop,
            system=body.system or "",
            messages=read_messages(body.messages or ()),
            template=body.template or "",
        ),
        parameters=body.parameters or {},
        license=tuple(licences),
    )
    streamed = body.stream is not False
    return SmallCall(
        request=NameSet(named=named, files=tuple((body.files or {}).items())),
        write=lambda _: _progress() if streamed else b'{"status":"success"}',
        ignored=(*unknown_fields(fields, CreateBody), *options.ignored),
        content_type=NDJSON if streamed else "",
    )


def read_copy(wire: WireRequest) -> SmallCall:
    """POST /api/copy. Answered without a body."""
    fields, body = decode_body(wire, CopyBody)
    for name in ("source", "destination"):
        if not getattr(body, name):
            raise MissingField(f"{name} is required", field=name)
    request = NameCopy(body.source or "", body.destination or "")
    return SmallCall(request=request, write=_nothing, ignored=unknown_fields(fields, CopyBody))


def read_delete(wire: WireRequest) -> SmallCall:
    """DELETE /api/delete. Answered without a body."""
    fields, body = decode_body(wire, DeleteBody)
    return SmallCall(request=NameDelete(model_of(body)), write=_nothing, ignored=unknown_fields(fields, DeleteBody))


def read_blob(wire: WireRequest) -> SmallCall:
    """HEAD /api/blobs/{digest}."""
    return SmallCall(request=BlobLookup(wire.params["digest"]), write=_nothing)


def read_blob_upload(wire: WireRequest) -> SmallCall:
    """POST /api/blobs/{digest}: the body is the file."""
    if wire.form is None:
        raise InvalidField("This server takes no files now.", field="digest")
    return SmallCall(request=BlobPut(wire.params["digest"], wire.form.files[""].path), write=_nothing)


def _progress() -> bytes:
    return b"".join(msgspec.json.encode({"status": status}) + b"\n" for status in _STATUSES)


def _nothing(_: object) -> bytes:
    return b""
