"""The stores of one server, as its settings have them."""

from __future__ import annotations

from dragoman.catalog.store import default_state_dir
from dragoman.config import Settings
from dragoman.stores.stores import StoreLimits, Stores, open_stores

FOLDER = "store"


async def open_storage(settings: Settings) -> Stores:
    """Open them, in `<state>/store` or in memory. Raises StorageFailure."""
    store = settings.store
    limits = StoreLimits(
        responses_bytes=store.responses_bytes, file_bytes=store.max_file_bytes, files_bytes=store.files_bytes
    )
    folder = None if store.ephemeral else (settings.state_dir or default_state_dir()) / FOLDER
    return await open_stores(folder, limits)
