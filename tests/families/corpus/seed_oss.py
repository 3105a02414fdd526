"""Function and parameter tags in tags of its own: Seed-OSS."""

from tests.families.corpus.spelled_json import MARKED
from tests.families.standard import Snippets


def call(name: str, *pairs: tuple[str, str]) -> str:
    body = "".join(f"<parameter={key}>{value}</parameter>\n" for key, value in pairs)
    return f"<seed:tool_call>\n<function={name}>\n{body}</function>\n</seed:tool_call>"


SEED = Snippets(
    family="seed_oss",
    think=("<seed:think>", "</seed:think>"),
    oslo=call("look", ("place", "Oslo")),
    both=f"{call('look', ('place', 'Oslo'))}\n{call('look', ('place', 'Rome'), ('n', '2'))}",
    nested=call(
        "look", ("place", "x"), ("deep", '{"a": [1, {"b": []}], "c": {}}'), ("list", '[1.5, "two", null, true]')
    ),
    special=call("save", ("body", 'Tromsø "q" \\ 😀\n한국')),
    marks=call("save", ("body", MARKED)),
    marked=MARKED,
    unknown=call("nope", ("x", "1")),
    empty=call("look"),
)
ALL = [SEED]
