"""A JSON array behind a tool_call token: Granite 3."""

from tests.families.case import OSLO, Case, text, thought
from tests.families.corpus.spelled_json import MARKED, NESTED, SPECIAL
from tests.families.corpus.spelled_json import OSLO as OSLO_JSON
from tests.families.corpus.spelled_json import ROME as ROME_JSON
from tests.families.standard import Snippets


def call(name: str, arguments: str) -> str:
    return f'{{"name": "{name}", "arguments": {arguments}}}'


def block(*calls: str) -> str:
    return f"<|tool_call|>[{', '.join(calls)}]"


GRANITE = Snippets(
    family="granite",
    oslo=block(call("look", OSLO_JSON)),
    both=block(call("look", OSLO_JSON), call("look", ROME_JSON)),
    nested=block(call("look", NESTED)),
    special=block(call("save", SPECIAL)),
    marks=block(call("save", f'{{"body": "{MARKED}"}}')),
    marked=MARKED,
    unknown=block(call("nope", '{"x": 1}')),
    empty=block(call("look", "{}")),
    more=(
        Case(
            "response marks",
            "<think>so</think>\n<response>Hello <b>you</b>.</response>\n",
            [thought("so"), text("Hello <b>you</b>.")],
        ),
        Case("response mark inside", "<response>a </response> b</response>", [text("a </response> b")]),
        Case("response, then a call", f"<response>a</response>{block(call('look', OSLO_JSON))}", [text("a"), OSLO]),
        Case("mark later is text", "Use <response>.", [text("Use <response>.")]),
        Case("single quotes", block("{'name': 'look', 'arguments': {'place': 'Oslo'}}"), [OSLO], ("quotes",)),
        Case("bracket missing", f"<|tool_call|>[{call('look', OSLO_JSON)}", [OSLO]),
    ),
)
ALL = [GRANITE]
