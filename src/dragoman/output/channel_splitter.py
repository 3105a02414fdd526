"""A stream of channel messages to thought, text and tool calls. Knows no tokens, no stop strings and no events.

What a message is, its header tells: a thought, text, or with a recipient the arguments of a call. Markers are special
tokens, so they are markers wherever they stand. A message for a recipient that is no declared tool is text, header and
all; text without a header is text.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from enum import Enum
from typing import Literal

from dragoman.output.argument_types import ArgumentTypes
from dragoman.output.blanks import solid
from dragoman.output.call_block import BlockContext, CallBlock, Fate
from dragoman.output.families.family import Channels, HeadedCalls
from dragoman.output.headed_call import HeadedCallReader
from dragoman.output.json_value import BLANK
from dragoman.output.segments import END, Segment

_MAX_HEADER = 512
_RECIPIENT = "to="


class _State(Enum):
    BETWEEN = "between messages"
    HEADER = "in a header"
    THOUGHT = "in a thought"
    TEXT = "in text"
    CALL = "in a call"


class ChannelSplitter:
    """Splits one answer; see Splitter for `thinking_open`, `prefill`, `plain`, `thinking` and `repairs`."""

    def __init__(
        self,
        channels: Channels,
        calls: HeadedCalls,
        types: Mapping[str, ArgumentTypes],
        *,
        thinking_open: bool = False,
        prefill: str = "",
    ) -> None:
        self.plain = False
        self.thinking = thinking_open
        self.repairs: list[str] = []
        self._channels = channels
        self._calls = calls
        self._types = types
        self._marks = (*channels.ends, channels.start, channels.channel)
        self._name = re.compile(rf"{re.escape(channels.channel)}\s*(\w+)")
        self._out: list[Segment] = []
        self._buf = ""
        self._at = 0
        self._ended = False
        self._block: CallBlock | None = None
        self._state = _State.BETWEEN
        if thinking_open or prefill.strip(BLANK):
            self._state = _State.THOUGHT if thinking_open else _State.TEXT

    def feed(self, text: str) -> list[Segment]:
        """The pieces that are certain by now."""
        self._buf += text
        while self._buf and self._step():
            pass
        out, self._out = self._out, []
        return out

    def flush(self, *, cut: bool) -> list[Segment]:
        """The end of the answer; `cut` when a limit ended it."""
        if self._state is _State.CALL and self._block is not None:
            self._block.flush(self._buf, self._out, cut=cut)
            self.repairs += self._block.repairs
        elif not cut and (self._state is not _State.BETWEEN or self._buf.strip(BLANK)):
            self._give("reasoning" if self.thinking else "text", len(self._buf))
        self._buf = ""
        out, self._out = self._out, []
        return out

    def _step(self) -> bool:
        """Work on the buffer; False when more text is needed."""
        match self._state:
            case _State.BETWEEN:
                return self._between()
            case _State.HEADER:
                return self._header()
            case _State.THOUGHT | _State.TEXT:
                return self._body()
            case _State.CALL:
                return self._call()

    def _between(self) -> bool:
        start = len(self._buf) - len(self._buf.lstrip(BLANK))
        rest = self._buf[start:]
        end = next((mark for mark in self._channels.ends if rest.startswith(mark)), "")
        if end:
            self._drop(start + len(end))
            self._ended = True
            return True
        heads = (self._channels.start, self._channels.channel, _RECIPIENT)
        if any(rest.startswith(head) for head in heads):
            self._state = _State.HEADER
            return True
        if any(mark.startswith(rest) for mark in (*self._marks, *heads)):
            return False
        if self._ended:
            self._drop(start)
        self._state = _State.TEXT
        return True

    def _header(self) -> bool:
        mark = self._channels.message
        place = self._buf.find(mark)
        if place < 0:
            if len(self._buf) <= _MAX_HEADER:
                return False
            self._give("text", len(self._buf))
            self._state = _State.TEXT
            return True
        header = self._buf[:place]
        if _RECIPIENT in header:
            context = BlockContext(self._types.keys(), self._marks, self._marks, ())
            reader = HeadedCallReader(self._calls, self._marks_after(mark), self._types_of)
            self._block = CallBlock("", self._at, reader, context)
            self._state = _State.CALL
            return True
        name = self._name.search(header)
        self.thinking = name is not None and name[1] in self._channels.thoughts
        self._state = _State.THOUGHT if self.thinking else _State.TEXT
        self._drop(place + len(mark))
        return True

    def _marks_after(self, mark: str) -> tuple[str, ...]:
        """What may stand behind arguments; the header in front of them has the channel's own mark in it."""
        return tuple(some for some in self._channels.ends if some != mark)

    def _types_of(self, name: str) -> ArgumentTypes:
        return self._types.get(name) or ArgumentTypes(None)

    def _body(self) -> bool:
        kind: Literal["text", "reasoning"] = "reasoning" if self._state is _State.THOUGHT else "text"
        found = [(place, mark) for mark in self._marks if (place := self._buf.find(mark)) >= 0]
        if not found:
            self._give(kind, solid(self._buf, len(self._buf) - _held(self._buf, self._marks)))
            return False
        place, mark = min(found)
        self._give(kind, solid(self._buf, place))
        self._drop(self._buf.index(mark) + (len(mark) if mark in self._channels.ends else 0))
        self._ended = True
        if self.thinking:
            self._out.append(END)
            self.thinking = False
        self._state = _State.BETWEEN
        return True

    def _call(self) -> bool:
        block = self._block
        if block is None:
            return False
        self._drop(block.feed(self._buf, self._out))
        if block.reading:
            return False
        self.repairs += block.repairs
        self._state = _State.BETWEEN
        if block.fate is Fate.OPEN or not block.complete:
            # Its header must not be taken for another message.
            if block.unread:
                self._out.append(Segment("text", block.unread, self._at - len(block.unread)))
            self._state = _State.TEXT
            return True
        self._buf = block.unread + self._buf
        self._at -= len(block.unread)
        return True

    def _give(self, kind: Literal["text", "reasoning"], count: int) -> None:
        if count > 0:
            self._out.append(Segment(kind, self._buf[:count], self._at if kind == "text" else -1))
            self._drop(count)

    def _drop(self, count: int) -> None:
        self._buf = self._buf[count:]
        self._at += count


def _held(text: str, marks: Collection[str]) -> int:
    """Length of the longest tail of `text` that is the beginning of a mark."""
    longest = max(len(mark) for mark in marks) - 1
    tails = range(max(0, len(text) - longest), len(text))
    return next((len(text) - at for at in tails if any(mark.startswith(text[at:]) for mark in marks)), 0)
