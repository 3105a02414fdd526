"""A Lark grammar of texts made one of the same texts as JSON strings have them between their quotes.

JSON's escapes replace characters one by one, so it is enough to replace what terminals are made of. Regexes become
rules on the way: an escape has two characters, of which a lexer would take the first for a part of what stands before
it. Each character has one spelling, the shortest. What has no such form (complements, ignored text, special tokens,
grammars in grammars, JSON schemas) is left to whoever checks whole texts.
"""

from __future__ import annotations

import json
import re

from dragoman.grammar.escaped_regex import Beyond, escaped_regex

_TOKEN = re.compile(
    r"(?P<comment>//[^\n]*|\#[^\n]*)"
    r'|(?P<range>"(?:[^"\\\n]|\\.)+"\s*\.\.\s*"(?:[^"\\\n]|\\.)+")'
    r'|(?P<text>"(?:[^"\\\n]|\\.)*")(?P<any_case>i?)'
    r"|/(?P<regex>(?![*/ ])(?:[^/\\\n]|\\.)+)/(?P<flags>[a-z]*)"
    r"|(?P<imported>%import[^\n]*)"
    r"|(?P<times>~\s*\d+(?:\s*\.\.\s*\d+)?|->\s*\w+)"
    r"|(?P<options>[\w-]+\s*\[[^\]\n]*\]\s*:)"
    r"|(?P<name>[A-Za-z_][\w-]*)"
    r"|(?P<other>[%~<>@/&])"
    r"|(?P<rest>.)",
    re.DOTALL,
)
_IMPORT = re.compile(r"%import\s+common\s*(?:\.\s*(\w+)\s*(?:->\s*(\w+))?|\(([\w\s,]+)\))\s*(?://.*)?\Z")
_TERMINAL = re.compile(r"_*[A-Z]")
_COMMON = {
    "LF": r"\n",
    "CR": r"\r",
    "NEWLINE": r"(\r?\n)+",
    "WS": r"[ \t\f\r\n]+",
    "WS_INLINE": r"[ \t]+",
    "DIGIT": "[0-9]",
    "HEXDIGIT": "[0-9a-fA-F]",
    "INT": "[0-9]+",
    "SIGNED_INT": "[+-]?[0-9]+",
    "LETTER": "[a-zA-Z]",
    "LCASE_LETTER": "[a-z]",
    "UCASE_LETTER": "[A-Z]",
    "WORD": "[a-zA-Z]+",
    "CNAME": "[_a-zA-Z][_a-zA-Z0-9]*",
}


def escaped_grammar(text: str) -> str | None:
    """The grammar for JSON's spelling, None where there is no such grammar. Mistakes in `text` stay mistakes."""
    try:
        return "".join(_piece(match) for match in _TOKEN.finditer(text))
    except Beyond:
        return None


def _piece(match: re.Match[str]) -> str:
    if match["comment"] is not None:
        return ""
    if match["range"] is not None:
        return _range(match["range"])
    if match["text"] is not None:
        return _literal(_decoded(match["text"]), match["any_case"])
    if match["regex"] is not None:
        return escaped_regex(match["regex"], match["flags"])
    if match["imported"] is not None:
        return _imports(match["imported"])
    if match["name"] is not None:
        return _rule(match["name"])
    if match["options"] is not None or match["other"] is not None or match["rest"] == '"':
        raise Beyond
    return match[0]


def _rule(name: str) -> str:
    """Terminals become rules, which cannot be called like them."""
    return f"terminal_{name.lower()}" if _TERMINAL.match(name) else name


def _range(text: str) -> str:
    low, high = (_decoded(part) for part in re.split(r"(?<=\")\s*\.\.\s*(?=\")", text))
    if len(low) != 1 or len(high) != 1:
        raise Beyond
    return escaped_regex(f"[\\x{{{ord(low):x}}}-\\x{{{ord(high):x}}}]", "")


def _decoded(literal: str) -> str:
    """The text a string literal stands for."""
    try:
        return json.loads(re.sub(r"(?<!\\)((?:\\\\)*)\\x([0-9a-fA-F]{2})", r"\1\\u00\2", literal))
    except ValueError:
        raise Beyond from None


def _literal(text: str, any_case: str) -> str:
    spelled = json.dumps(text, ensure_ascii=False)[1:-1]
    if any_case and spelled != text:
        raise Beyond
    return json.dumps(spelled, ensure_ascii=False) + any_case


def _imports(line: str) -> str:
    """Terminals of Lark's library, written out."""
    found = _IMPORT.match(line)
    if found is None:
        raise Beyond
    names = [found[1]] if found[1] else [name.strip() for name in found[3].split(",") if name.strip()]
    if not set(names) <= _COMMON.keys():
        raise Beyond
    return "\n".join(f"{_rule(found[2] or name)}: {escaped_regex(_COMMON[name], '')}" for name in names)
