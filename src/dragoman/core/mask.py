"""Constraints on the next token as the sampler sees them: a bit per token. Who decides them is not known here."""

from __future__ import annotations

from typing import Any, Protocol


class MaskProvider(Protocol):
    """The constraint of one row. Called on the engine thread, once per step: `fill`, then `advance` with the token."""

    def fill(self, mask: Any) -> bool:
        """Write the allowed tokens into `mask`, a NumPy int32 array of ceil(vocabulary / 32) words in llguidance's
        layout (bit t % 32 of word t // 32). False leaves it unwritten: every token is allowed."""
        ...

    def advance(self, token: int) -> None:
        """The row's next token is `token`."""
        ...

    @property
    def complete(self) -> bool:
        """Whether the constraint allows nothing more, so that the answer ends now."""
        ...
