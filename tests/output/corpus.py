# ruff: noqa: E501
"""Outputs of models with tools `look` and `save` declared, and the parts they are. Data for several test files."""

from __future__ import annotations

from msgspec import Struct

Parts = list[tuple[str, str, str]]


def call(name: str, arguments: str) -> str:
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'


def text(content: str) -> tuple[str, str, str]:
    return ("text", "", content)


def thought(content: str) -> tuple[str, str, str]:
    return ("reasoning", "", content)


def called(name: str, arguments: str) -> tuple[str, str, str]:
    return ("tool_call", name, arguments)


class Output(Struct, frozen=True):
    """What a model wrote, and what it means."""

    name: str
    wrote: str
    parts: Parts
    thinking_open: bool = False


OSLO = '{"place": "Oslo"}'
ROME = '{"place": "Rome", "n": 2}'
NESTED = '{"place": {"a": [1, {"b": []}, "}{"], "c": {}}, "n": -1.5e3}'
ESCAPED = r'{"place": "Troms\u00f8 \ud83d\ude00 \"q\" \\"}'
CLOSERS = '{"body": "a </parameter> b </tool_call> c <tool_call> d </think>"}'
FENCED = f"Write it so:\n```xml\n{call('look', OSLO)}\n```\nDone."
UNKNOWN = call("nope", '{"x": "<tool_call>"}')

CORPUS = [
    Output("plain words", "Hello there, world.\n", [text("Hello there, world.\n")]),
    Output("leading blanks kept", "\n\n  Hi", [text("\n\n  Hi")]),
    Output("only blanks", " \n ", [text(" \n ")]),
    Output("less-than signs", "a < b <t <to <tool <tools> </tool_call>", [text("a < b <t <to <tool <tools> </tool_call>")]),
    Output("thought and text", "<think>\nso\n</think>\n\nHi", [thought("so"), text("Hi")]),
    Output("blank before the thought", "\n<think>x</think>Hi", [thought("x"), text("Hi")]),
    Output("empty thought", "<think>\n\n</think>\n\nHi", [text("Hi")]),
    Output("tags inside a thought", "<think>a <think> <tool_call> </thin</think>b", [thought("a <think> <tool_call> </thin"), text("b")]),
    Output("tag later is text", "Use <think> and </think>.", [text("Use <think> and </think>.")]),
    Output("second thought is text", "<think>a</think><think>b</think>", [thought("a"), text("<think>b</think>")]),
    Output("open thought", "so\n</think>\n\nHi", [thought("so"), text("Hi")], True),
    Output("open thought, tag repeated", "\n<think>\nso</think>Hi", [thought("so"), text("Hi")], True),
    Output("open thought, never closed", "so it goes </thi", [thought("so it goes </thi")], True),
    Output("open thought, closed at once", "</think>Hi", [text("Hi")], True),
    Output("one call", call("look", OSLO), [called("look", OSLO)]),
    Output("thought, text, call", f"<think>a</think>\nLet me see.\n\n{call('look', OSLO)}\n", [thought("a"), text("Let me see."), called("look", OSLO)]),
    Output("parallel calls", f"{call('look', OSLO)}\n{call('look', ROME)}", [called("look", OSLO), called("look", ROME)]),
    Output("text between calls", f"{call('look', OSLO)} and {call('save', '{}')} end", [called("look", OSLO), text("and"), called("save", "{}"), text("end")]),
    Output("two objects in a block", f'<tool_call>{{"name":"look","arguments":{OSLO}}}\n{{"name":"look","arguments":{ROME}}}</tool_call>', [called("look", OSLO), called("look", ROME)]),
    Output("nested arguments", call("look", NESTED), [called("look", NESTED)]),
    Output("escapes", call("look", ESCAPED), [called("look", ESCAPED)]),
    Output("unicode", "Så 😀 " + call("look", '{"place": "한국 é"}'), [text("Så 😀"), called("look", '{"place": "한국 é"}')]),
    Output("markers in an argument", call("save", CLOSERS), [called("save", CLOSERS)]),
    Output("name after arguments", f'<tool_call>{{"arguments": {OSLO}, "name": "look"}}</tool_call>', [called("look", OSLO)]),
    Output("parameters", f'<tool_call>{{"id": [1], "name": "look", "parameters": {OSLO}}}</tool_call>', [called("look", OSLO)]),
    Output("arguments as a string", r'<tool_call>{"name": "look", "arguments": "{\"place\": \"\u00d8\"}"}</tool_call>', [called("look", '{"place": "Ø"}')]),
    Output("no arguments", '<tool_call>{"name": "look"}</tool_call>', [called("look", "{}")]),
    Output("null arguments", '<tool_call>{"name": "look", "arguments": null}</tool_call>', [called("look", "{}")]),
    Output("raw newline in a string", call("save", '{"body": "a\nb"}'), [called("save", r'{"body": "a\nb"}')]),
    Output("brace missing", f'<tool_call>{{"name": "look", "arguments": {OSLO}</tool_call>!', [called("look", OSLO), text("!")]),
    Output("brace too many", f'<tool_call>{{"name": "look", "arguments": {OSLO}}}}}\n</tool_call>!', [called("look", OSLO), text("!")]),
    Output("end marker missing", f'<tool_call>{{"name": "look", "arguments": {OSLO}}}\n\nThere.', [called("look", OSLO), text("There.")]),
    Output("unknown tool", f"So: {UNKNOWN}\nend", [text(f"So: {UNKNOWN}\nend")]),
    Output("unknown tool, then a call", f"{UNKNOWN}\n{call('look', OSLO)}", [text(UNKNOWN), called("look", OSLO)]),
    Output("no JSON", "a <tool_call>look(Oslo)</tool_call> b", [text("a <tool_call>look(Oslo)</tool_call> b")]),
    Output("false start", f"a <tool_call> {call('look', OSLO)}", [text("a <tool_call>"), called("look", OSLO)]),
    Output("arguments of another kind", '<tool_call>{"name": "look", "arguments": [1]}</tool_call>', [text('<tool_call>{"name": "look", "arguments": [1]}</tool_call>')]),
    Output("code fence", FENCED, [text(FENCED)]),
    Output("inline code", f"Say `{call('look', '{}')[:11]}` to call.\n{call('look', OSLO)}", [text("Say `<tool_call>` to call."), called("look", OSLO)]),
    Output("double backticks", "``a ` <tool_call> ``", [text("``a ` <tool_call> ``")]),
    Output("lone backtick", f"Use the ` key.\n{call('look', OSLO)}", [text("Use the ` key."), called("look", OSLO)]),
    Output("fence, then a call", f"```py\nx = '```'\n```\n{call('look', OSLO)}", [text("```py\nx = '```'\n```"), called("look", OSLO)]),
    Output("opener inside a fence", f"```md\n```py\n{call('look', OSLO)}\n```", [text(f"```md\n```py\n{call('look', OSLO)}\n```")]),
    Output("text before a run does not close", f"```\nx ```\n{call('look', OSLO)}", [text(f"```\nx ```\n{call('look', OSLO)}")]),
    Output("arguments twice", f'<tool_call>{{"name": "look", "arguments": {OSLO}, "parameters": {ROME}}}</tool_call>', [called("look", OSLO)]),
    Output("nested fence", "````md\n```\n<tool_call>\n```\n````\nok", [text("````md\n```\n<tool_call>\n```\n````\nok")]),
    Output("malformed after the announcement", "<tool_call>{\"name\": \"save\", \"arguments\": {\"body\": 'x'}}</tool_call>", [called("save", '{"body": "x"}')]),
]  # fmt: skip
