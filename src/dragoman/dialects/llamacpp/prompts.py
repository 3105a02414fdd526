"""The forms of a native prompt: text, ids, both mixed, an object, or a list of these. Knows no vocabulary."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from dragoman.core.request import RawInput
from dragoman.dialects.llamacpp.casts import to_int32
from dragoman.dialects.llamacpp.errors import NativeError, wrong_type

MOST_PROMPTS = 4096
"""Prompts one request may carry."""

_FORMS = (
    '"prompt" elements must be a string, a list of tokens, a JSON object containing a prompt string, '
    "or a list of mixed strings & tokens."
)

Pieces = tuple[str | tuple[int, ...], ...]


def read_prompts(prompt: object) -> tuple[RawInput, ...]:
    """All prompts of the field `prompt`, at least one. Raises NativeError."""
    if not isinstance(prompt, list):
        return (_one(prompt),)
    elements = cast("list[object]", prompt)
    if not elements:
        raise NativeError('"prompt" must not be empty', field="prompt")
    if any(_is_id(element) for element in elements):
        return (_one(elements),)
    if len(elements) > MOST_PROMPTS:
        raise NativeError(f'"prompt" may hold at most {MOST_PROMPTS} prompts', field="prompt")
    return tuple(_one(element) for element in elements)


def _one(prompt: object) -> RawInput:
    if isinstance(prompt, str):
        return RawInput((prompt,))
    if isinstance(prompt, dict):
        return RawInput((_prompt_string(cast("dict[str, Any]", prompt)),))
    if isinstance(prompt, list):
        return RawInput(_known_ids(_mixed(cast("list[object]", prompt))))
    raise NativeError(_FORMS, field="prompt")


def _prompt_string(prompt: dict[str, Any]) -> str:
    if "prompt_string" not in prompt:
        raise NativeError(_FORMS, field="prompt")
    if "multimodal_data" in prompt:
        raise NativeError("Multimodal data provided, but model does not support multimodal requests.", field="prompt")
    text = prompt["prompt_string"]
    if not isinstance(text, str):
        raise NativeError(wrong_type("string", text), field="prompt")
    return text


def _mixed(elements: list[object]) -> Pieces:
    ids = any(_is_id(element) for element in elements)
    texts = any(isinstance(element, str) for element in elements)
    if (ids and texts) or all(_is_id(element) for element in elements):
        return pieces_of(elements, status=400)
    raise NativeError(_FORMS, field="prompt")


def pieces_of(elements: Iterable[object], *, status: int) -> Pieces:
    """Strings as they are and runs of numbers as ids. Any other element is a NativeError of the given status."""
    pieces: list[str | tuple[int, ...]] = []
    run: list[int] = []
    for element in elements:
        if isinstance(element, int | float):
            run.append(to_int32(element))
            continue
        if not isinstance(element, str):
            raise NativeError(wrong_type("number", element), status=status)
        if run:
            pieces.append(tuple(run))
            run = []
        pieces.append(element)
    return (*pieces, tuple(run)) if run else tuple(pieces)


def _known_ids(pieces: Pieces) -> Pieces:
    if any(token < 0 for piece in pieces if not isinstance(piece, str) for token in piece):
        raise NativeError("Prompt contains invalid tokens", field="prompt")
    return pieces


def _is_id(element: object) -> bool:
    return isinstance(element, int) and not isinstance(element, bool)
