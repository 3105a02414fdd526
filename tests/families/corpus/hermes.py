"""JSON between tool_call tags: Hermes, Qwen2.5, Qwen3, Granite 4."""

from tests.families.case import OSLO, ROME, Case, called, text, thought
from tests.families.corpus.spelled_json import MARKED, NESTED, SPECIAL
from tests.families.corpus.spelled_json import OSLO as OSLO_JSON
from tests.families.corpus.spelled_json import ROME as ROME_JSON
from tests.families.standard import Snippets


def call(name: str, arguments: str) -> str:
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'


def block(body: str) -> str:
    return f"<tool_call>{body}</tool_call>"


HERMES = Snippets(
    family="hermes",
    oslo=call("look", OSLO_JSON),
    both=f"{call('look', OSLO_JSON)}\n{call('look', ROME_JSON)}",
    nested=call("look", NESTED),
    special=call("save", SPECIAL),
    marks=call("save", f'{{"body": "{MARKED}"}}'),
    marked=MARKED,
    unknown=call("nope", '{"x": 1}'),
    empty=call("look", "{}"),
    more=(
        Case(
            "fence inside", block(f'\n```json\n{{"name": "look", "arguments": {OSLO_JSON}}}\n```\n'), [OSLO], ("fence",)
        ),
        Case("prose inside", block(f'Sure: {{"name": "look", "arguments": {OSLO_JSON}}}'), [OSLO], ("prose",)),
        Case(
            "Python literals",
            block('{"name": "look", "arguments": {"deep": {"a": True, "b": None}}}'),
            [called("look", '{"deep": {"a": true, "b": null}}')],
            ("literals",),
        ),
        Case("trailing commas", block('{"name": "look", "arguments": {"place": "Oslo",},}'), [OSLO], ("commas",)),
        Case("single quotes", block("{'name': 'look', 'arguments': {'place': 'Oslo'}}"), [OSLO], ("quotes",)),
        Case(
            "quote not escaped",
            block('{"name": "save", "arguments": {"body": "say "hi" now"}}'),
            [called("save", r'{"body": "say \"hi\" now"}')],
            ("quotes",),
        ),
        Case("string not closed", block('{"name": "look", "arguments": {"place": "Oslo'), [OSLO], ("close",)),
        Case(
            "string not closed, next call",
            block('{"name": "look", "arguments": {"place": "Oslo') + call("look", ROME_JSON),
            [OSLO, ROME],
            ("escapes", "close"),
        ),
        Case("braces not closed", '<tool_call>{"name": "look", "arguments": {"place": "Oslo"', [OSLO], ("close",)),
        Case(
            "name among the arguments",
            block(f'{{"arguments": {{"name": "look", "arguments": {OSLO_JSON}}}}}'),
            [OSLO],
            ("name",),
        ),
        Case("envelope", block(f'{{"function": {{"name": "look", "arguments": {OSLO_JSON}}}}}'), [OSLO], ("name",)),
        Case(
            "array in the block",
            block(f'[{{"name": "look", "arguments": {OSLO_JSON}}}, {{"name": "look", "arguments": {ROME_JSON}}}]'),
            [OSLO, ROME],
        ),
        Case("tags instead of JSON", block("<function=look><parameter=place>Oslo</parameter></function>"), [OSLO]),
        Case("hopeless", block("look(Oslo)") + "!", [text(block("look(Oslo)") + "!")], ("raw",)),
        Case("open thought", f"so</think>{call('look', OSLO_JSON)}", [thought("so"), OSLO], (), True),
    ),
)
ALL = [HERMES]
