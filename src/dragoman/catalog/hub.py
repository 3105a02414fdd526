"""Fetches models from the Hugging Face hub into its own cache, and finds what that cache already holds."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from urllib.parse import urlsplit

from dragoman.core.errors import EngineFailure

_PATTERNS = ["*.json", "*.safetensors", "*.jinja", "tokenizer.model", "*.tiktoken", "*.txt"]


def hub_reachable(timeout: float = 3.0) -> bool:
    """Whether the hub answers at all; asked first because the client retries for half a minute before it gives up."""
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        return False
    if any(os.environ.get(name) for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")):
        return True
    address = urlsplit(constants.ENDPOINT)
    try:
        socket.create_connection((address.hostname or "", address.port or 443), timeout).close()
    except OSError:
        return False
    return True


def fetch_hub_file(repo: str, file: str) -> Path:
    """Download one file (resumed where an earlier download stopped). Raises EngineFailure with one sentence."""
    from huggingface_hub import hf_hub_download  # pyright: ignore[reportUnknownVariableType]
    from huggingface_hub.errors import HfHubHTTPError

    _require_hub()
    try:
        return Path(hf_hub_download(repo, file))
    except (HfHubHTTPError, OSError, ValueError) as error:
        raise EngineFailure(f"'{repo}/{file}' could not be fetched from the hub: {_first_line(error)}") from error


def fetch_hub_repo(repo: str) -> Path:
    """Download a checkpoint (config, tokenizer, safetensors) and return its folder. Raises EngineFailure."""
    from huggingface_hub import snapshot_download  # pyright: ignore[reportUnknownVariableType]
    from huggingface_hub.errors import HfHubHTTPError

    _require_hub()
    try:
        return Path(snapshot_download(repo, allow_patterns=_PATTERNS))
    except (HfHubHTTPError, OSError, ValueError) as error:
        raise EngineFailure(f"'{repo}' could not be fetched from the hub: {_first_line(error)}") from error


def list_ggufs(repo: str) -> list[str]:
    """The .gguf files of a repository. Raises EngineFailure."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

    _require_hub()
    try:
        return [name for name in HfApi().list_repo_files(repo) if name.endswith(".gguf")]
    except (HfHubHTTPError, OSError, ValueError) as error:
        raise EngineFailure(f"'{repo}' could not be looked up on the hub: {_first_line(error)}") from error


def cached_models() -> dict[str, Path]:
    """Models in the local Hugging Face cache: repository id -> newest complete snapshot folder. Never asks the hub."""
    from huggingface_hub import CacheNotFound, scan_cache_dir

    try:
        repos = scan_cache_dir().repos
    except (CacheNotFound, OSError):
        return {}
    found: dict[str, Path] = {}
    for repo in sorted(repos, key=lambda repo: repo.repo_id):
        if repo.repo_type != "model":
            continue
        for revision in sorted(repo.revisions, key=lambda revision: -revision.last_modified):
            if _is_model(revision.snapshot_path):
                found[repo.repo_id] = revision.snapshot_path
                break
    return found


def _is_model(folder: Path) -> bool:
    return any(folder.glob("*.gguf")) or ((folder / "config.json").is_file() and any(folder.glob("*.safetensors")))


def _require_hub() -> None:
    if not hub_reachable():
        raise EngineFailure("The Hugging Face hub cannot be reached from here.")


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
