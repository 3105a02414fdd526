"""Fields of the OpenAI generation wires that cannot change a local answer: checked as OpenAI does, then of no
consequence. Knows no endpoint."""

from __future__ import annotations

from typing import Any, cast

from dragoman.core.errors import InvalidField
from dragoman.dialects.openai_fields import GenerationFields

_PAIRS = 16
_KEY_LENGTH = 64
_VALUE_LENGTH = 512
_TIERS = ("auto", "default", "flex", "scale", "priority", "fast")
_RETENTIONS = ("in_memory", "in-memory", "24h")
_VERBOSITIES = ("low", "medium", "high")


def check_labels(fields: GenerationFields) -> None:
    """Raises InvalidField for metadata, a tier or a retention that OpenAI would refuse as well."""
    check_metadata(fields.metadata)
    _one_of(fields.service_tier, _TIERS, "service_tier")
    _one_of(fields.prompt_cache_retention, _RETENTIONS, "prompt_cache_retention")


def check_metadata(metadata: dict[str, Any] | None) -> None:
    """At most 16 pairs of texts, keys up to 64 and values up to 512 characters. Raises InvalidField."""
    pairs = metadata or {}
    if len(pairs) > _PAIRS:
        raise InvalidField(f"Invalid 'metadata': at most {_PAIRS} pairs are allowed.", field="metadata")
    for key, value in pairs.items():
        at = f"metadata.{key[:_KEY_LENGTH]}"
        if len(key) > _KEY_LENGTH:
            raise InvalidField(f"Invalid 'metadata': a key has more than {_KEY_LENGTH} characters.", field=at)
        if not isinstance(value, str):
            raise InvalidField(f"Invalid '{at}': it must be a string.", field=at)
        if len(value) > _VALUE_LENGTH:
            raise InvalidField(f"Invalid '{at}': it has more than {_VALUE_LENGTH} characters.", field=at)


def check_verbosity(verbosity: str | None) -> None:
    """Raises InvalidField for a word that OpenAI does not know."""
    _one_of(verbosity, _VERBOSITIES, "verbosity")


def check_prediction(prediction: dict[str, Any] | None) -> None:
    """A predicted answer only makes OpenAI's own faster, so its shape is all that counts. Raises InvalidField."""
    if prediction is None:
        return
    if prediction.get("type") != "content":
        raise InvalidField("Invalid 'prediction.type': it must be content.", field="prediction.type")
    content = prediction.get("content")
    texts = cast("list[Any]", content) if isinstance(content, list) else []
    fits = isinstance(content, str) or (bool(texts) and all(_is_text(part) for part in texts))
    if not fits:
        raise InvalidField(
            "Invalid 'prediction.content': it must be a text or a list of text parts.", field="prediction.content"
        )


def _is_text(part: object) -> bool:
    found = cast("dict[str, object]", part) if isinstance(part, dict) else {}
    return found.get("type") == "text" and isinstance(found.get("text"), str)


def _one_of(value: str | None, words: tuple[str, ...], field: str) -> None:
    if value is not None and value not in words:
        raise InvalidField(f"Invalid '{field}': '{value[:40]}' is not one of {', '.join(words)}.", field=field)
