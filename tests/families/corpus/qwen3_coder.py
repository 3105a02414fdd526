"""Function and parameter tags: Qwen3-Coder, Qwen3.5."""

from tests.families.case import EMPTY, OSLO, ROME, Case, called, text
from tests.families.corpus.spelled_json import MARKED
from tests.families.corpus.spelled_json import OSLO as OSLO_JSON
from tests.families.standard import Snippets, saved


def call(name: str, *pairs: tuple[str, str]) -> str:
    body = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in pairs)
    return f"<tool_call>\n<function={name}>\n{body}</function>\n</tool_call>"


TYPES = (
    ("zip", "02134"),
    ("n", "5"),
    ("ok", "True"),
    ("tags", '["x"]'),
    ("note", "null"),
    ("size", "7"),
    ("free", "9"),
)
TYPED = '{"zip": "02134", "n": 5, "ok": true, "tags": ["x"], "note": null, "size": 7, "free": "9"}'
OTHERS = (
    ("zip", "true"),
    ("n", "None"),
    ("ok", "maybe"),
    ("tags", "['x', True]"),
    ("note", "nullable"),
    ("size", "02134"),
)
OTHER = '{"zip": "true", "n": null, "ok": "maybe", "tags": ["x", true], "note": "nullable", "size": "02134"}'
CODE = "  def f():\n    return '</function>'\n"

QWEN = Snippets(
    family="qwen3_coder",
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
    more=(
        Case("typed by schema", call("set_form", *TYPES), [called("set_form", TYPED)]),
        Case("what does not fit its type", call("set_form", *OTHERS), [called("set_form", OTHER)]),
        Case("indentation is kept", call("save", ("body", CODE)), [saved(CODE)]),
        Case("entities are kept", call("save", ("body", "a &lt; b &amp;")), [saved("a &lt; b &amp;")]),
        Case("no outer tag", "<function=look>\n<parameter=place>\nOslo\n</parameter>\n</function>", [OSLO]),
        Case(
            "all on one line",
            "<tool_call><function=look><parameter=place>Oslo</parameter></function></tool_call>",
            [OSLO],
        ),
        Case(
            "function not closed",
            "<tool_call>\n<function=look>\n<parameter=place>\nOslo\n</parameter>\n</tool_call>",
            [OSLO],
            ("close",),
        ),
        Case(
            "parameter not closed",
            "<function=look>\n<parameter=place>\nRome\n<parameter=n>\n2\n</function>\n</tool_call>",
            [ROME],
            ("close",),
        ),
        Case("nothing closed", "<tool_call>\n<function=look>\n<parameter=place>\nOslo\n", [OSLO], ("close",)),
        Case("twice the same", call("look", ("place", "Oslo"), ("place", "Rome")), [OSLO], ("names",)),
        Case(
            "two functions in a block",
            "<tool_call>\n<function=look>\n</function>\n<function=look>\n</function>\n</tool_call>",
            [EMPTY, EMPTY],
        ),
        Case("JSON in the block", f'<tool_call>{{"name": "look", "arguments": {OSLO_JSON}}}</tool_call>', [OSLO]),
        Case("tag named in prose", "Use <function=look> here.", [text("Use <function=look> here.")], ("raw",)),
    ),
)
ALL = [QWEN]
