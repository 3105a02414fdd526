"""A JSON array between TOOLCALL tags: Nemotron."""

from tests.families.case import OSLO, Case
from tests.families.corpus.spelled_json import NESTED, SPECIAL
from tests.families.corpus.spelled_json import OSLO as OSLO_JSON
from tests.families.corpus.spelled_json import ROME as ROME_JSON
from tests.families.standard import Snippets


def call(name: str, arguments: str) -> str:
    return f'{{"name": "{name}", "arguments": {arguments}}}'


def block(*calls: str) -> str:
    return f"<TOOLCALL>[{', '.join(calls)}]</TOOLCALL>"


NEMOTRON = Snippets(
    family="nemotron",
    oslo=block(call("look", OSLO_JSON)),
    both=block(call("look", OSLO_JSON), call("look", ROME_JSON)),
    nested=block(call("look", NESTED)),
    special=block(call("save", SPECIAL)),
    marks=block(call("save", '{"body": "x </TOOLCALL> ]"}')),
    marked="x </TOOLCALL> ]",
    unknown=block(call("nope", '{"x": 1}')),
    empty=block(call("look", "{}")),
    more=(
        Case("no brackets", f"<TOOLCALL>{call('look', OSLO_JSON)}</TOOLCALL>", [OSLO]),
        Case("single quotes", block("{'name': 'look', 'arguments': {'place': 'Oslo'}}"), [OSLO], ("quotes",)),
    ),
)
ALL = [NEMOTRON]
