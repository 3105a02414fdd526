"""The slots of a model and what can be done with them. Files of saved slots have names, never paths."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Protocol, runtime_checkable

from dragoman.core.errors import NotSupported
from dragoman.core.slots import Slot, SlotActed, SlotAction
from dragoman.service.models import ServedModel


@runtime_checkable
class SlotKeeper(Protocol):
    """A backend with slots that can be looked at and saved."""

    async def slots(self) -> tuple[Slot, ...]:
        """What they hold and do now."""
        ...

    async def act(self, action: SlotAction, file: Path | None) -> SlotActed:
        """Save to `file`, restore from it, or erase. Waits until the slot is free. Raises InvalidRequest when the file
        is no saved slot or does not fit, NotSupported where states cannot be saved."""
        ...


async def slots(model: ServedModel) -> tuple[Slot, ...]:
    """The slots. Raises NotSupported where there are none to be seen."""
    return await _keeper(model).slots()


async def act(model: ServedModel, action: SlotAction, folder: Path | None) -> SlotActed:
    """Do it. `folder` is where saved slots are, None for nowhere. The name was checked where it was read."""
    keeper = _keeper(model)
    if action.verb == "erase":
        return await keeper.act(action, None)
    if folder is None:
        raise NotSupported("This server does not support slots action. Start it with `--slot-save-path`")
    await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
    return await keeper.act(action, folder / action.name)


def _keeper(model: ServedModel) -> SlotKeeper:
    if not isinstance(model.backend, SlotKeeper):
        raise NotSupported(f"The slots of {model.card.engine_build or model.card.engine} cannot be seen.")
    return model.backend
