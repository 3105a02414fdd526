"""API keys. Never prints one; knows no route."""

from __future__ import annotations

import hmac
from collections.abc import Sequence

from dragoman.core.errors import AuthenticationFailed


class KeyRing:
    """The keys clients may show; an empty ring asks for none."""

    def __init__(self, keys: Sequence[str]) -> None:
        self._keys = tuple(key.encode() for key in keys if key)

    def __repr__(self) -> str:
        return f"KeyRing({len(self._keys)} keys)"

    def admit(self, headers: dict[str, str]) -> None:
        """Raises AuthenticationFailed unless a valid key is shown.

        `Authorization` (with or without the word Bearer) counts before `x-api-key`: a wrong one is not rescued by
        a right `x-api-key`, as in llama-server.
        """
        if not self._keys:
            return
        shown = _bare(headers.get("authorization", "")) or _bare(headers.get("x-api-key", ""))
        if not self._holds(shown.encode("latin-1")):
            raise AuthenticationFailed("Invalid API Key")

    def _holds(self, shown: bytes) -> bool:
        # Every key is compared, whatever the earlier ones gave, so that time tells nothing about them.
        matches = [hmac.compare_digest(key, shown) for key in self._keys]
        return any(matches)


def _bare(value: str) -> str:
    scheme, space, key = value.strip().partition(" ")
    return key.strip() if space and scheme.lower() == "bearer" else value.strip()
