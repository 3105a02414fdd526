"""Calls with bare keys and quote marks of their own: FunctionGemma and Gemma 4."""

from tests.families.case import OSLO, Case, called, text
from tests.families.standard import Snippets


def old(name: str, body: str) -> str:
    return f"<start_function_call>call:{name}{{{body}}}<end_function_call>"


def new(name: str, body: str) -> str:
    return f"<|tool_call>call:{name}{{{body}}}<tool_call|>"


Q = '<|"|>'
FUNCTION_GEMMA = Snippets(
    family="function_gemma",
    oslo=old("look", "place:<escape>Oslo<escape>"),
    both=old("look", "place:<escape>Oslo<escape>") + old("look", "place:<escape>Rome<escape>,n:2"),
    nested=old("look", "place:<escape>x<escape>,deep:{a:[1,{b:[]}],c:{}},list:[1.5,<escape>two<escape>,null,true]"),
    special=old("save", 'body:<escape>Tromsø "q" \\ 😀\n한국<escape>'),
    marks=old("save", "body:<escape>x <end_function_call> }<escape>"),
    marked="x <end_function_call> }",
    unknown=old("nope", "x:1"),
    empty=old("look", ""),
    more=(
        Case("bare text", old("look", "place:Oslo"), [OSLO]),
        Case("digits for a string", old("set_form", "zip:02134,n:5"), [called("set_form", '{"zip": "02134", "n": 5}')]),
        Case(
            "brace missing",
            "<start_function_call>call:look{place:<escape>Oslo<escape><end_function_call>",
            [OSLO],
            ("close",),
        ),
    ),
)
GEMMA4 = Snippets(
    family="gemma4",
    think=("<|channel>thought\n", "<channel|>"),
    oslo=new("look", f"place:{Q}Oslo{Q}"),
    both=new("look", f"place:{Q}Oslo{Q}") + new("look", f"place:{Q}Rome{Q},n:2"),
    nested=new("look", f"place:{Q}x{Q},deep:{{a:[1,{{b:[]}}],c:{{}}}},list:[1.5,{Q}two{Q},null,true]"),
    special=new("save", f'body:{Q}Tromsø "q" \\ 😀\n한국{Q}'),
    marks=new("save", f"body:{Q}x <tool_call|> }} ,{Q}"),
    marked="x <tool_call|> } ,",
    unknown=new("nope", "x:1"),
    empty=new("look", ""),
    more=(
        Case("JSON strings", new("look", 'place:"Oslo"'), [OSLO]),
        Case("quoted keys", new("look", f"{Q}place{Q}:{Q}Oslo{Q}"), [OSLO]),
        Case("brace missing", f"<|tool_call>call:look{{place:{Q}Oslo{Q}<tool_call|>", [OSLO], ("close",)),
        Case("hopeless", "<|tool_call>what now<tool_call|>", [text("<|tool_call>what now<tool_call|>")], ("raw",)),
    ),
)
ALL = [FUNCTION_GEMMA, GEMMA4]
