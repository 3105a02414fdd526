"""Why a prompt had to be computed though one like it was kept. Numbers and one token; knows no cache."""

from __future__ import annotations

from msgspec import Struct


class PrefixMiss(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`reason` in the cache's words (`empty`, `diverged`, `untrimmable`, `evicted`, `refused`). The closest kept prefix
    of `length` tokens shares the first `shared` ones with the prompt; there it has the token `kept` where the prompt
    has `asked`, both None where that is not what parted them. The texts are filled in by who has the vocabulary."""

    reason: str
    shared: int = 0
    length: int = 0
    kept: int | None = None
    asked: int | None = None
    kept_text: str = ""
    asked_text: str = ""
