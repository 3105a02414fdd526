"""Actions, thoughts and responses between tokens: Cohere Command."""

from tests.families.case import Case, text, thought
from tests.families.corpus.spelled_json import NESTED, SPECIAL
from tests.families.corpus.spelled_json import OSLO as OSLO_JSON
from tests.families.corpus.spelled_json import ROME as ROME_JSON
from tests.families.standard import Snippets


def call(name: str, arguments: str, number: int = 0) -> str:
    return f'    {{"tool_call_id": "{number}", "tool_name": "{name}", "parameters": {arguments}}}'


def block(*calls: str) -> str:
    body = ",\n".join(calls)
    return f"<|START_ACTION|>[\n{body}\n]<|END_ACTION|>"


COMMAND = Snippets(
    family="command",
    think=("<|START_THINKING|>", "<|END_THINKING|>"),
    oslo=block(call("look", OSLO_JSON)),
    both=block(call("look", OSLO_JSON), call("look", ROME_JSON, 1)),
    nested=block(call("look", NESTED)),
    special=block(call("save", SPECIAL)),
    marks=block(call("save", '{"body": "x <|END_ACTION|> ]"}')),
    marked="x <|END_ACTION|> ]",
    unknown=block(call("nope", '{"x": 1}')),
    empty=block(call("look", "{}")),
    more=(
        Case("response", "<|START_RESPONSE|>Hello.<|END_RESPONSE|>", [text("Hello.")]),
        Case(
            "thought and response",
            "<|START_THINKING|>so<|END_THINKING|><|START_RESPONSE|>Hi<|END_RESPONSE|>",
            [thought("so"), text("Hi")],
        ),
        Case("response not closed", "<|START_RESPONSE|>Hello.", [text("Hello.")]),
    ),
)
ALL = [COMMAND]
