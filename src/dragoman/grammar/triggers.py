"""Lazy constraints: free text until a trigger, which is also how the constrained part begins. Knows no wire.

A grammar cannot read a text twice, so the trigger is taken out of the beginning of the constraint: GBNF is derived by
it, and Lark must begin with it.
"""

from __future__ import annotations

import re

from dragoman.core.errors import InvalidRequest, UnsupportedField
from dragoman.core.request import GrammarTrigger, OutputFormat
from dragoman.core.vocabulary import Vocabulary
from dragoman.grammar import lark
from dragoman.grammar.gbnf_parse import parsed
from dragoman.grammar.gbnf_tree import after
from dragoman.grammar.lark import Rules
from dragoman.grammar.limits import Limits
from dragoman.grammar.refusal import too_large
from dragoman.grammar.sources import Sources
from dragoman.grammar.spelling import FREE, Speller

_LONGEST = 80
_TAIL = re.compile(r"(?:\[\\s\\S\]|\[\\S\\s\]|\.)[*+]\??\Z|\$\Z")
_LEAD = re.compile(r"\A\^?(?:\[\\s\\S\]|\[\\S\\s\]|\.)\*\??")
_PLAIN = re.compile(r"\\([^A-Za-z0-9])|([^\\.^$*+?()\[\]{}|])")


def lazy(
    format: OutputFormat, rules: Rules, sources: Sources, speller: Speller, vocabulary: Vocabulary, limits: Limits
) -> str:
    """An expression for free text, or free text up to a trigger of the format and the constraint from there on."""
    words = [_word(trigger, vocabulary, format.field) for trigger in format.triggers]
    begun = [_begun(word, format, rules, sources, speller, limits) for word in dict.fromkeys(words)]
    return lark.choice([*begun, rules.add("FREE", FREE)])


def _begun(word: str, format: OutputFormat, rules: Rules, sources: Sources, speller: Speller, limits: Limits) -> str:
    free = speller.until(rules, "before", word)
    if format.kind != "gbnf":
        raise UnsupportedField(
            f"A lazy constraint must be a GBNF grammar; one of the kind '{format.kind}' cannot be lazy.",
            field=format.field,
        )
    rest = after(parsed(format.text, format.field, limits), word)
    if rest is None:
        raise InvalidRequest(f"The grammar does not begin with the trigger {word!r}.", field=format.field)
    if len(rest) > limits.rules:
        raise too_large("grammar", f"has more than {limits.rules} rules once it is lazy", format.field)
    return lark.sequence([free, sources.gbnf(rest, format.field)])


def _word(trigger: GrammarTrigger, vocabulary: Vocabulary, field: str) -> str:
    """The text that switches the constraint on."""
    match trigger.kind:
        case "token":
            word = vocabulary.token_bytes(trigger.token or 0).decode("utf-8", "replace")
        case "word":
            word = trigger.value
        case "pattern" | "pattern_full":
            word = _plain(trigger.value)
    if not word or len(word) > _LONGEST:
        raise UnsupportedField(
            f"The trigger {trigger.value!r} cannot be watched for: it must come down to a fixed text.", field=field
        )
    return word


def _plain(pattern: str) -> str:
    """The fixed text a pattern looks for, '' where it looks for more than that."""
    body = _LEAD.sub("", pattern)
    if body.startswith("(") and body.endswith(")") and body.count("(") == body.count("\\(") + 1:
        body = body[1:-1]
    while (shorter := _TAIL.sub("", body)) != body:
        body = shorter
    found = list(_PLAIN.finditer(body))
    if sum(len(match[0]) for match in found) != len(body):
        return ""
    return "".join(match[1] or match[2] for match in found)
