"""LoRA adapters: which are mounted, under which names, and what a request makes of them. Opens no file."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from dragoman.core.adapters import AdapterScale
from dragoman.core.errors import EngineFailure, InvalidField

_FIELD = "adapters"
_AS_GOOD_AS_NOTHING = 1e-30
"""A scale under which a sum of 32-bit floats stays what it was, and that is not zero."""


class Adapter(Struct, frozen=True):
    """A LoRA adapter in a GGUF file; `scale` applies to requests that choose no adapters, 0: only when chosen."""

    name: str
    path: str
    scale: float = 1.0


class Mounted(Struct, frozen=True):
    """The adapters of a running engine; their places are llama.cpp's ids."""

    adapters: tuple[Adapter, ...] = ()

    def scales(self, wanted: Sequence[AdapterScale] | None) -> tuple[float, ...]:
        """One scale for each mounted adapter: those of the request, or of the start when it chooses none. Raises
        InvalidField for an adapter that is not mounted, one that is named twice, and a scale that is no number."""
        if wanted is None:
            return tuple(adapter.scale for adapter in self.adapters)
        chosen = {item.name: item.scale for item in wanted}
        names = [adapter.name for adapter in self.adapters]
        for item in wanted:
            if item.name not in names:
                raise InvalidField(f"The adapter '{item.name}' is not mounted; {_listed(names)}.", field=_FIELD)
            if not math.isfinite(item.scale):
                raise InvalidField(f"The scale of the adapter '{item.name}' is not a finite number.", field=_FIELD)
        if len(chosen) != len(wanted):
            raise InvalidField("An adapter is named twice.", field=_FIELD)
        return tuple(chosen.get(name, 0.0) for name in names)

    def native(self, wanted: Sequence[AdapterScale] | None) -> dict[str, Any]:
        """The wire's `lora` field, left out where nothing is mounted. It names every adapter: llama.cpp takes an empty
        list for 'as started'. And it never leaves all of them out: llama.cpp clears a slot when other adapters are
        asked for, but not when none are, and would go on from what they had made of the prompt."""
        if not self.adapters:
            self.scales(wanted)
            return {}
        scales = self.scales(wanted)
        if not any(scales):
            scales = (_AS_GOOD_AS_NOTHING, *scales[1:])
        return {"lora": [{"id": at, "scale": scale} for at, scale in enumerate(scales)]}

    def namespace(self, wanted: Sequence[AdapterScale] | None) -> str:
        """Distinguishes what prompts leave in the cache under different adapters; '' without any effect of theirs."""
        scales = self.scales(wanted)
        return ",".join(
            f"{adapter.name}={scale!r}@{adapter.path}"
            for adapter, scale in zip(self.adapters, scales, strict=True)
            if scale
        )


def parse_adapter(text: str) -> Adapter:
    """`NAME=PATH[:SCALE]`; without NAME= the file's name without its suffix. Raises EngineFailure."""
    name, equals, rest = text.partition("=")
    path, colon, tail = (rest if equals else text).rpartition(":")
    try:
        scale = float(tail) if colon and path else None
    except ValueError:
        scale = None
    file = path if scale is not None else (rest if equals else text)
    name = name.strip() if equals else Path(file).stem
    if not file or not name or (scale is not None and not math.isfinite(scale)):
        raise EngineFailure(f"The adapter '{text}' does not look like NAME=PATH or NAME=PATH:SCALE.")
    return Adapter(name, file, 1.0 if scale is None else scale)


def require_adapters(adapters: Sequence[Adapter]) -> None:
    """Raises EngineFailure when two have one name, or a file is not there."""
    for name, times in Counter(adapter.name for adapter in adapters).items():
        if times > 1:
            raise EngineFailure(f"Two adapters are named '{name}'.", remedy="Give each its own name: NAME=PATH.")
    for adapter in adapters:
        if not Path(adapter.path).is_file():
            raise EngineFailure(f"There is no file '{adapter.path}' for the adapter '{adapter.name}'.")


def _listed(names: Sequence[str]) -> str:
    return f"mounted are {', '.join(names)}" if names else "no adapters are"


class _Told(Struct, frozen=True):
    path: str
    scale: float = 1.0


def read_adapters(body: bytes) -> tuple[Adapter, ...]:
    """Those of a server that runs already, from its /lora-adapters, named by their files. Raises EngineFailure."""
    try:
        told = msgspec.json.decode(body, type=list[_Told])
    except msgspec.MsgspecError as error:
        raise EngineFailure(f"llama.cpp sent adapters that cannot be read: {error}.") from error
    return tuple(Adapter(Path(adapter.path).stem, adapter.path, adapter.scale) for adapter in told)
