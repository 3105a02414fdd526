"""Function and param elements with CDATA: MiniCPM5."""

from tests.families.case import OSLO, Case, called
from tests.families.standard import Snippets, saved


def call(name: str, *pairs: tuple[str, str]) -> str:
    body = "".join(f'<param name="{key}">{value}</param>' for key, value in pairs)
    return f'<function name="{name}">{body}</function>'


MINICPM = Snippets(
    family="minicpm5",
    oslo=call("look", ("place", "Oslo")),
    both=call("look", ("place", "Oslo")) + "\n" + call("look", ("place", "Rome"), ("n", "2")),
    nested=call(
        "look", ("place", "x"), ("deep", '{"a": [1, {"b": []}], "c": {}}'), ("list", '[1.5, "two", null, true]')
    ),
    special=call("save", ("body", '<![CDATA[Tromsø "q" \\ 😀\n한국]]>')),
    marks=call("save", ("body", "<![CDATA[a </param></function> b ]] c]]>")),
    marked="a </param></function> b ]] c",
    unknown=call("nope", ("x", "1")),
    empty=call("look"),
    more=(
        Case("two sections", call("save", ("body", "<![CDATA[a]]]]><![CDATA[>b]]>")), [saved("a]]>b")]),
        Case("blanks around a section", call("save", ("body", "\n <![CDATA[a]]>\n")), [saved("a")]),
        Case("section for a number", call("look", ("n", "<![CDATA[2]]>")), [called("look", '{"n": 2}')]),
        Case("end of a section inside", call("save", ("body", "<![CDATA[x]]> y]]>")), [saved("x]]> y")]),
        Case("function not closed", '<function name="look"><param name="place">Oslo</param>', [OSLO], ("close",)),
    ),
)
ALL = [MINICPM]
