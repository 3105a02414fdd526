"""What a scheduler has done so far, as counts. Knows no request by name."""

from __future__ import annotations

from msgspec import Struct


class Tally(Struct, kw_only=True):
    """Requests by how they ended, and the tokens the engine really processed, since the scheduler was made.

    `running` counts rows in use, `waiting` the queue, `cache_bytes` and `cache_entries` what the prefix cache holds;
    these and `cache_evicted` are set from outside, at the end of a step. `cached_tokens` were not processed but taken
    out of the cache or a running row, `prompt_tokens` does not include them. `cache_hits` are the rows that began so,
    `cache_misses` those that might have.
    """

    running: int = 0
    waiting: int = 0
    added: int = 0
    finished: int = 0
    cancelled: int = 0
    failed: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    cache_bytes: int = 0
    cache_entries: int = 0
    cache_hits: int = 0
    cache_misses: int = 0
    cache_evicted: int = 0
