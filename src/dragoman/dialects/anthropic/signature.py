"""Signatures of thinking blocks: opaque to clients, which replay only thinking blocks that have one.

They prove nothing. When a client asked for thinking to be left out of the answer, the signature carries the thought,
so that a replayed turn still renders as the model wrote it.
"""

from __future__ import annotations

import base64
import binascii

_MARK = "dragoman1."


def sign(thought: str = "") -> str:
    """A signature, carrying `thought`."""
    return _MARK + base64.urlsafe_b64encode(thought.encode()).decode()


def carried(signature: str) -> str:
    """The thought in one of our signatures; '' for any other or a damaged one."""
    if not signature.startswith(_MARK):
        return ""
    try:
        return base64.b64decode(signature[len(_MARK) :], altchars=b"-_", validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""
