"""Section and call sentinels with numbered names: Kimi K2."""

from tests.families.case import EMPTY, OSLO, Case
from tests.families.corpus.spelled_json import NESTED, SPECIAL
from tests.families.corpus.spelled_json import OSLO as OSLO_JSON
from tests.families.corpus.spelled_json import ROME as ROME_JSON
from tests.families.standard import Snippets


def call(name: str, number: int, arguments: str) -> str:
    return f"<|tool_call_begin|>functions.{name}:{number}<|tool_call_argument_begin|>{arguments}<|tool_call_end|>"


def block(*calls: str) -> str:
    return f"<|tool_calls_section_begin|>{''.join(calls)}<|tool_calls_section_end|>"


KIMI = Snippets(
    family="kimi_k2",
    oslo=block(call("look", 0, OSLO_JSON)),
    both=block(call("look", 0, OSLO_JSON), call("look", 1, ROME_JSON)),
    nested=block(call("look", 0, NESTED)),
    special=block(call("save", 0, SPECIAL)),
    marks=block(call("save", 0, '{"body": "x <|tool_call_end|> y"}')),
    marked="x <|tool_call_end|> y",
    unknown=block(call("nope", 0, '{"x": 1}')),
    empty=block(call("look", 0, "{}")),
    more=(
        Case("no section", call("look", 0, OSLO_JSON), [OSLO]),
        Case(
            "no prefix",
            f"<|tool_calls_section_begin|><|tool_call_begin|>look<|tool_call_argument_begin|>{OSLO_JSON}<|tool_call_end|><|tool_calls_section_end|>",
            [OSLO],
        ),
        Case("nothing for arguments", block(call("look", 3, "")), [EMPTY]),
        Case("brace missing", block(call("look", 0, '{"place": "Oslo"')), [OSLO], ("close",)),
    ),
)
ALL = [KIMI]
