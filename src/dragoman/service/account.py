"""What the service knows of an answer beside its events: how the engine ran it, and why a prefix was missed.

Adds to the first and the last event of a choice; every other event passes untouched and unseen.
"""

from __future__ import annotations

import msgspec

from dragoman.core.events import Event, Finished, Started
from dragoman.core.exchange import TokenChunk
from dragoman.core.prefix_miss import PrefixMiss
from dragoman.core.vocabulary import Vocabulary

_LONGEST_TEXT = 64


class RunAccount:
    """Of one choice. `prompt_text` goes into Started, the lane into the timings of Finished."""

    def __init__(self, prompt_text: str, vocabulary: Vocabulary | None = None) -> None:
        self._prompt_text = prompt_text
        self._vocabulary = vocabulary
        self._lane = ""

    def opening(self, events: list[Event], chunk: TokenChunk) -> list[Event]:
        """The events of the first chunk."""
        self._lane = chunk.lane
        miss = chunk.miss and self._spelled(chunk.miss)
        return [
            msgspec.structs.replace(event, prompt_text=self._prompt_text, miss=miss)
            if isinstance(event, Started)
            else event
            for event in events
        ]

    def ending(self, events: list[Event], chunk: TokenChunk) -> list[Event]:
        """The events of the last chunk."""
        lane = (chunk.report.lane if chunk.report else "") or self._lane
        if not lane:
            return events
        return [
            msgspec.structs.replace(event, timings=msgspec.structs.replace(event.timings, lane=lane))
            if isinstance(event, Finished)
            else event
            for event in events
        ]

    def _spelled(self, miss: PrefixMiss) -> PrefixMiss:
        return msgspec.structs.replace(miss, kept_text=self._text(miss.kept), asked_text=self._text(miss.asked))

    def _text(self, token: int | None) -> str:
        if token is None or self._vocabulary is None:
            return ""
        return self._vocabulary.token_bytes(token).decode("utf-8", "replace")[:_LONGEST_TEXT]
