"""A text stream to thought, text and tool calls. Knows no tokens, no stop strings and no events.

Markup is recognised where it has meaning and is text everywhere else:

- A thought begins with the prompt (`thinking_open`) or with the opening tag as the first thing of the answer, and ends
  with the first closing tag. A tag that comes later is text.
- A block of calls begins with one of the family's markers outside Markdown code, or, for families without, with a call
  as the first thing of the answer, when tools were declared. A call counts once it names a declared tool and its
  arguments begin; a block that does not get there is text, from its marker on. The call ends where its structure
  ends, so a closing marker inside an argument is argument text. A call that breaks off is mended if that gives a call
  which begins like what was given out; otherwise it is cut, and the rest is text.
- Whitespace directly before or after a recognised marker belongs to the markup and is dropped, at most 64 characters
  of it before a marker (an opening tag after more of it is text). All other whitespace is kept.
- Marks that some families put around plain text are dropped, where they stand around the answer.

Held back is only what may still turn out to be markup: the beginning of a marker, whitespace in front of one, the head
of a call up to its arguments, and a call that needs mending. At the end, held text is text; but when the answer was cut
by a limit, half a marker or half the head of a call is dropped, because it was going to be markup. The result never
depends on how the stream was cut into pieces.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import Enum
from typing import Literal

from dragoman.core.prompt import ReplyFormat
from dragoman.core.tools import Tool
from dragoman.output.argument_types import ArgumentTypes
from dragoman.output.blanks import MAX_BLANK, solid
from dragoman.output.block_frame import After, BlockFrame
from dragoman.output.call_block import BlockContext, CallBlock, Fate
from dragoman.output.calls import CallContext, open_reader
from dragoman.output.code_spans import CodeSpans
from dragoman.output.families.family import JsonCalls, ToolFamily
from dragoman.output.families.table import family_named
from dragoman.output.json_value import BLANK
from dragoman.output.segments import END, Segment


class _State(Enum):
    LEAD = "before anything but whitespace"
    THOUGHT = "in a thought"
    FIRST = "before the first text"
    PROSE = "in text"
    BLOCK = "behind a marker, before a call"
    CALL = "in a call"
    AFTER = "after a call, before the block's end"


class Splitter:
    """Splits one answer. `prefill` is answer text the prompt already holds: it sets the state, it is not given out.

    `tools` are the declared tools (or only their `names`, when nothing is known of their arguments); without any,
    calls are not recognised. `plain` tells that all that can still come is text and nothing is held, so that the
    caller may stop asking. `repairs` has the name of each thing mended in calls so far, in order; `raw` stands for
    markup that could not be read and was given out as text.
    """

    def __init__(
        self,
        format: ReplyFormat,
        names: Collection[str] = (),
        *,
        tools: Sequence[Tool] = (),
        thinking_open: bool = False,
        prefill: str = "",
    ) -> None:
        row = family_named(format.tool_family)
        self.plain = False
        self.thinking = thinking_open and format.think_close != ""
        self.repairs: list[str] = []
        self._think_open = format.think_open
        self._think_close = format.think_close
        self._types = {name: ArgumentTypes(None) for name in names}
        self._types.update({tool.name: ArgumentTypes(tool.parameters) for tool in tools})
        self._family = row if self._types else None
        self._text_marks = row.text_marks if row else ()
        self._text_close = ""
        self._out: list[Segment] = []
        self._buf = ""
        self._at = 0
        self._scanned = 0
        self._skip_blank = False
        self._markers = (*self._family.openers, *self._family.starts) if self._family else ()
        self._first_mark = self._markers[0][0] if self._markers else "<" if self._text_marks else "\n"
        self._code = CodeSpans(self._first_mark)
        self._frame: BlockFrame | None = None
        self._head = 0
        self._marker = 0
        self._bare = False
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
            self._flush_block(self._block, cut=cut)
        elif self._state is _State.PROSE and self._text_close and self._buf.strip(BLANK) == self._text_close:
            self._buf = ""
        elif self._state is not _State.AFTER and not (cut and self._buf.strip(BLANK)):
            self._give("reasoning" if self.thinking else "text", len(self._buf))
        self._buf = ""
        out, self._out = self._out, []
        return out

    def _flush_block(self, block: CallBlock, *, cut: bool) -> None:
        block.flush(self._buf, self._out, cut=cut)
        self.repairs += block.repairs
        self._buf = block.unread
        if block.unread and not cut and block.complete:
            # Only a mended call leaves something behind it.
            self._at -= len(block.unread)
            self._state = _State.AFTER
            call, self._out = self._out, []
            behind = self.feed("")
            self._out = [*call, *behind, *self.flush(cut=cut)]

    def _begin(self, prefill: str) -> None:
        shown = prefill.rstrip(BLANK)
        if not shown and self._think_open:
            return
        if self.thinking:
            self._state = _State.THOUGHT
            self._skip_blank = not shown or shown.endswith(self._think_open or self._think_close)
            return
        after_marker = bool(self._think_close) and shown.endswith(self._think_close)
        if not shown or after_marker:
            self._enter_first(after_marker=after_marker)
        else:
            self._enter_prose(after_marker=False)
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
            case _State.FIRST:
                return self._first()
            case _State.BLOCK:
                return self._start_call()
            case _State.CALL:
                return self._call()
            case _State.AFTER:
                return self._after_call()

    def _lead(self) -> bool:
        start = len(self._buf) - len(self._buf.lstrip(BLANK))
        rest = self._buf[start:]
        if self.thinking or start <= MAX_BLANK:
            if rest.startswith(self._think_open):
                self._drop(start + len(self._think_open))
                self.thinking = True
            elif self._think_open.startswith(rest):
                return False
        if not self.thinking:
            return self._enter_first(after_marker=False)
        self._state = _State.THOUGHT
        self._skip_blank = True
        return True

    def _thought(self) -> bool:
        if not self._past_blank():
            return False
        end = self._buf.find(self._think_close)
        if end < 0:
            self._give("reasoning", solid(self._buf, len(self._buf) - _overlap(self._buf, self._think_close)))
            return False
        self._give("reasoning", solid(self._buf, end))
        self._drop(self._buf.index(self._think_close) + len(self._think_close))
        self._out.append(END)
        self.thinking = False
        return self._enter_first(after_marker=True)

    def _first(self) -> bool:
        """At the first text of the answer, where calls without a marker and marks around text may begin."""
        if not self._past_blank():
            return False
        start = len(self._buf) - len(self._buf.lstrip(BLANK))
        rest = self._buf[start:]
        family = self._family
        if start > MAX_BLANK or not rest:
            return start > MAX_BLANK and self._enter_prose(after_marker=False)
        for mark, close in self._text_marks:
            if rest.startswith(mark):
                self._drop(start + len(mark))
                self._text_close = close
                return self._enter_prose(after_marker=True)
        openers = family.bare_openers if family else ()
        opener = next((some for some in openers if rest.startswith(some)), "")
        bare_starts = family.bare_starts if family else ()
        if opener or any(rest.startswith(some) for some in bare_starts):
            return self._open_block(start, len(opener), bare=not opener)
        marks = (*openers, *bare_starts, *(mark for mark, _ in self._text_marks))
        if any(mark.startswith(rest) for mark in marks):
            return False
        return self._enter_prose(after_marker=False)

    def _prose(self) -> bool:
        if not self._past_blank():
            return False
        if not self._markers and not self._text_close:
            self.plain = True
            self._give("text", len(self._buf))
            return False
        while (hit := self._code.find(self._buf, self._scanned)) >= 0:
            marker = next((some for some in self._markers if self._buf.startswith(some, hit)), "")
            if marker:
                starts = self._family is not None and marker in self._family.starts
                return self._open_block(hit, 0 if starts else len(marker))
            if self._ends_text(hit):
                return True
            self._scanned = hit
            if self._waits(hit):
                self._give("text", solid(self._buf, hit))
                return False
            self._scanned = hit + 1
        self._scanned = len(self._buf)
        self._give("text", len(self._buf) if self._code.in_block else solid(self._buf, len(self._buf)))
        return False

    def _waits(self, hit: int) -> bool:
        """Whether what stands at `hit` may become a marker, or the mark that ends the text."""
        rest = self._buf[hit:]
        if any(len(rest) < len(some) and some.startswith(rest) for some in self._markers):
            return True
        close = self._text_close
        if not close or not rest.startswith(close[: len(rest)]):
            return False
        behind = rest[len(close) :].lstrip(BLANK)
        return not behind or any(some.startswith(behind) for some in self._markers)

    def _ends_text(self, hit: int) -> bool:
        """Drop the mark that ends the text, which it is where a marker follows; the end of the answer is for flush."""
        close = self._text_close
        if not close or not self._buf.startswith(close, hit):
            return False
        behind = self._buf[hit + len(close) :].lstrip(BLANK)
        if not any(behind.startswith(some) for some in self._markers):
            return False
        self._give("text", solid(self._buf, hit))
        self._drop(self._buf.index(close) + len(close))
        self._text_close = ""
        return self._enter_prose(after_marker=True)

    def _open_block(self, hit: int, width: int, *, bare: bool = False) -> bool:
        """A block begins with a marker of `width` characters at `hit`."""
        if self._family is None:
            return False
        shown = solid(self._buf, hit) if self._state is _State.PROSE else 0
        self._give("text", shown)
        self._head = hit + width - shown
        self._marker = self._head if width else self._head + 1
        self._bare = bare
        self._frame = BlockFrame(self._family)
        self._state = _State.BLOCK
        return True

    def _start_call(self) -> bool:
        """A call begins behind `_head` characters of whitespace and markers, and what more of them there is."""
        family, frame = self._family, self._frame
        if family is None or frame is None:
            return False
        start = frame.lead(self._buf, self._head)
        if start < 0:
            return False
        self._head = start
        closers = tuple(text for text in (family.closer, *family.call_closers) if text)
        marks = tuple(text for text in closers if text != "```")
        context = CallContext(marks, self._types_of, self._bare)
        reader = open_reader((family.calls, *family.others), self._buf[start:], context)
        if reader is None:
            return False
        self._block = CallBlock(self._buf[:start], self._at, reader, self._context(family, closers, marks))
        self._drop(start)
        self._state = _State.CALL
        return True

    def _types_of(self, name: str) -> ArgumentTypes:
        return self._types.get(name) or ArgumentTypes(None)

    def _context(self, family: ToolFamily, closers: tuple[str, ...], marks: tuple[str, ...]) -> BlockContext:
        json_calls = next((some for some in (family.calls, *family.others) if isinstance(some, JsonCalls)), None)
        ends = (*closers, "]") if family.listed else closers
        return BlockContext(self._types.keys(), ends, marks, self._markers, json_calls)

    def _call(self) -> bool:
        block = self._block
        if block is None:
            return False
        self._drop(block.feed(self._buf, self._out))
        if block.reading:
            return False
        self.repairs += block.repairs
        unread = block.unread
        if block.fate is Fate.OPEN:
            # It was no call: the marker is text, or at least its first character, and what is behind it is looked
            # at again.
            whole = block.head.text + unread
            self._out.append(Segment("text", whole[: self._marker], block.head.at))
            unread = whole[self._marker :]
        self._buf = unread + self._buf
        self._at -= len(unread)
        if block.complete:
            self._state = _State.AFTER
            return True
        return self._enter_prose(after_marker=False)

    def _after_call(self) -> bool:
        if self._frame is None:
            return False
        what, done, begins = self._frame.after(self._buf)
        if what is After.WAIT:
            return False
        self._drop(done)
        if what is After.CALL:
            self._head = begins - done
            self._marker = 1
            self._state = _State.BLOCK
            return True
        return self._enter_prose(after_marker=True)

    def _enter_first(self, *, after_marker: bool) -> bool:
        self._enter_prose(after_marker=after_marker)
        family = self._family
        if self._text_marks or (family and (family.bare_starts or family.bare_openers)):
            self._state = _State.FIRST
            self.plain = False
        return True

    def _enter_prose(self, *, after_marker: bool) -> bool:
        self._state = _State.PROSE
        self._skip_blank = after_marker
        self._scanned = 0
        self._code = CodeSpans(self._first_mark)
        self.plain = not self._markers and not self._text_close and not after_marker
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


def _overlap(text: str, marker: str) -> int:
    """Length of the longest tail of `text` that is a proper prefix of `marker`."""
    at = text.find(marker[0], max(0, len(text) - len(marker) + 1))
    while at >= 0 and not marker.startswith(text[at:]):
        at = text.find(marker[0], at + 1)
    return len(text) - at if at >= 0 else 0
