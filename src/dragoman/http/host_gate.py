"""Decides whether a Host header may be answered: the guard against DNS rebinding. Knows no origin and no key."""

from __future__ import annotations

from collections.abc import Sequence

from dragoman.core.errors import InvalidRequest, MisdirectedRequest
from dragoman.http.authority import Authority, is_loopback, read_authority
from dragoman.http.options import HttpOptions


class HostGate:
    """Loopback names, the bound name and `allowed_hosts` are trusted.

    The list is enforced when the server is bound to loopback or `allowed_hosts` is given; a server bound to the
    network without a list answers for any name, since it cannot know the names it is reached by.
    """

    def __init__(self, options: HttpOptions) -> None:
        listed = [read_authority(host) or Authority(host.lower(), None) for host in options.allowed_hosts]
        self._trusted = frozenset(authority.host for authority in listed) | {options.host.strip("[]").lower()}
        self._enforced = (options.loopback or bool(listed)) and "*" not in options.allowed_hosts
        self._syntax = not options.unix_socket

    def trusts(self, host: str) -> bool:
        """Whether the lower-case host is loopback, the bound name or listed."""
        return host in self._trusted or is_loopback(host)

    def admit(self, values: Sequence[str], http_version: str) -> Authority | None:
        """The authority asked for; None when there is none to check (HTTP/1.0, or odd names on a Unix socket).

        Raises InvalidRequest for a missing (RFC 9112 section 3.2; HTTP/1.0 had none), doubled or malformed Host,
        MisdirectedRequest for one this server does not answer for.
        """
        if not values and http_version == "1.0":
            return None
        if len(values) != 1:
            raise InvalidRequest("The request needs exactly one Host header.", field="host")
        authority = read_authority(values[0])
        if authority is None and (self._syntax or self._enforced):
            raise InvalidRequest("The Host header is malformed.", field="host")
        if self._enforced and authority is not None and not self.trusts(authority.host):
            raise MisdirectedRequest(
                f"This server does not answer for the host '{authority.host}'.",
                field="host",
                remedy="Use a loopback address, or list the name with --allowed-hosts.",
            )
        return authority
