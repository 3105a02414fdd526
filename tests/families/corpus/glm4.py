"""Keys and values in tags of their own: GLM 4.5 to 4.7."""

from tests.families.case import EMPTY, OSLO, Case, called, text
from tests.families.standard import Snippets


def call(name: str, *pairs: tuple[str, str]) -> str:
    body = "".join(f"<arg_key>{key}</arg_key>\n<arg_value>{value}</arg_value>\n" for key, value in pairs)
    return f"<tool_call>{name}\n{body}</tool_call>"


GLM4 = Snippets(
    family="glm4",
    oslo=call("look", ("place", "Oslo")),
    both=f"{call('look', ('place', 'Oslo'))}\n{call('look', ('place', 'Rome'), ('n', '2'))}",
    nested=call(
        "look", ("place", "x"), ("deep", '{"a": [1, {"b": []}], "c": {}}'), ("list", '[1.5, "two", null, true]')
    ),
    special=call("save", ("body", 'Tromsø "q" \\ 😀\n한국')),
    marks=call("save", ("body", "x </arg_value> y </tool_call> z")),
    marked="x </arg_value> y </tool_call> z",
    unknown=call("nope", ("x", "1")),
    empty=call("look"),
    more=(
        Case("one line", "<tool_call>look<arg_key>place</arg_key><arg_value>Oslo</arg_value></tool_call>", [OSLO]),
        Case(
            "typed by schema",
            call("set_form", ("zip", "02134"), ("n", "5"), ("ok", "true")),
            [called("set_form", '{"zip": "02134", "n": 5, "ok": true}')],
        ),
        Case("no line break, no arguments", "<tool_call>look</tool_call>", [EMPTY]),
        Case(
            "prose in the block",
            "<tool_call>I would look there</tool_call>",
            [text("<tool_call>I would look there</tool_call>")],
            ("raw",),
        ),
    ),
)
ALL = [GLM4]
