"""The byte alphabet of byte-level BPE: each byte has one printable character. Knows no vocabulary and no file."""

from __future__ import annotations


def _alphabet() -> dict[int, str]:
    """Byte -> character, as GPT-2 fixed it: printable bytes stand for themselves, the rest follow from U+0100."""
    plain = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    table = {byte: chr(byte) for byte in sorted(plain)}
    for offset, byte in enumerate(byte for byte in range(256) if byte not in plain):
        table[byte] = chr(0x100 + offset)
    return table


CHARACTER_OF_BYTE: dict[int, str] = _alphabet()
_TO_LATIN1 = {ord(character): byte for byte, character in CHARACTER_OF_BYTE.items()}


def bytes_of_piece(piece: str) -> bytes:
    """The bytes a byte-level vocabulary piece stands for; characters outside the alphabet become their UTF-8."""
    if piece.isascii() and piece.isprintable() and " " not in piece:
        return piece.encode("ascii")
    try:
        return piece.translate(_TO_LATIN1).encode("latin-1") if _inside(piece) else _mixed(piece)
    except UnicodeEncodeError:
        return _mixed(piece)


def _inside(piece: str) -> bool:
    return all(ord(character) in _TO_LATIN1 for character in piece)


def _mixed(piece: str) -> bytes:
    raw = bytearray()
    for character in piece:
        byte = _TO_LATIN1.get(ord(character))
        raw += bytes((byte,)) if byte is not None else character.encode("utf-8", "replace")
    return bytes(raw)


def is_byte_token(piece: str) -> bool:
    """Whether the piece is a byte fallback token, `<0x00>` to `<0xFF>`."""
    if len(piece) != 6 or not piece.startswith("<0x") or piece[5] != ">":
        return False
    return all(character in "0123456789ABCDEFabcdef" for character in piece[3:5])


def byte_of_token(piece: str) -> bytes:
    """The byte of a byte fallback token."""
    return bytes((int(piece[3:5], 16),))
