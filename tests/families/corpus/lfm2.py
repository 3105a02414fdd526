"""Python calls between tokens: LFM2."""

from tests.families.case import OSLO, Case, called
from tests.families.corpus.spelled_json import OSLO as OSLO_JSON
from tests.families.standard import Snippets, saved


def block(body: str) -> str:
    return f"<|tool_call_start|>[{body}]<|tool_call_end|>"


LFM2 = Snippets(
    family="lfm2",
    oslo=block('look(place="Oslo")'),
    both=block("look(place='Oslo'), look(place='Rome', n=2)"),
    nested=block("look(place='x', deep={'a': [1, {'b': []}], 'c': {}}, list=[1.5, 'two', None, True])"),
    special=block(r"""save(body='Tromsø "q" \\ 😀\n한국')"""),
    marks=block("save(body='x <|tool_call_end|> ] )')"),
    marked="x <|tool_call_end|> ] )",
    unknown=block("nope(x=1)"),
    empty=block("look()"),
    more=(
        Case("JSON", block(f'{{"name": "look", "arguments": {OSLO_JSON}}}'), [OSLO]),
        Case("no brackets", "<|tool_call_start|>look(place='Oslo')<|tool_call_end|>", [OSLO]),
        Case("triple quotes", block('save(body="""say "hi"\nnow""")'), [saved('say "hi"\nnow')]),
        Case(
            "tuple and hex",
            block("look(place='x', list=(0x10, 1_000, -2.5e3))"),
            [called("look", '{"place": "x", "list": [16, 1000, -2.5e3]}')],
        ),
        Case("bracket missing", "<|tool_call_start|>[look(place='Oslo'<|tool_call_end|>", [OSLO], ("close",)),
    ),
)
ALL = [LFM2]
