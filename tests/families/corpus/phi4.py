"""A JSON array between tool_call tokens, or behind functools: Phi-4."""

from tests.families.case import OSLO, ROME, Case, text
from tests.families.corpus.spelled_json import NESTED, SPECIAL
from tests.families.corpus.spelled_json import OSLO as OSLO_JSON
from tests.families.corpus.spelled_json import ROME as ROME_JSON
from tests.families.standard import Snippets


def call(name: str, arguments: str) -> str:
    return f'{{"name": "{name}", "arguments": {arguments}}}'


def block(*calls: str) -> str:
    return f"<|tool_call|>[{', '.join(calls)}]<|/tool_call|>"


PHI4 = Snippets(
    family="phi4",
    oslo=block(call("look", OSLO_JSON)),
    both=block(call("look", OSLO_JSON), call("look", ROME_JSON)),
    nested=block(call("look", NESTED)),
    special=block(call("save", SPECIAL)),
    marks=block(call("save", '{"body": "x <|/tool_call|> ]"}')),
    marked="x <|/tool_call|> ]",
    unknown=block(call("nope", '{"x": 1}')),
    empty=block(call("look", "{}")),
    more=(
        Case("functools", f"functools[{call('look', OSLO_JSON)}, {call('look', ROME_JSON)}]", [OSLO, ROME]),
        Case("functools in prose", "The functools module.", [text("The functools module.")]),
        Case("one object", f"<|tool_call|>{call('look', OSLO_JSON)}<|/tool_call|>", [OSLO]),
        Case("bracket missing", f"<|tool_call|>[{call('look', OSLO_JSON)}<|/tool_call|>", [OSLO]),
    ),
)
ALL = [PHI4]
