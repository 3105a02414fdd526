"""Fullwidth sentinels: DeepSeek V3, R1, V3.1, V3.2."""

from tests.families.case import EMPTY, OSLO, Case, called, text
from tests.families.corpus.spelled_json import NESTED, SPECIAL
from tests.families.corpus.spelled_json import OSLO as OSLO_JSON
from tests.families.corpus.spelled_json import ROME as ROME_JSON
from tests.families.standard import Snippets

BEGIN, END = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"
ONE, OVER, SEP = "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>", "<｜tool▁sep｜>"


def fenced(name: str, arguments: str) -> str:
    return f"{ONE}function{SEP}{name}\n```json\n{arguments}\n```{OVER}"


def plain(name: str, arguments: str) -> str:
    return f"{ONE}{name}{SEP}{arguments}{OVER}"


def block(*calls: str) -> str:
    return BEGIN + "\n".join(calls) + END


def tags(name: str, *pairs: tuple[str, str, str]) -> str:
    body = "".join(
        f'<｜DSML｜parameter name="{key}" string="{kind}">{value}</｜DSML｜parameter>\n' for key, kind, value in pairs
    )
    return f'<｜DSML｜invoke name="{name}">\n{body}</｜DSML｜invoke>\n'


def dsml(*calls: str) -> str:
    return f"<｜DSML｜function_calls>\n{''.join(calls)}</｜DSML｜function_calls>"


V3 = Snippets(
    family="deepseek_v3",
    oslo=block(fenced("look", OSLO_JSON)),
    both=block(fenced("look", OSLO_JSON), fenced("look", ROME_JSON)),
    nested=block(fenced("look", NESTED)),
    special=block(fenced("save", SPECIAL)),
    marks=block(fenced("save", '{"body": "x\\n```<｜tool▁call▁end｜> y"}')),
    marked="x\n```<｜tool▁call▁end｜> y",
    unknown=block(fenced("nope", '{"x": 1}')),
    empty=block(fenced("look", "{}")),
    more=(
        Case("no outer sentinel", fenced("look", OSLO_JSON), [OSLO]),
        Case("plain form", block(plain("look", OSLO_JSON)), [OSLO]),
        Case("single quotes", block(fenced("look", "{'place': 'Oslo'}")), [OSLO], ("quotes",)),
        Case("end missing", f"{BEGIN}{ONE}function{SEP}look\n```json\n{OSLO_JSON}\n```", [OSLO]),
    ),
)
V31 = Snippets(
    family="deepseek_v31",
    oslo=block(plain("look", OSLO_JSON)),
    both=BEGIN + plain("look", OSLO_JSON) + plain("look", ROME_JSON) + END,
    nested=block(plain("look", NESTED)),
    special=block(plain("save", SPECIAL)),
    marks=block(plain("save", '{"body": "x <｜tool▁call▁end｜> y"}')),
    marked="x <｜tool▁call▁end｜> y",
    unknown=block(plain("nope", '{"x": 1}')),
    empty=block(plain("look", "{}")),
    more=(
        Case("string not closed", f'{BEGIN}{ONE}look{SEP}{{"place": "Oslo{OVER}{END}', [OSLO], ("close",)),
        Case("nothing for arguments", f"{BEGIN}{ONE}look{SEP}{OVER}{END}", [EMPTY]),
        Case(
            "second tool unknown",
            BEGIN + plain("look", OSLO_JSON) + plain("nope", "{}") + END,
            [OSLO, text(plain("nope", "{}") + END)],
            ("raw",),
        ),
    ),
)
V32 = Snippets(
    family="deepseek_v32",
    oslo=dsml(tags("look", ("place", "true", "Oslo"))),
    both=dsml(tags("look", ("place", "true", "Oslo")), tags("look", ("place", "true", "Rome"), ("n", "false", "2"))),
    nested=dsml(
        tags(
            "look",
            ("place", "true", "x"),
            ("deep", "false", '{"a": [1, {"b": []}], "c": {}}'),
            ("list", "false", '[1.5, "two", null, true]'),
        )
    ),
    special=dsml(tags("save", ("body", "true", 'Tromsø "q" \\ 😀\n한국'))),
    marks=dsml(tags("save", ("body", "true", "x </｜DSML｜parameter> y"))),
    marked="x </｜DSML｜parameter> y",
    unknown=dsml(tags("nope", ("x", "false", "1"))),
    empty=dsml(tags("look")),
    more=(
        Case(
            "declared by the mark",
            dsml(tags("look", ("place", "true", "5"), ("n", "false", "5"))),
            [called("look", '{"place": "5", "n": 5}')],
        ),
    ),
)
ALL = [V3, V31, V32]
