"""The rows of a batch's input file: on each line a JSON object with custom_id, method, url, body. Knows no store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from dragoman.core.batches import BatchFault, NewRow
from dragoman.core.errors import DragomanError

MAX_ID = 512
_CHUNK_ROWS = 500
_CHUNK_BYTES = 8 * 1024 * 1024
_BOM = b"\xef\xbb\xbf"


class BadInput(DragomanError):
    """The input as a whole cannot be run."""

    status = 400

    def __init__(self, fault: BatchFault) -> None:
        super().__init__(fault.message)
        self.fault = fault


_NULL = msgspec.Raw(b"null")


class _Line(msgspec.Struct):
    custom_id: Any = None
    method: Any = None
    url: Any = None
    body: msgspec.Raw = _NULL


class _Body(msgspec.Struct):
    stream: Any = None


class _Malformed(Exception):
    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class InputReader:
    """Reads one file. `endpoint` is the path every row must have, `max_rows` how many there may be, `max_line` how many
    bytes one may have."""

    def __init__(self, path: Path, endpoint: str, *, max_rows: int, max_line: int) -> None:
        self._path = path
        self._endpoint = endpoint
        self._max_rows = max_rows
        self._max_line = max_line
        self._ids: set[str] = set()

    def chunks(self) -> Iterator[list[tuple[int, NewRow]]]:
        """Rows with their line numbers, some hundred at a time; malformed ones are marked. Blank lines are passed over.
        Raises BadInput for too many rows and for none, OSError."""
        chunk: list[tuple[int, NewRow]] = []
        rows = size = 0
        for number, line in self._lines():
            rows += 1
            if rows > self._max_rows:
                raise BadInput(
                    BatchFault("too_many_tasks", f"A batch may have {self._max_rows} requests; this file has more.")
                )
            chunk.append((number, self.row(line)))
            size += len(line)
            if len(chunk) >= _CHUNK_ROWS or size >= _CHUNK_BYTES:
                yield chunk
                chunk, size = [], 0
        if not rows:
            raise BadInput(BatchFault("empty_file", "The input file has no requests."))
        if chunk:
            yield chunk

    def row(self, line: bytes) -> NewRow:
        """The row on one line."""
        custom_id: str | None = None
        try:
            if len(line) > self._max_line:
                raise _Malformed("line_too_long", f"The line is longer than {self._max_line} bytes.")
            read = _decode(line)
            custom_id = self._custom_id(read.custom_id)
            body = self._checked(read)
        except _Malformed as fault:
            return NewRow(custom_id=custom_id, path=self._endpoint, code=fault.code, message=fault.message)
        return NewRow(custom_id=custom_id, method="POST", path=self._endpoint, body=body)

    def _lines(self) -> Iterator[tuple[int, bytes]]:
        with self._path.open("rb") as file:
            number = 0
            while line := file.readline(self._max_line + 2):
                number += 1
                whole = line
                while not whole.endswith(b"\n") and (whole := file.readline(self._max_line + 2)):
                    pass  # the rest of a line that is too long
                line = (line.removeprefix(_BOM) if number == 1 else line).strip()
                if line:
                    yield number, line

    def _custom_id(self, value: Any) -> str:
        if value is None:
            raise _Malformed("missing_required_parameter", "The field 'custom_id' is required.")
        if not isinstance(value, str) or not 0 < len(value) <= MAX_ID:
            raise _Malformed("invalid_custom_id", f"'custom_id' must be a string of 1 to {MAX_ID} characters.")
        if value in self._ids:
            raise _Malformed("duplicate_custom_id", f"The custom_id '{value[:64]}' was used on an earlier line.")
        self._ids.add(value)
        return value

    def _checked(self, read: _Line) -> bytes:
        """The body. What else stands on a line changes no answer."""
        for name, value in (("method", read.method), ("url", read.url), ("body", read.body)):
            if value is None or value == _NULL:
                raise _Malformed("missing_required_parameter", f"The field '{name}' is required.")
        if read.method != "POST":
            raise _Malformed("invalid_method", "The field 'method' must be 'POST'.")
        if read.url != self._endpoint:
            raise _Malformed("invalid_url", f"The field 'url' must be the endpoint of the batch, '{self._endpoint}'.")
        return _body(bytes(read.body))


def _decode(line: bytes) -> _Line:
    try:
        return msgspec.json.decode(line, type=_Line)
    except msgspec.ValidationError as error:
        raise _Malformed("invalid_json_line", "The line is not a JSON object.") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _Malformed("invalid_json_line", f"The line is not valid JSON: {str(error).rstrip('.')}.") from error


def _body(raw: bytes) -> bytes:
    try:
        body = msgspec.json.decode(raw, type=_Body)
    except msgspec.ValidationError as error:
        raise _Malformed("invalid_body", "The field 'body' must be an object.") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _Malformed("invalid_json_line", f"The line is not valid JSON: {str(error).rstrip('.')}.") from error
    if body.stream:
        raise _Malformed("unsupported_parameter", "Requests of a batch cannot be streamed; leave out 'stream'.")
    return raw
