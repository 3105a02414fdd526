"""Invoke and parameter elements: MiniMax M2."""

from tests.families.case import OSLO, Case
from tests.families.corpus.spelled_json import MARKED
from tests.families.standard import Snippets


def call(name: str, *pairs: tuple[str, str]) -> str:
    body = "".join(f'<parameter name="{key}">{value}</parameter>\n' for key, value in pairs)
    return f'<invoke name="{name}">\n{body}</invoke>\n'


def block(*calls: str) -> str:
    return f"<minimax:tool_call>\n{''.join(calls)}</minimax:tool_call>"


MINIMAX = Snippets(
    family="minimax_m2",
    oslo=block(call("look", ("place", "Oslo"))),
    both=block(call("look", ("place", "Oslo")), call("look", ("place", "Rome"), ("n", "2"))),
    nested=block(
        call("look", ("place", "x"), ("deep", '{"a": [1, {"b": []}], "c": {}}'), ("list", '[1.5, "two", null, true]'))
    ),
    special=block(call("save", ("body", 'Tromsø "q" \\ 😀\n한국'))),
    marks=block(call("save", ("body", MARKED))),
    marked=MARKED,
    unknown=block(call("nope", ("x", "1"))),
    empty=block(call("look")),
    more=(
        Case("no outer tag", call("look", ("place", "Oslo")), [OSLO]),
        Case("value on its own lines", block(call("look", ("place", "\nOslo\n"))), [OSLO]),
        Case(
            "invoke not closed",
            '<minimax:tool_call>\n<invoke name="look">\n<parameter name="place">Oslo</parameter>\n</minimax:tool_call>',
            [OSLO],
            ("close",),
        ),
    ),
)
ALL = [MINIMAX]
