"""Opaque identifiers. Random, never derived from content."""

import secrets
import string

_ALPHABET = string.ascii_letters + string.digits


def new_id(prefix: str, length: int = 24) -> str:
    """`prefix` followed by `length` random letters and digits (about 5.95 bits each)."""
    return prefix + "".join(secrets.choice(_ALPHABET) for _ in range(length))
