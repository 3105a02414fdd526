"""Reads `host:port` as it stands in Host and Origin headers. Knows no policy."""

from __future__ import annotations

import ipaddress
import re
from typing import NamedTuple

# RFC 3986 reg-name without percent-encoding, or an IP literal in brackets; RFC 9110 7.2 allows an empty port.
_AUTHORITY = re.compile(r"(?:\[(?P<literal>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9._~-]+))(?::(?P<port>[0-9]{0,5}))?")
_ORIGIN = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<authority>[^/?#@\s]+)")
_DEFAULT_PORTS = {"http": 80, "https": 443}


class Authority(NamedTuple):
    """A lower-case host without brackets or closing dot, and the port (None: not given)."""

    host: str
    port: int | None


class Origin(NamedTuple):
    """A web origin."""

    scheme: str
    authority: Authority

    def names(self, authority: Authority) -> bool:
        """Whether `authority`, met under this origin's scheme, is the same host and port."""
        default = _DEFAULT_PORTS.get(self.scheme)
        mine, theirs = self.authority.port or default, authority.port or default
        return self.authority.host == authority.host and mine == theirs


def read_authority(text: str) -> Authority | None:
    """The authority, or None when the text is none."""
    match = _AUTHORITY.fullmatch(text)
    if match is None:
        return None
    host = (match["literal"] or match["name"].rstrip(".")).lower()
    port = int(match["port"]) if match["port"] else None
    return Authority(host, port) if host else None


def read_origin(text: str) -> Origin | None:
    """The origin (RFC 6454 section 7), or None for `null` and everything malformed."""
    match = _ORIGIN.fullmatch(text)
    authority = read_authority(match["authority"]) if match else None
    return Origin(match["scheme"].lower(), authority) if match and authority else None


def is_address(host: str) -> bool:
    """Whether the host is an IP address rather than a name."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """Whether the lower-case host is `localhost` or a loopback address."""
    return host == "localhost" or (is_address(host) and ipaddress.ip_address(host).is_loopback)
