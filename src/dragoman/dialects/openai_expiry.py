"""Expiry policies as OpenAI's files have them, shared by the OpenAI folders. Knows no file."""

from __future__ import annotations

from dragoman.core.errors import InvalidField, MissingField

LEAST, MOST = 3600, 2_592_000


def read_expiry(anchor: object, seconds: object, field: str) -> int:
    """Seconds of a policy whose parts are given as they came; `field` is the policy's wire path. Raises MissingField,
    InvalidField unless the anchor is `created_at` and the time from an hour to thirty days."""
    for name, value in (("anchor", anchor), ("seconds", seconds)):
        if value is None:
            raise MissingField(f"The field '{field}.{name}' is required.", field=f"{field}.{name}")
    if anchor != "created_at":
        raise InvalidField(f"'{field}.anchor' must be 'created_at'.", field=f"{field}.anchor")
    number = _whole(seconds)
    if number is None or not LEAST <= number <= MOST:
        raise InvalidField(
            f"'{field}.seconds' must be a whole number from {LEAST} to {MOST}.", field=f"{field}.seconds"
        )
    return number


def _whole(value: object) -> int | None:
    if isinstance(value, str):
        return int(value) if value.isascii() and value.isdigit() and len(value) <= 9 else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None
