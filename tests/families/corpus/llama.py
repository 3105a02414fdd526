"""Llama 3: JSON with parameters, or Python calls; both bare or behind a token."""

from tests.families.case import OSLO, ROME, Case, called, text
from tests.families.corpus.spelled_json import MARKED, NESTED, SPECIAL
from tests.families.corpus.spelled_json import OSLO as OSLO_JSON
from tests.families.corpus.spelled_json import ROME as ROME_JSON
from tests.families.standard import Snippets


def call(name: str, arguments: str) -> str:
    return f'{{"name": "{name}", "parameters": {arguments}}}'


PY_NESTED = "[look(place='x', deep={'a': [1, {'b': []}], 'c': {}}, list=[1.5, 'two', None, True])]"
PY_SPECIAL = r"""[save(body='Tromsø "q" \\ 😀\n한국')]"""

LLAMA3_JSON = Snippets(
    family="llama3_json",
    bare=True,
    fenced=False,
    oslo=call("look", OSLO_JSON),
    both=f"{call('look', OSLO_JSON)}; {call('look', ROME_JSON)}",
    nested=call("look", NESTED),
    special=call("save", SPECIAL),
    marks=call("save", f'{{"body": "{MARKED}"}}'),
    marked=MARKED,
    unknown=call("nope", '{"x": 1}'),
    empty=call("look", "{}"),
    more=(
        Case("token", f"Well. <|python_tag|>{call('look', OSLO_JSON)}", [text("Well."), OSLO]),
        Case("type first", f'{{"type": "function", "name": "look", "parameters": {OSLO_JSON}}}', [OSLO]),
        Case("Python calls", "[look(place='Oslo'), look(place=\"Rome\", n=2)]", [OSLO, ROME]),
        Case("a list in prose", "[1] says so.", [text("[1] says so.")], ("raw",)),
        Case("single quotes", "{'name': 'look', 'parameters': {'place': 'Oslo'}}", [OSLO], ("quotes",)),
        Case("strings for arguments", r'{"name": "look", "parameters": "{\"place\": \"Oslo\"}"}', [OSLO]),
    ),
)
LLAMA_PYTHONIC = Snippets(
    family="llama_pythonic",
    bare=True,
    fenced=False,
    oslo="[look(place='Oslo')]",
    both='[look(place="Oslo"), look(place="Rome", n=2)]',
    nested=PY_NESTED,
    special=PY_SPECIAL,
    marks="[save(body='a </tool_call> [b] (c), d)')]",
    marked="a </tool_call> [b] (c), d)",
    unknown="[nope(x=1)]",
    empty="[look()]",
    more=(
        Case("tokens", "So <|python_start|>[look(place='Oslo')]<|python_end|> ok", [text("So"), OSLO, text("ok")]),
        Case("positional", "[look('Rome', 2)]", [ROME], ("names",)),
        Case("bare word", "[look(place=Oslo)]", [OSLO]),
        Case(
            "typed by schema",
            "[set_form(zip=02134, n=5, ok=True, tags=['x'])]",
            [called("set_form", '{"zip": "02134", "n": 5, "ok": true, "tags": ["x"]}')],
        ),
        Case("bracket missing", "[look(place='Oslo'", [OSLO], ("close",)),
        Case("JSON", f"[{call('look', OSLO_JSON)}]", [OSLO]),
        Case("hopeless", "[look(place=other(1))]", [called("look", '{"place": "other"'), text("(1))]")], ("raw",)),
        Case("a link", "[look](there)", [text("[look](there)")], ("raw",)),
    ),
)
ALL = [LLAMA3_JSON, LLAMA_PYTHONIC]
