"""What a failure of the disk means to a client. Knows no file."""

from __future__ import annotations

import errno

from dragoman.core.errors import StorageFailure, StorageFull

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def disk_error(error: OSError, deed: str = "written") -> StorageFailure:
    """StorageFull when there is no room, else StorageFailure; `deed` says what could not be done. The sentence tells no
    path: whoever raises it logs the rest."""
    if error.errno in _FULL:
        return StorageFull("The disk of this server is full; nothing was stored.")
    return StorageFailure(f"The store of this server could not be {deed}; the server log has the details.")
