"""What a server keeps of its responses, and the key it signs thoughts with, as its settings have them."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from dragoman.catalog.store import default_state_dir
from dragoman.config import Settings
from dragoman.core.errors import StorageFailure
from dragoman.core.signatures import Signatures
from dragoman.dialects.openai_responses.body import interrupted
from dragoman.dialects.openai_responses.ids import response_of
from dragoman.service.responses import ResponseRules, ResponseShelf
from dragoman.stores.stores import Stores

KEY_NAME = "signing.key"
_KEY_BYTES = 32
_DAY = 24 * 3600


def open_signatures(settings: Settings) -> Signatures:
    """Sign with the key in the state folder, which is made when there is none; a server that keeps nothing has a key of
    its own. Raises StorageFailure."""
    if settings.store.ephemeral:
        return Signatures(secrets.token_bytes(_KEY_BYTES))
    path = (settings.state_dir or default_state_dir()) / KEY_NAME
    try:
        return Signatures(_key(path))
    except (OSError, ValueError) as error:
        raise StorageFailure(
            f"The signing key '{path}' cannot be used: {error}.",
            remedy="Delete the file, or keep nothing with --ephemeral.",
        ) from error


def open_shelf(stores: Stores, signatures: Signatures, settings: Settings) -> ResponseShelf:
    """The responses in `stores`."""
    rules = ResponseRules(
        lifetime=max(1, int(settings.store.responses_days * _DAY)),
        owner=stores.instance.id,
        alive=stores.instance.alive,
        response_of=response_of,
        interrupted=interrupted,
    )
    return ResponseShelf(stores.responses, stores.files, signatures, rules, stores.clock)


def _key(path: Path) -> bytes:
    """The key; of several servers that make one at the same time, all get the same."""
    if not path.exists():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        mine = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
        try:
            handle = os.open(mine, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(handle, "wb") as file:
                file.write(secrets.token_bytes(_KEY_BYTES))
                file.flush()
                os.fsync(handle)
            # A link, unlike a rename, leaves a key alone that was put there meanwhile.
            os.link(mine, path)
        except FileExistsError:
            pass
        finally:
            mine.unlink(missing_ok=True)
    return path.read_bytes()
