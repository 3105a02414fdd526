"""Signatures of thoughts: who thought this, here, on which model and for whom. Knows no wire and no file.

A client that replays an earlier turn sends the thought's signature back. It is authenticated, not encrypted: anybody
can read what it carries, nobody without the key can make one. The form (`dragoman.<kind>.v1.<key id>.<carried>.<mac>`,
both in base64url) is ours; what the mac covers follows mlx2's rule: key id, kind, model, tenant and what is carried, or
the text where nothing is.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import zlib
from typing import Literal, Protocol

SignatureKind = Literal["reasoning", "thinking", "thinkingc"]
"""`reasoning` carries the thought of a Responses reasoning item, `thinking` signs a thinking block that is shown,
`thinkingc` carries the thought of a block shown empty, compressed. None is accepted in another's place."""

UNSIGNED = "unsigned"
"""The signature a dialect gives a replayed thought that came without one, or with one of another kind, where only
signed thoughts are believed: it never verifies, so the thought is dropped and counted like a forged one."""

_MARK = "dragoman"
_VERSION = "v1"
_PIECES = 6
_KEY_BYTES = 32


class ThoughtSigner(Protocol):
    """What a writer is given: signatures for one model and tenant."""

    def sign(self, kind: SignatureKind, text: str) -> str:
        """The signature of a thought; of the kinds that carry, with the thought in it."""
        ...


class Signatures:
    """Signs and verifies with one secret key of at least 32 bytes. Raises ValueError for a shorter one."""

    def __init__(self, key: bytes) -> None:
        if len(key) < _KEY_BYTES:
            raise ValueError(f"a signing key has at least {_KEY_BYTES} bytes")
        self._key = key
        self.key_id = hashlib.sha256(b"dragoman key id\0" + key).hexdigest()[:16]

    def signer(self, model: str, tenant: str = "") -> ThoughtSigner:
        """A signer bound to a served model's id and a tenant."""
        return _BoundSigner(self, model, tenant)

    def sign(self, kind: SignatureKind, text: str, *, model: str, tenant: str = "") -> str:
        """The signature of `text`, which is carried by every kind but `thinking`."""
        carried = "" if kind == "thinking" else _packed(kind, text)
        mac = self._mac(kind, text if kind == "thinking" else carried, model, tenant)
        return ".".join((_MARK, kind, _VERSION, self.key_id, carried, _encoded(mac)))

    def verify(self, signature: str, *, model: str, tenant: str = "", text: str = "") -> str | None:
        """The thought that was signed, None for a signature that is forged, damaged, or of another key, model or
        tenant. `text` is what stood beside it: for `thinking` the thought itself, for the kinds that carry either
        nothing or the very thought."""
        pieces = signature.split(".")
        if len(pieces) != _PIECES or (pieces[0], pieces[2], pieces[3]) != (_MARK, _VERSION, self.key_id):
            return None
        kind, carried, mac = pieces[1], pieces[4], _decoded(pieces[5])
        if mac is None or (kind == "thinking" and carried):
            return None
        # What is carried is authenticated as it is, so that nothing foreign is ever unpacked.
        signed = text if kind == "thinking" else carried
        if not hmac.compare_digest(mac, self._mac(kind, signed, model, tenant)):
            return None
        thought = text if kind == "thinking" else _unpacked(kind, carried)
        return thought if text in ("", thought) else None

    def _mac(self, kind: str, text: str, model: str, tenant: str) -> bytes:
        # Every piece behind its length, so that no two sets of pieces give the same bytes.
        pieces = [
            piece.encode("utf-8", "surrogatepass") for piece in (_VERSION, self.key_id, kind, model, tenant, text)
        ]
        message = b"".join(len(piece).to_bytes(8) + piece for piece in pieces)
        return hmac.digest(self._key, message, "sha256")


class _BoundSigner:
    def __init__(self, signatures: Signatures, model: str, tenant: str) -> None:
        self._signatures = signatures
        self._model = model
        self._tenant = tenant

    def sign(self, kind: SignatureKind, text: str) -> str:
        return self._signatures.sign(kind, text, model=self._model, tenant=self._tenant)


def signature_kind(signature: str) -> str:
    """The kind a signature says it is of; '' for one that is not of ours. Proves nothing."""
    pieces = signature.split(".")
    return pieces[1] if len(pieces) == _PIECES and pieces[0] == _MARK else ""


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decoded(text: str) -> bytes | None:
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None
    # One spelling per value: spare bits set, or other padding, would make a second signature of the same text.
    return data if _encoded(data) == text else None


def _packed(kind: str, text: str) -> str:
    data = text.encode("utf-8", "surrogatepass")
    return _encoded(zlib.compress(data) if kind == "thinkingc" else data)


def _unpacked(kind: str, carried: str) -> str:
    """Of what was carried by one of our own signatures."""
    data = _decoded(carried) or b""
    return (zlib.decompress(data) if kind == "thinkingc" else data).decode("utf-8", "surrogatepass")
