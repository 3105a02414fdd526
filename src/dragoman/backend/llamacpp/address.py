"""Private places for an engine to listen. Knows no engine."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
import socket
import sys
import tempfile
import time
from pathlib import Path

from dragoman.backend.llamacpp.endpoint import Endpoint

_LONGEST_SOCKET_PATH = 100
"""Unix socket addresses hold 104 bytes on macOS, 108 on Linux, the end mark included."""
_FOLDER_PREFIX = "dragoman-"
_SOCKET_NAME = "engine.sock"
_STALE_SECONDS = 60.0


class Address:
    """A private place for a server to listen: a Unix socket in a folder only we may enter, or a loopback port guarded
    by a random key where asyncio has no Unix sockets. `reserve` picks the port itself."""

    def __init__(self, *, reserve: bool) -> None:
        self.socket = ""
        self.port = 0
        self.api_key = ""
        self._folder = ""
        if hasattr(socket, "AF_UNIX") and sys.platform != "win32":
            sweep(Path(tempfile.gettempdir()))
            self._folder = _private_folder()
            self.socket = os.path.join(self._folder, _SOCKET_NAME)
        else:
            self.api_key = secrets.token_urlsafe(32)
            self.port = _free_port() if reserve else 0

    def endpoint(self, port: int = 0) -> Endpoint:
        """Where to connect."""
        if self.socket:
            return Endpoint(socket=self.socket)
        return Endpoint(host="127.0.0.1", port=port or self.port, api_key=self.api_key)

    def remove(self) -> None:
        """Tidy up. Safe to call twice."""
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)


def _private_folder() -> str:
    """A new folder of mode 0700 whose path leaves room for a socket's name."""
    folder = tempfile.mkdtemp(prefix=_FOLDER_PREFIX)
    if len(os.fsencode(folder)) > _LONGEST_SOCKET_PATH - len(_SOCKET_NAME) - 1:
        os.rmdir(folder)
        folder = tempfile.mkdtemp(prefix=_FOLDER_PREFIX, dir="/tmp")
    return folder


def sweep(folder: Path) -> None:
    """Remove private folders of engines that were killed before they could: their socket is old and nobody listens."""
    for left in folder.glob(f"{_FOLDER_PREFIX}*/{_SOCKET_NAME}"):
        with contextlib.suppress(OSError):
            if time.time() - left.stat().st_mtime > _STALE_SECONDS and not _listened_to(left):
                left.unlink()
                left.parent.rmdir()


def _listened_to(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)
        return probe.connect_ex(str(path)) != errno.ECONNREFUSED


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
