"""The shape of a row in the table of tool families. Data only: readers, writers and grammars act on it.

A row says the same thing twice, for two purposes that tests hold together. `form` is the one canonical spelling: what
the model was trained to write, what history looks like and what a forced call is constrained to. The rest is what is
accepted when an answer is read, which is always at least the form.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

ValueKind = Literal["json", "python", "quoted"]
ValueType = Literal["string", "json", "schema"]


class JsonArguments(Struct, frozen=True):
    """One JSON object."""


class PythonArguments(Struct, frozen=True):
    """`key=literal` pairs, joined with ', ': Python literals (quoted strings, True, False, None, lists, dicts)."""


class QuotedArguments(Struct, frozen=True, kw_only=True):
    """`{key:value,…}` without blanks: bare keys at every depth, strings between two `quote` marks without any escapes,
    numbers, true, false and null as in JSON, arrays `[a,b]`, objects as the whole."""

    quote: str


class TaggedArguments(Struct, frozen=True, kw_only=True):
    """For each argument `open` KEY `key_close` VALUE `close`, with `between` them. Strings are written as they are,
    without escapes, everything else as JSON. Where `key_close_other` is set, it takes the place of `key_close` in
    front of a value that is not a string. With `cdata`, a string with '<', '&' or a line break in it stands in a
    `<![CDATA[` `]]>` section."""

    open: str
    key_close: str
    close: str
    between: str = ""
    key_close_other: str = ""
    cdata: bool = False


ArgumentForm = JsonArguments | PythonArguments | QuotedArguments | TaggedArguments


class CallForm(Struct, frozen=True, kw_only=True):
    """The canonical spelling of a reply that calls functions:

    `opener`, then the calls with `separator` between them, then `closer`. One call is, without numbers
    `call_open` NAME `name_close` ARGUMENTS `call_close`; where `number_close` is set, with the call's index, counted
    from 0, in front of the name: `call_open` INDEX `number_close` NAME `name_close` ARGUMENTS `call_close`; where
    `numbered` is set, behind it: `call_open` NAME `numbered` INDEX `name_close` ARGUMENTS `call_close`.

    `arguments` tells how ARGUMENTS are written (a call without any: an empty object, or nothing between the two
    literals). `bare` calls have no marker and count only as the first thing of the answer.

    `text_open` and `text_close` stand around an answer in plain text, `after_thought` between the closing tag of a
    thought and whatever follows it, call or text; all three are '' for most families.
    """

    opener: str = ""
    call_open: str
    number_close: str = ""
    numbered: str = ""
    name_close: str
    arguments: ArgumentForm
    call_close: str
    separator: str = "\n"
    closer: str = ""
    bare: bool = False
    after_thought: str = ""
    text_open: str = ""
    text_close: str = ""


class JsonCalls(Struct, frozen=True, kw_only=True):
    """A call is one JSON object. The first key of each kind to appear counts; other keys are ignored."""

    name_keys: tuple[str, ...] = ("name",)
    argument_keys: tuple[str, ...] = ("arguments", "parameters")


class HeadedCalls(Struct, frozen=True, kw_only=True):
    """A call is a head with the name in it, then the arguments as one value.

    `head` is a regular expression for all text before the value, with a group `name`; the value begins with the
    first `opens` character. `kind` is how it is written; strings of a `quoted` one stand between `quote` marks.
    `letters` is a regular expression for the characters a head consists of; others end the hope for a call. `within`
    are the markers a head may contain.
    """

    head: str
    within: tuple[str, ...] = ()
    letters: str = r"[\s\w.\-/:<>|\[\]]"
    opens: str = "{"
    kind: ValueKind = "json"
    quote: str = ""


class TaggedCalls(Struct, frozen=True, kw_only=True):
    """A call is a head with the name, arguments between tags, and a closing tag. Blanks may stand between these.

    `open` NAME `name_close` begins it ('' for `open`: the name begins at once; '' for `name_close`: it ends with the
    line, the first argument or the block). For each argument follow `key_open` KEY, one of `key_closes`, blanks and
    `value_open` where there is one, VALUE and `value_close`; `close` ends the call ('' where the block's end does).

    With each of `key_closes` goes what it says of the value: `string`, `json`, or `schema` when the declared schema
    decides. `framed` values may stand on lines of their own, whose line breaks are not part of them; `cdata` values
    may be XML character data sections.
    """

    open: str
    name_close: str
    key_open: str
    key_closes: tuple[tuple[str, ValueType], ...]
    value_open: str = ""
    value_close: str
    close: str
    framed: bool = False
    cdata: bool = False


class Channels(Struct, frozen=True, kw_only=True):
    """An answer is a sequence of messages: [`start` ROLE] `channel` HEADER `message` BODY `end`.

    The first word of the header names the channel; `thoughts` hold reasoning, all others text, except that a header
    (or ROLE) with a recipient `recipient` NAME makes the body the JSON arguments of a call. Any of `ends` ends a body.
    """

    start: str
    channel: str
    message: str
    constrain: str
    ends: tuple[str, ...]
    thoughts: tuple[str, ...]
    recipient: str
    text_header: str


CallGrammar = JsonCalls | HeadedCalls | TaggedCalls


class ToolFamily(Struct, frozen=True, kw_only=True):
    """A markup.

    `openers` begin a block of calls anywhere in prose and belong to no call; `starts` do the same and are already the
    beginning of the first call; `bare_starts` are the beginning of a call, and `bare_openers` of a block, only as the
    first thing of the answer. All of a row's `openers` and `starts` begin with the same character. Inside a block,
    calls may stand in brackets (`listed`), behind `call_openers`, in front of `call_closers`, with `separators`
    between them; `closer` ends the block ('' when nothing does).

    `think_open` and `think_close` are the family's own thinking tags, '' where the template decides. `text_marks` are
    pairs that may stand around plain text and are no part of it. `others` are grammars that are read as well as
    `calls`, told apart by how a call begins.
    """

    name: str
    form: CallForm
    calls: CallGrammar
    others: tuple[CallGrammar, ...] = ()
    openers: tuple[str, ...] = ()
    starts: tuple[str, ...] = ()
    bare_openers: tuple[str, ...] = ()
    bare_starts: tuple[str, ...] = ()
    listed: bool = False
    call_openers: tuple[str, ...] = ()
    call_closers: tuple[str, ...] = ()
    separators: str = ""
    closer: str = ""
    think_open: str = ""
    think_close: str = ""
    text_marks: tuple[tuple[str, str], ...] = ()
    channels: Channels | None = None

    @property
    def opener(self) -> str:
        """The first marker that begins a block, '' when calls are always bare."""
        return (self.openers + self.starts + ("",))[0]

    @property
    def terminals(self) -> tuple[str, ...]:
        """Every literal that may be one token of a vocabulary, so that it must be seen even where that is a control
        token."""
        channels = self.channels
        in_channels = () if channels is None else (channels.start, channels.channel, channels.message)
        ends = () if channels is None else (channels.constrain, *channels.ends)
        within = [literal for grammar in (self.calls, *self.others) for literal in _terminals(grammar)]
        marks = [mark for pair in self.text_marks for mark in pair]
        blocks = (*self.openers, *self.starts, *self.call_openers, *self.call_closers, self.closer)
        found = (*blocks, *self.bare_openers, *within, *marks, *in_channels, *ends, self.think_open, self.think_close)
        return tuple(dict.fromkeys(text for text in found if text))


def _terminals(grammar: CallGrammar) -> tuple[str, ...]:
    if isinstance(grammar, TaggedCalls):
        closes = (close for close, _ in grammar.key_closes)
        return (grammar.open, grammar.key_open, *closes, grammar.value_open, grammar.value_close, grammar.close)
    return grammar.within if isinstance(grammar, HeadedCalls) else ()
