"""Stop strings in a text stream. Knows no tokens and no parts; the caller decides which text is searched."""

from __future__ import annotations

import re
from collections.abc import Sequence


class StopMatcher:
    """Finds the earliest stop string, the first listed one where several start at the same place.

    The result is that of `str.find` on the whole text, however it was cut: a stop that is complete waits for one that
    began before it and may still become complete. Only the longest tail that is a proper prefix of some stop is held
    back. An empty stop matches the first text there is (as in llama-server).

    Work per feed is one scan of the new text for the stops' first characters; only where one occurs are stops compared.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._by_first: dict[str, list[str]] = {}
        for stop in dict.fromkeys(stops):
            if stop:
                self._by_first.setdefault(stop[0], []).append(stop)
        self._empty = "" in stops
        firsts = "".join(re.escape(first) for first in self._by_first)
        self._first = re.compile(f"[{firsts}]" if firsts else "(?!)")
        self._held = ""

    @property
    def held(self) -> bool:
        """Whether text waits for what comes next."""
        return self._held != ""

    def feed(self, text: str) -> tuple[str, str | None]:
        """Text that is free to go, and the stop that matched; nothing may be fed after a match."""
        if self._empty:
            return "", ""
        if self._held:
            text = self._held + text
            self._held = ""
        elif self._first.search(text) is None:
            return text, None
        return self._search(text, final=False)

    def flush(self) -> tuple[str, str | None]:
        """The held text, with the stop in it that was waiting for an earlier one."""
        text, self._held = self._held, ""
        return self._search(text, final=True) if text else ("", None)

    def _search(self, text: str, *, final: bool) -> tuple[str, str | None]:
        size = len(text)
        for first in self._first.finditer(text):
            at = first.start()
            for stop in self._by_first[first.group()]:
                if text.startswith(stop, at):
                    return text[:at], stop
                if not final and size - at < len(stop) and stop.startswith(text[at:]):
                    self._held = text[at:]
                    return text[:at], None
        return text, None
