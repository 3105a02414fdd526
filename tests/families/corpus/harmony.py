# ruff: noqa: E501
"""Channels: GPT-OSS."""

from tests.families.case import EMPTY, OSLO, Case, text, thought
from tests.families.corpus.spelled_json import NESTED, SPECIAL
from tests.families.corpus.spelled_json import OSLO as OSLO_JSON
from tests.families.corpus.spelled_json import ROME as ROME_JSON
from tests.families.standard import Snippets

NEXT = "<|start|>assistant"


def call(name: str, arguments: str) -> str:
    return f"<|channel|>commentary to=functions.{name} <|constrain|>json<|message|>{arguments}<|call|>"


HARMONY = Snippets(
    family="harmony",
    think=("<|channel|>analysis<|message|>", f"<|end|>{NEXT}"),
    say="<|channel|>final<|message|>",
    bare=True,
    fenced=False,
    oslo=call("look", OSLO_JSON),
    both=call("look", OSLO_JSON) + NEXT + call("look", ROME_JSON),
    nested=call("look", NESTED),
    special=call("save", SPECIAL),
    marks=call("save", '{"body": "x </parameter> y"}'),
    marked="x </parameter> y",
    unknown=call("nope", '{"x": 1}'),
    unknown_text=call("nope", '{"x": 1}').removesuffix("<|call|>"),
    empty=call("look", "{}"),
    more=(
        Case(
            "thought, preamble, call",
            f"<|channel|>analysis<|message|>so<|end|>{NEXT}<|channel|>commentary<|message|>Wait.<|end|>{NEXT}{call('look', OSLO_JSON)}",
            [thought("so"), text("Wait."), OSLO],
        ),
        Case("final", "<|channel|>final<|message|>Hello.<|return|>", [text("Hello.")]),
        Case(
            "recipient in the role",
            f" to=functions.look<|channel|>commentary json<|message|>{OSLO_JSON}<|call|>",
            [OSLO],
        ),
        Case("call without an end", f"<|channel|>commentary to=functions.look<|message|>{OSLO_JSON}", [OSLO]),
        Case("nothing for arguments", "<|channel|>commentary to=functions.look<|message|><|call|>", [EMPTY]),
        Case("single quotes", call("look", "{'place': 'Oslo'}"), [OSLO], ("quotes",)),
        Case(
            "two thoughts",
            f"<|channel|>analysis<|message|>a<|end|>{NEXT}<|channel|>analysis<|message|>b<|end|>",
            [thought("a"), thought("b")],
        ),
        Case("no channel at all", "Hello.", [text("Hello.")]),
    ),
)
ALL = [HARMONY]
