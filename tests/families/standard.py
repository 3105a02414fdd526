"""The cases every family has, made of the calls its own file spells out."""

from __future__ import annotations

from msgspec import Struct

from tests.families.case import EMPTY, OSLO, ROME, Case, Part, called, text, thought

NESTED = called("look", '{"place": "x", "deep": {"a": [1, {"b": []}], "c": {}}, "list": [1.5, "two", null, true]}')
SPECIAL = 'Tromsø "q" \\ 😀\n한국'
MARKED = "a </parameter> b </tool_call> c <tool_call> [TOOL_CALLS] d ]"


class Snippets(Struct, frozen=True, kw_only=True):
    """A family's own spelling of the same calls: `look` with Oslo, with Rome and n=2, both in one answer, NESTED,
    `save` with the SPECIAL and the `marked` text, an undeclared `nope`, and `look` without arguments. `think` are its
    tags, `say` what stands before text behind them; `bare` families have no marker."""

    family: str
    oslo: str
    both: str
    nested: str
    special: str
    marks: str
    marked: str
    unknown: str
    empty: str
    think: tuple[str, str] = ("<think>", "</think>")
    say: str = ""
    unknown_text: str = ""
    bare: bool = False
    fenced: bool = True
    more: tuple[Case, ...] = ()


def cases(of: Snippets) -> list[Case]:
    opens, closes = of.think
    found = [
        Case("one call", of.oslo, [OSLO]),
        Case("parallel calls", of.both, [OSLO, ROME]),
        Case("text behind", f"{of.oslo}\n\nDone.", [OSLO, text("Done.")]),
        Case("blanks around", f"\n {of.oslo} \n", [OSLO]),
        Case("thought before", f"{opens}so\n{closes}\n\n{of.oslo}", [thought("so"), OSLO]),
        Case("nested", of.nested, [NESTED]),
        Case("unicode and escapes", of.special, [saved(SPECIAL)]),
        Case("markers in an argument", of.marks, [saved(of.marked)]),
        Case("unknown tool", of.unknown, [text(of.unknown_text or of.unknown)], ("raw",)),
        Case("no arguments", of.empty, [EMPTY]),
        Case("plain words", "a < b [c] {d} `e` (f)\n", [text("a < b [c] {d} `e` (f)\n")]),
        Case("thought and text", f"{opens}hm{closes}{of.say}Hello.", [thought("hm"), text("Hello.")]),
    ]
    if not of.bare:
        found += [
            Case("text before", f"Let me look.\n{of.oslo}", [text("Let me look."), OSLO]),
            Case("text on both sides", f"Så 😀 {of.both} end", [text("Så 😀"), OSLO, ROME, text("end")]),
        ]
    if of.fenced:
        quoted = f"Write:\n```\n{of.oslo}\n```\nso."
        found.append(Case("markup in a code block", quoted, [text(quoted)]))
    return [*found, *of.more]


def saved(body: str) -> Part:
    escaped = body.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return called("save", f'{{"body": "{escaped}"}}')
