"""JSON objects without any marker."""

from tests.families.case import OSLO, ROME, Case, text
from tests.families.corpus.spelled_json import MARKED, NESTED, SPECIAL
from tests.families.corpus.spelled_json import OSLO as OSLO_JSON
from tests.families.corpus.spelled_json import ROME as ROME_JSON
from tests.families.standard import Snippets


def call(name: str, arguments: str) -> str:
    return f'{{"name": "{name}", "arguments": {arguments}}}'


PLAIN = Snippets(
    family="json",
    bare=True,
    fenced=False,
    oslo=call("look", OSLO_JSON),
    both=f"{call('look', OSLO_JSON)}\n{call('look', ROME_JSON)}",
    nested=call("look", NESTED),
    special=call("save", SPECIAL),
    marks=call("save", f'{{"body": "{MARKED}"}}'),
    marked=MARKED,
    unknown=call("nope", '{"x": 1}'),
    empty=call("look", "{}"),
    more=(
        Case("fence", f"```json\n{call('look', OSLO_JSON)}\n```", [OSLO]),
        Case("array", f"[{call('look', OSLO_JSON)}, {call('look', ROME_JSON)}]", [OSLO, ROME]),
        Case(
            "an answer in JSON",
            '{"answer": {"name": "look", "arguments": {}}}',
            [text('{"answer": {"name": "look", "arguments": {}}}')],
            ("raw",),
        ),
        Case("an array of numbers", "[1, 2]", [text("[1, 2]")], ("raw",)),
        Case("later is text", f"So: {call('look', OSLO_JSON)}", [text(f"So: {call('look', OSLO_JSON)}")]),
        Case("name without arguments", '{"name": "Bob", "age": 3}', [text('{"name": "Bob", "age": 3}')], ("raw",)),
        Case("single quotes", "{'name': 'look', 'arguments': {'place': 'Oslo'}}", [OSLO], ("quotes",)),
    ),
)
ALL = [PLAIN]
