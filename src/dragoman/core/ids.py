"""Opaque identifiers. Random, never derived from content."""

import secrets
import string

_ALPHABET = string.ascii_letters + string.digits
# Bytes from 0 to this, exclusive, map onto the alphabet evenly; the others are thrown away.
_EVEN = 256 - 256 % len(_ALPHABET)


def new_id(prefix: str, length: int = 24) -> str:
    """`prefix` followed by `length` random letters and digits (about 5.95 bits each)."""
    letters = ""
    while len(letters) < length:
        letters += "".join(_ALPHABET[byte % len(_ALPHABET)] for byte in secrets.token_bytes(length) if byte < _EVEN)
    return prefix + letters[:length]
