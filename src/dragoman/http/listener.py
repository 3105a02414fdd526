"""Opens the sockets the server listens on. Knows no HTTP."""

from __future__ import annotations

import errno
import os
import socket
import stat
from pathlib import Path

from msgspec import Struct

from dragoman.core.errors import Unavailable

BACKLOG = 512
MAX_PORT = 65535


class Listener(Struct, frozen=True):
    """Listening sockets and the address they share. `port` is the real one; `path` is set for a Unix socket."""

    sockets: tuple[socket.socket, ...]
    host: str
    port: int = 0
    path: str | None = None

    @property
    def url(self) -> str:
        """Where clients find the server."""
        if self.path is not None:
            return f"unix:{self.path}"
        return f"http://[{self.host}]:{self.port}" if ":" in self.host else f"http://{self.host}:{self.port}"

    def close(self) -> None:
        """Close the sockets and remove the socket file."""
        for sock in self.sockets:
            sock.close()
        if self.path is not None:
            Path(self.path).unlink(missing_ok=True)


def listen(host: str, port: int, flag: str = "--port") -> Listener:
    """Listen on every address of `host`, or on the Unix socket whose path it is; port 0 picks a free one. `flag` is
    what chooses the port.

    Raises Unavailable with one sentence that says what to do.
    """
    return _listen_unix(host) if host.endswith(".sock") else _listen_tcp(host.strip("[]"), port, flag)


def _listen_tcp(host: str, port: int, flag: str) -> Listener:
    if not 0 <= port <= MAX_PORT:
        raise Unavailable(f"{port} is no TCP port.", remedy=f"Choose a {flag} from 0 to {MAX_PORT}.")
    sockets: list[socket.socket] = []
    problem: OSError | None = None
    for family, address in _resolve(host, port):
        try:
            sockets.append(_bind(family, address, port))
        except OSError as error:
            # localhost names two addresses, and IPv6 may be switched off; but a port in use is never passed over.
            problem = error
            if error.errno == errno.EADDRINUSE:
                break
            continue
        port = sockets[0].getsockname()[1]
    if problem is not None and (not sockets or problem.errno == errno.EADDRINUSE):
        for sock in sockets:
            sock.close()
        raise _explain(problem, host, port, flag) from problem
    return Listener(tuple(sockets), host, port)


def _resolve(host: str, port: int) -> list[tuple[int, str]]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (socket.gaierror, UnicodeError) as error:
        raise Unavailable(f"The host '{host}' cannot be resolved.", remedy="Use another --host.") from error
    return list(dict.fromkeys((int(family), str(address[0])) for family, _, _, _, address in found))


def _bind(family: int, address: str, port: int) -> socket.socket:
    dual = address == "::" and socket.has_dualstack_ipv6()
    sock = socket.create_server((address, port), family=family, backlog=BACKLOG, dualstack_ipv6=dual)
    sock.setblocking(False)
    return sock


def _explain(error: OSError, host: str, port: int, flag: str) -> Unavailable:
    if error.errno == errno.EADDRINUSE:
        return Unavailable(f"Port {port} is in use on {host}.", remedy=f"Stop what uses it or choose another {flag}.")
    if error.errno in (errno.EACCES, errno.EPERM):
        return Unavailable(f"Port {port} is not open to this user.", remedy=f"Choose a {flag} above 1023.")
    if error.errno == errno.EADDRNOTAVAIL:
        return Unavailable(f"{host} is no address of this machine.", remedy="Use another --host.")
    return Unavailable(f"Cannot listen on {host} port {port}: {error.strerror or error}.")


def _listen_unix(path: str) -> Listener:
    if not hasattr(socket, "AF_UNIX"):
        raise Unavailable("This platform has no Unix sockets.", remedy="Use a --host and --port.")
    _remove_stale(path)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.bind(path)
        sock.listen(BACKLOG)
    except OSError as error:
        sock.close()
        raise Unavailable(f"Cannot listen on {path}: {error.strerror or error}.") from error
    sock.setblocking(False)
    return Listener((sock,), path, path=path)


def _remove_stale(path: str) -> None:
    """Remove the socket file of a server that is gone; a live one is an error, and so is any other file."""
    if not os.path.exists(path):
        return
    if not stat.S_ISSOCK(os.stat(path).st_mode):
        raise Unavailable(f"{path} exists and is no socket.", remedy="Choose another --host.")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(path)
        except OSError:
            os.unlink(path)
            return
    raise Unavailable(f"The socket {path} is in use.", remedy="Stop what uses it or choose another --host.")
