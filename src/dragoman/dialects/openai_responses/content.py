"""Parts of messages and tool outputs -> core parts. Fetches nothing."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator, Mapping
from html import escape

from dragoman.core.errors import InvalidField, MissingField, UnsupportedField
from dragoman.core.messages import MediaPart, TextPart
from dragoman.core.responses import LoadedFile
from dragoman.dialects.openai_responses.schema import ContentPart

Files = Mapping[str, LoadedFile]


def read_content(content: str | list[ContentPart] | None, at: str, files: Files) -> Iterator[TextPart | MediaPart]:
    """The parts in order; null and "" are no part at all. Raises InvalidRequest naming the wire path."""
    if isinstance(content, str):
        if content:
            yield TextPart(content)
        return
    for index, part in enumerate(content or ()):
        place = f"{at}[{index}]"
        reader = _READERS.get(part.type)
        if reader is None:
            known = ", ".join(_READERS)
            raise InvalidField(f"Invalid '{place}.type': '{part.type}' is not one of {known}.", field=f"{place}.type")
        yield reader(part, place, files)


def _text(part: ContentPart, at: str, files: Files) -> TextPart:
    return TextPart(_needed(part.text, f"{at}.text"))


def _refusal(part: ContentPart, at: str, files: Files) -> TextPart:
    return TextPart(_needed(part.refusal, f"{at}.refusal"))


def _image(part: ContentPart, at: str, files: Files) -> MediaPart:
    if part.image_url is None and part.file_id is not None:
        file = files[part.file_id]
        return MediaPart("image", base64.b64encode(file.data).decode(), file.mime or None)
    return MediaPart("image", _needed(part.image_url, f"{at}.image_url"))


def _audio(part: ContentPart, at: str, files: Files) -> MediaPart:
    audio = part.input_audio or {}
    data, format = audio.get("data"), audio.get("format")
    if not isinstance(data, str):
        raise MissingField(f"The field '{at}.input_audio.data' is required.", field=f"{at}.input_audio.data")
    return MediaPart("audio", data, f"audio/{format}" if isinstance(format, str) else None)


def _file(part: ContentPart, at: str, files: Files) -> TextPart | MediaPart:
    """A text file becomes a named block of text, any other a document for models that take documents."""
    if part.file_id is not None:
        file = files[part.file_id]
        name, data, source = file.name, file.data, ""
    elif part.file_url is not None and part.file_data is None:
        raise UnsupportedField(
            f"The field '{at}.file_url' is not supported by this server: it fetches no files.",
            field=f"{at}.file_url",
            remedy="Send the file itself in file_data.",
        )
    else:
        source = _needed(part.file_data, f"{at}.file_data")
        name, data = part.filename or "file", _decoded(source, f"{at}.file_data")
    text = _as_text(data)
    if text is None:
        return MediaPart("document", source or base64.b64encode(data).decode())
    return TextPart(f'<file name="{escape(part.filename or name)}">\n{text}\n</file>')


def _decoded(source: str, at: str) -> bytes:
    data = source.partition(",")[2] if source.startswith("data:") else source
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidField(f"The field '{at}' is neither base64 nor a data URL of base64.", field=at) from error


def _as_text(data: bytes) -> str | None:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


def _needed(value: str | None, at: str) -> str:
    if value is None:
        raise MissingField(f"The field '{at}' is required.", field=at)
    return value


_READERS: dict[str, Callable[[ContentPart, str, Files], TextPart | MediaPart]] = {
    "input_text": _text,
    "output_text": _text,
    "text": _text,
    "refusal": _refusal,
    "input_image": _image,
    "input_file": _file,
    "input_audio": _audio,
}
