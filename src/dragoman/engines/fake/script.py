"""The script of the fake engine: which prompt gets which answer, with which faults. Data only; nothing runs here.

A script file is JSON of the shape of `FakeScript`, for example::

    {"rules": [{"match": "weather", "pieces": ["<think>", "hm", "</think>", "Rain", {"bytes": [226, 152]}, " soon"]},
               {"regex": "loop$", "pieces": ["la "], "repeat": true, "delay": 0.02}]}
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct, field

from dragoman.core.errors import EngineFailure
from dragoman.engines.fake.template import FAKE_TEMPLATE

Byte = Annotated[int, Meta(ge=0, le=255)]
Seconds = Annotated[float, Meta(ge=0)]
Count = Annotated[int, Meta(ge=0)]
Text = Annotated[str, Meta(min_length=1)]
Positive = Annotated[int, Meta(ge=1)]


class ScriptedPiece(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One token with details. Exactly one of `text` and `bytes` (`raw` in Python) says what it stands for.

    `text` that spells a control token or tag is that token; `bytes` are always plain text. `logprob` and `top` are
    reported when a request wants log probabilities (natural logarithm, `top` best first); without them they come
    from the toy logits. `delay` replaces the rule's seconds for this token.
    """

    text: str | None = None
    raw: tuple[Byte, ...] | None = field(default=None, name="bytes")
    logprob: float | None = None
    top: tuple[tuple[str, float], ...] = ()
    delay: Seconds | None = None

    def __post_init__(self) -> None:
        if (self.text is None) == (self.raw is None):
            raise ValueError("a piece needs exactly one of 'text' and 'bytes'")

    @property
    def content(self) -> bytes:
        """The bytes this piece adds to the text."""
        return bytes(self.raw) if self.raw is not None else (self.text or "").encode("utf-8", "replace")


Piece = str | ScriptedPiece


class FakeRule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What happens to a prompt. The first rule whose condition holds is taken.

    Condition, on the decoded prompt with special tokens spelled out: `match` is contained, or `regex` is found (`.`
    matches newlines); neither: every prompt.

    Answer: `source` 'pieces' emits `pieces`, one token each; 'echo' repeats the last user turn byte by byte;
    'logits' samples from the toy logits. `then` tells what follows the pieces: 'eos' or 'im_end' emit that token;
    'length' emits `.` until a limit ends the answer. `repeat` loops the pieces for ever instead. Where a request
    forbids the end token (ignore_eos, min_tokens, a bias of minus infinity), `.` is emitted in its place.

    Time, in seconds: `delay` before each token, `prefill_delay` in each prefill call. A step of several rows takes as
    long as its slowest row.

    Faults: after that many tokens `fail_after` ends this row with an error, `raise_after` lets the whole step raise,
    `exit_after` ends the process at once with status 70. `open_error` and `prefill_error` raise there. `error` is the
    message used.
    """

    match: str | None = None
    regex: str | None = None
    source: Literal["pieces", "echo", "logits"] = "pieces"
    pieces: tuple[Piece, ...] = ()
    then: Literal["eos", "im_end", "length"] = "eos"
    repeat: bool = False
    delay: Seconds | None = None
    prefill_delay: Seconds | None = None
    fail_after: Count | None = None
    raise_after: Count | None = None
    exit_after: Count | None = None
    open_error: bool = False
    prefill_error: bool = False
    error: str = "scripted failure"

    def __post_init__(self) -> None:
        if self.match is not None and self.regex is not None:
            raise ValueError("a rule has 'match' or 'regex', not both")
        if self.pieces and self.source != "pieces":
            raise ValueError(f"a rule with source '{self.source}' takes no pieces")
        if self.repeat and not self.pieces:
            raise ValueError("a rule that repeats needs pieces")
        if self.regex is not None:
            try:
                re.compile(self.regex)
            except re.error as error:
                raise ValueError(f"the regex {self.regex!r} is not valid: {error}") from None

    def holds(self, prompt: str) -> bool:
        """Whether this rule is about that prompt text."""
        if self.regex is not None:
            return re.search(self.regex, prompt, re.DOTALL) is not None
        return self.match is None or self.match in prompt


class FakeScript(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A whole fake model.

    `default` answers prompts no rule is about. `delay` and `prefill_delay` apply to rules that have none.
    `control_tokens` are further control tokens of the vocabulary. `sampling` narrows the sampling fields the engine
    says it honours. `load_delay` seconds pass in load; `load_error` is the sentence load fails with. `snapshots` tells
    whether a row's state can be kept, `trimmable` whether it can be cut; each token of state weighs `token_bytes`.
    `grammar` lets requests constrain their answers: where a piece is not allowed, the toy logits choose what is.
    """

    rules: tuple[FakeRule, ...] = ()
    default: Literal["echo", "logits"] = "echo"
    context_length: Positive = 8192
    lanes: Positive = 4
    max_logprobs: Count | None = 20
    chat_template: str = FAKE_TEMPLATE
    control_tokens: tuple[Text, ...] = ()
    sampling: tuple[str, ...] | None = None
    delay: Seconds = 0.0
    prefill_delay: Seconds = 0.0
    load_delay: Seconds = 0.0
    load_error: str | None = None
    snapshots: bool = True
    trimmable: bool = True
    token_bytes: Count = 64
    grammar: bool = False

    def rule_for(self, prompt: str) -> FakeRule:
        """The first rule that holds for the prompt text, else the default answer as a rule."""
        return next((rule for rule in self.rules if rule.holds(prompt)), FakeRule(source=self.default))


def load_script(path: Path) -> FakeScript:
    """The script in a JSON file. Raises EngineFailure naming the file and the fault."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=FakeScript)
    except OSError as error:
        raise EngineFailure(f"The script '{path}' cannot be read: {error.strerror or error}.") from error
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise EngineFailure(f"The script '{path}' is not valid: {error}.") from error
