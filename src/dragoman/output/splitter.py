"""A text stream to thought, text and tool calls. Knows no tokens, no stop strings and no events.

Markup is recognised where it has meaning and is text everywhere else:

- A thought begins with the prompt (`thinking_open`) or with the opening tag as the first thing of the answer, and ends
  with the first closing tag. A tag that comes later is text.
- A block of calls begins with the family's opener outside Markdown code, when tools were declared. A call counts once
  it names a declared tool and its arguments begin; a block that does not get there is text, from its opener on. The
  call ends where its JSON ends, so a closing marker inside an argument is argument text. Arguments that stop being
  JSON after the call was announced cut it; the rest is text.
- Whitespace directly before or after a recognised marker belongs to the markup and is dropped, at most 64 characters
  of it before a marker (an opening tag after more of it is text). All other whitespace is kept.

Held back is only what may still turn out to be markup: the beginning of a marker, whitespace in front of one, and the
head of a call up to its arguments. At the end, held text is text; but when the answer was cut by a limit, half a marker
or half the head of a call is dropped, because it was going to be markup. The result never depends on how the stream
was cut into pieces.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Literal

from dragoman.core.prompt import ReplyFormat
from dragoman.output.call_block import CallBlock, Fate
from dragoman.output.calls import open_reader
from dragoman.output.code_spans import CodeSpans
from dragoman.output.families.table import family_named
from dragoman.output.json_value import BLANK
from dragoman.output.segments import END, Segment

_MAX_BLANK = 64
_AFTER_CALL = re.compile(r"[ \t\r\n}]*")


class _State(Enum):
    LEAD = "before anything but whitespace"
    THOUGHT = "in a thought"
    PROSE = "in text"
    CALL = "in a call"
    AFTER = "after a call, before the block's end"


class Splitter:
    """Splits one answer. `prefill` is answer text the prompt already holds: it sets the state, it is not given out.

    `names` are the declared tools; without any, calls are not recognised. `plain` tells that all that can still come
    is text and nothing is held, so that the caller may stop asking.
    """

    def __init__(
        self,
        format: ReplyFormat,
        names: frozenset[str] = frozenset(),
        *,
        thinking_open: bool = False,
        prefill: str = "",
    ) -> None:
        self.plain = False
        self.thinking = thinking_open and format.think_close != ""
        self._think_open = format.think_open
        self._think_close = format.think_close
        self._family = family_named(format.tool_family) if names else None
        self._names = names
        self._out: list[Segment] = []
        self._buf = ""
        self._at = 0
        self._scanned = 0
        self._skip_blank = False
        self._opener = self._family.opener if self._family else "\n"
        self._closer = self._family.closer if self._family else "\n"
        self._code = CodeSpans(self._opener[0])
        self._block: CallBlock | None = None
        self._state = _State.LEAD
        self._begin(prefill)

    def feed(self, text: str) -> list[Segment]:
        """The pieces that are certain by now."""
        self._buf = self._buf + text if self._buf else text
        while self._buf and self._step():
            pass
        out, self._out = self._out, []
        return out

    def flush(self, *, cut: bool) -> list[Segment]:
        """The end of the answer; `cut` when a limit ended it. Open text and thoughts are the caller's to close; a
        call is closed here."""
        if self._state is _State.CALL and self._block:
            self._block.flush(self._buf, self._out, cut=cut)
        elif self._state is not _State.AFTER and not (cut and self._buf.strip(BLANK)):
            self._give("reasoning" if self.thinking else "text", len(self._buf))
        self._buf = ""
        out, self._out = self._out, []
        return out

    def _begin(self, prefill: str) -> None:
        shown = prefill.rstrip(BLANK)
        if not shown and self._think_open:
            return
        if self.thinking:
            self._state = _State.THOUGHT
            self._skip_blank = not shown or shown.endswith(self._think_open or self._think_close)
            return
        self._enter_prose(after_marker=bool(self._think_close) and shown.endswith(self._think_close))
        self._code.read(prefill)

    def _step(self) -> bool:
        """Work on the buffer; False when more text is needed."""
        match self._state:
            case _State.PROSE:
                return self._prose()
            case _State.THOUGHT:
                return self._thought()
            case _State.LEAD:
                return self._lead()
            case _State.CALL:
                return self._call()
            case _State.AFTER:
                return self._after_call()

    def _lead(self) -> bool:
        start = len(self._buf) - len(self._buf.lstrip(BLANK))
        rest = self._buf[start:]
        if self.thinking or start <= _MAX_BLANK:
            if rest.startswith(self._think_open):
                self._drop(start + len(self._think_open))
                self.thinking = True
            elif self._think_open.startswith(rest):
                return False
        if not self.thinking:
            return self._enter_prose(after_marker=False)
        self._state = _State.THOUGHT
        self._skip_blank = True
        return True

    def _thought(self) -> bool:
        if not self._past_blank():
            return False
        end = self._buf.find(self._think_close)
        if end < 0:
            self._give("reasoning", _solid(self._buf, len(self._buf) - _overlap(self._buf, self._think_close)))
            return False
        self._give("reasoning", _solid(self._buf, end))
        self._drop(self._buf.index(self._think_close) + len(self._think_close))
        self._out.append(END)
        self.thinking = False
        return self._enter_prose(after_marker=True)

    def _prose(self) -> bool:
        if not self._past_blank():
            return False
        if self._family is None:
            self.plain = True
            self._give("text", len(self._buf))
            return False
        while (hit := self._code.find(self._buf, self._scanned)) >= 0:
            if self._buf.startswith(self._opener, hit):
                return self._open_block(hit)
            self._scanned = hit
            if len(self._buf) - hit < len(self._opener) and self._opener.startswith(self._buf[hit:]):
                self._give("text", _solid(self._buf, hit))
                return False
            self._scanned = hit + 1
        self._scanned = len(self._buf)
        self._give("text", len(self._buf) if self._code.in_block else _solid(self._buf, len(self._buf)))
        return False

    def _open_block(self, hit: int) -> bool:
        self._give("text", _solid(self._buf, hit))
        return self._start_call(self._buf.index(self._opener) + len(self._opener))

    def _start_call(self, head: int) -> bool:
        """A call begins after `head` characters of whitespace and marker."""
        if self._family is None:
            return False
        reader = open_reader(self._family.calls, self._family.closer)
        self._block = CallBlock(self._buf[:head], self._at, reader, self._names)
        self._drop(head)
        self._state = _State.CALL
        return True

    def _call(self) -> bool:
        block = self._block
        if block is None:
            return False
        self._drop(block.feed(self._buf, self._out))
        if block.reading:
            return False
        if block.fate is Fate.CALL and block.complete:
            self._state = _State.AFTER
            return True
        if block.fate is Fate.OPEN:
            self._retract(block)
        return self._enter_prose(after_marker=False)

    def _retract(self, block: CallBlock) -> None:
        """It was no call: the marker is text, and what was read behind it is looked at again."""
        if block.head.text:
            self._out.append(block.head)
        self._buf = block.body + self._buf
        self._at -= len(block.body)

    def _after_call(self) -> bool:
        closer = self._closer
        filler = _AFTER_CALL.match(self._buf)
        end = filler.end() if filler else 0
        if self._buf.startswith(closer, end):
            self._drop(end + len(closer))
        elif closer.startswith(self._buf[end:]):
            return False
        elif self._buf[end] == "{" and not self._buf[:end].strip(BLANK):
            self._drop(end)
            return self._start_call(0)
        return self._enter_prose(after_marker=True)

    def _enter_prose(self, *, after_marker: bool) -> bool:
        self._state = _State.PROSE
        self._skip_blank = after_marker
        self._scanned = 0
        self._code = CodeSpans(self._opener[0])
        self.plain = self._family is None and not after_marker
        return True

    def _past_blank(self) -> bool:
        """Drop whitespace behind a marker; False when there is nothing else."""
        if self._skip_blank:
            self._drop(len(self._buf) - len(self._buf.lstrip(BLANK)))
            self._skip_blank = self._buf == ""
        return self._buf != ""

    def _give(self, kind: Literal["text", "reasoning"], count: int) -> None:
        if count > 0:
            self._out.append(Segment(kind, self._buf[:count], self._at if kind == "text" else -1))
            self._drop(count)

    def _drop(self, count: int) -> None:
        self._buf = self._buf[count:]
        self._at += count
        self._scanned = max(0, self._scanned - count)


def _solid(text: str, end: int) -> int:
    """Where the whitespace before `end` begins that would be dropped if a marker stood there."""
    return max(len(text[:end].rstrip(BLANK)), end - _MAX_BLANK)


def _overlap(text: str, marker: str) -> int:
    """Length of the longest tail of `text` that is a proper prefix of `marker`."""
    at = text.find(marker[0], max(0, len(text) - len(marker) + 1))
    while at >= 0 and not marker.startswith(text[at:]):
        at = text.find(marker[0], at + 1)
    return len(text) - at if at >= 0 else 0
