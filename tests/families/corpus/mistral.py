"""A token, then name and arguments or a JSON array: Mistral."""

from tests.families.case import OSLO, ROME, Case, text
from tests.families.corpus.spelled_json import MARKED, NESTED, SPECIAL
from tests.families.corpus.spelled_json import OSLO as OSLO_JSON
from tests.families.corpus.spelled_json import ROME as ROME_JSON
from tests.families.standard import Snippets


def listed(name: str, arguments: str) -> str:
    return f'{{"name": "{name}", "arguments": {arguments}, "id": "abcdefghi"}}'


def block(*calls: str) -> str:
    return f"[TOOL_CALLS][{', '.join(calls)}]"


def call(name: str, arguments: str) -> str:
    return f"[TOOL_CALLS]{name}[ARGS]{arguments}"


MISTRAL = Snippets(
    family="mistral",
    think=("[THINK]", "[/THINK]"),
    oslo=call("look", OSLO_JSON),
    both=call("look", OSLO_JSON) + call("look", ROME_JSON),
    nested=call("look", NESTED),
    special=call("save", SPECIAL),
    marks=call("save", f'{{"body": "{MARKED}"}}'),
    marked=MARKED,
    unknown=call("nope", '{"x": 1}'),
    empty=call("look", "{}"),
    more=(
        Case("no ARGS", f"[TOOL_CALLS]look{OSLO_JSON}", [OSLO]),
        Case("with an id", f"[TOOL_CALLS]look[CALL_ID]abc123def[ARGS]{OSLO_JSON}", [OSLO]),
        Case("array form", block(listed("look", OSLO_JSON), listed("look", ROME_JSON)), [OSLO, ROME]),
        Case("single quotes", "[TOOL_CALLS]look[ARGS]{'place': 'Oslo'}", [OSLO], ("quotes",)),
        Case("braces not closed", '[TOOL_CALLS]look[ARGS]{"place": "Oslo"', [OSLO], ("close",)),
        Case("token alone", "[TOOL_CALLS] what?", [text("[TOOL_CALLS] what?")], ("raw",)),
    ),
)
MISTRAL_LIST = Snippets(
    family="mistral_list",
    oslo=block(listed("look", OSLO_JSON)),
    both=block(listed("look", OSLO_JSON), listed("look", ROME_JSON)),
    nested=block(listed("look", NESTED)),
    special=block(listed("save", SPECIAL)),
    marks=block(listed("save", f'{{"body": "{MARKED}"}}')),
    marked=MARKED,
    unknown=block(listed("nope", '{"x": 1}')),
    empty=block(listed("look", "{}")),
    more=(
        Case("blank behind the token", f"[TOOL_CALLS] [{listed('look', OSLO_JSON)}]", [OSLO]),
        Case("head form", call("look", OSLO_JSON), [OSLO]),
        Case("bracket missing", f"[TOOL_CALLS][{listed('look', OSLO_JSON)}", [OSLO]),
    ),
)
ALL = [MISTRAL, MISTRAL_LIST]
