"""Saved slots as files of the operator's: copied out of the engine's folder and back into it, never half.

A file is llama.cpp's own: magic number, version, count and ids of its tokens, then the state.
"""

from __future__ import annotations

import os
import shutil
import struct
import tempfile
from pathlib import Path

from dragoman.core.errors import InvalidRequest, StorageFailure

_HEAD = struct.Struct("<III")
_MAGIC = 0x67677371
_MOST_TOKENS = 1 << 24
NOT_RESTORED = "Unable to restore slot: No available space in KV cache or invalid slot save file"


def copy_out(source: Path, target: Path) -> None:
    """Put a state the engine wrote where it was asked for, whole or not at all. Raises StorageFailure."""
    try:
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=".saving-")
        os.close(handle)
        try:
            shutil.copyfile(source, name)
            os.replace(name, target)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise StorageFailure(f"The slot cannot be saved: {error.strerror or error}.") from error


def copy_in(source: Path, target: Path) -> tuple[int, ...]:
    """Put a saved slot where the engine can read it; the tokens it holds. Raises InvalidRequest when it is none."""
    try:
        with open(source, "rb") as file:
            magic, _, count = _HEAD.unpack(file.read(_HEAD.size))
            if magic != _MAGIC or count > _MOST_TOKENS:
                raise InvalidRequest(NOT_RESTORED, field="filename")
            tokens = struct.unpack(f"<{count}i", file.read(4 * count))
        shutil.copyfile(source, target)
    except (OSError, struct.error) as error:
        raise InvalidRequest(NOT_RESTORED, field="filename") from error
    return tokens
