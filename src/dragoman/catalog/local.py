"""A model on this machine's disk, inspected without loading it. Knows no engine."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, Literal, cast

from msgspec import Struct

from dragoman.catalog.gguf import GgufHeader, read_gguf
from dragoman.core.errors import EngineFailure


class LocalModel(Struct, frozen=True, kw_only=True):
    """What is on disk. `path` is the GGUF file or the checkpoint folder; sizes in bytes, lengths in tokens, times in
    Unix seconds. `id` is the name it goes by, `aliases` its other names; `chats` tells that it has a chat template;
    `header` only for GGUF."""

    id: str
    path: Path
    format: Literal["gguf", "safetensors"]
    aliases: tuple[str, ...] = ()
    architecture: str = ""
    quantization: str = ""
    parameters: int = 0
    size_bytes: int = 0
    trained_context: int = 0
    modified: int = 0
    chats: bool = False
    header: GgufHeader | None = None

    @property
    def digest(self) -> str:
        """A stable identity (SHA-256 hex) of name, size and time; the content itself is not hashed."""
        text = f"{self.path.name}:{self.size_bytes}:{self.modified}"
        return hashlib.sha256(text.encode()).hexdigest()


def is_projector(path: Path) -> bool:
    """Whether a GGUF file is the image encoder of a model, by its name, as llama.cpp's tools and the hubs write it."""
    return "mmproj" in path.name.lower()


def inspect_model(path: Path, *, id: str | None = None, aliases: tuple[str, ...] = ()) -> LocalModel:
    """The model at `path`: a .gguf file, a folder that holds exactly one, or a safetensors checkpoint folder.

    Raises EngineFailure with one sentence when there is no model, or no readable one.
    """
    if path.is_file():
        return _gguf(path, id, aliases)
    if not path.is_dir():
        raise EngineFailure(f"There is no file or folder '{path}'.")
    if (path / "config.json").is_file():
        return _checkpoint(path, id, aliases)
    files = [file for file in sorted(path.glob("*.gguf")) if not is_projector(file)]
    if len(files) == 1:
        return _gguf(files[0], id, aliases)
    if files:
        raise EngineFailure(f"'{path}' holds {len(files)} GGUF files.", remedy="Name one of them.")
    raise EngineFailure(f"'{path}' holds no model: neither a config.json with safetensors nor a .gguf file.")


def _gguf(path: Path, id: str | None, aliases: tuple[str, ...]) -> LocalModel:
    header = read_gguf(path)
    status = path.stat()
    return LocalModel(
        id=id or path.stem,
        path=path,
        format="gguf",
        aliases=_others(id or path.stem, (*aliases, path.name, path.stem)),
        architecture=header.architecture,
        quantization=header.quantization,
        parameters=header.parameters,
        size_bytes=status.st_size,
        trained_context=header.number("context_length"),
        modified=int(status.st_mtime),
        chats=bool(header.chat_template),
        header=header,
    )


def _checkpoint(path: Path, id: str | None, aliases: tuple[str, ...]) -> LocalModel:
    config = _read_json(path / "config.json")
    weights = sorted(path.glob("*.safetensors"))
    if not weights:
        raise EngineFailure(f"'{path}' has a config.json but no .safetensors weights.", remedy="Fetch it again.")
    text = _section(config, "text_config") or config
    return LocalModel(
        id=id or path.name,
        path=path,
        format="safetensors",
        aliases=_others(id or path.name, (*aliases, path.name)),
        architecture=str(config.get("model_type", "")),
        quantization=_quantization(config),
        size_bytes=sum(file.stat().st_size for file in weights),
        trained_context=int(text.get("max_position_embeddings") or 0),
        modified=int((path / "config.json").stat().st_mtime),
        chats=_has_template(path),
    )


def _has_template(folder: Path) -> bool:
    if (folder / "chat_template.jinja").is_file() or (folder / "chat_template.json").is_file():
        return True
    file = folder / "tokenizer_config.json"
    return file.is_file() and bool(_read_json(file).get("chat_template"))


def generation_defaults(folder: Path) -> dict[str, Any]:
    """generation_config.json of a checkpoint, {} when it has none."""
    file = folder / "generation_config.json"
    return _read_json(file) if file.is_file() else {}


def _quantization(config: dict[str, Any]) -> str:
    scheme = _section(config, "quantization")
    if "bits" in scheme:
        return f"{scheme['bits']}bit"
    return str(config.get("torch_dtype") or config.get("dtype") or "")


def _section(config: dict[str, Any], name: str) -> dict[str, Any]:
    value = config.get(name)
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _others(id: str, names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name in names if name != id))


def _read_json(file: Path) -> dict[str, Any]:
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise EngineFailure(f"'{file}' is not readable JSON ({error}).", remedy="Fetch the model again.") from error
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
