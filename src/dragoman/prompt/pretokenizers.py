"""How GGUF byte-level vocabularies cut text into words, by the name in `tokenizer.ggml.pre`. Data only.

The patterns are those of the models' own tokenizer.json files as llama.cpp (build 10622 and later) applies them: each
is run over what the ones before left, and text between matches is a word of its own.
"""

from __future__ import annotations

from msgspec import Struct


class PreTokenizer(Struct, frozen=True, kw_only=True):
    """Patterns in Oniguruma syntax. `add_bos` is the default where the file does not say; `ignore_merges` takes a word
    that is a token as it is; `byte_level` False means raw UTF-8 with spaces spelled U+2581 and byte fallback tokens."""

    patterns: tuple[str, ...]
    add_bos: bool = False
    ignore_merges: bool = False
    byte_level: bool = True


_ENDINGS = r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)"
_SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_WORD = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_MARKS = r" ?[^\s\p{L}\p{N}]+[\r\n]*"
_MARKS_SLASH = r" ?[^\s\p{L}\p{N}]+[\r\n/]*"

_LLAMA3 = rf"{_ENDINGS}|{_WORD}|\p{{N}}{{1,3}}|{_MARKS}|{_SPACES}"
_QWEN2 = rf"{_ENDINGS}|{_WORD}|\p{{N}}|{_MARKS}|{_SPACES}"
_QWEN35 = rf"{_ENDINGS}|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|\p{{N}}| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|{_SPACES}"
_UFAKZEKA = rf"{_WORD}|\p{{N}}|{_MARKS}|{_SPACES}"
_BAILING = rf"'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])|{_WORD}|\p{{N}}|{_MARKS}|\s*[\r\n]|\s+(?!\S)|\s+"
_SEED_CODER = rf"{_ENDINGS}|{_WORD}|\p{{N}}| ?[^\s\p{{L}}\p{{N}}\r\n]+|{_SPACES}"
_MINICPM5 = rf"{_ENDINGS}|{_WORD}|\p{{N}}+|{_MARKS}|{_SPACES}"
_EXAONE_MOE = (
    rf"{_ENDINGS}|[^\r\n\p{{L}}\p{{N}}]?(?:\p{{L}}\p{{M}}*(?: \p{{L}}\p{{M}}*)*)+|\p{{N}}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+"
)

# llama.cpp tells upper from lower case in ASCII only here, so "any letter but a-z" stands for upper case.
_UPPER = r"(?:(?=\p{L})[^a-z])"
_LOWER = r"(?:(?=\p{L})[^A-Z])"
_CASED = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+%s"
    rf"|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*%s"
)
_TEKKEN = rf"{_CASED % ('', '')}|\p{{N}}|{_MARKS_SLASH}|{_SPACES}"
_GPT4O = rf"{_CASED % (_ENDINGS + '?', _ENDINGS + '?')}|\p{{N}}{{1,3}}|{_MARKS_SLASH}|{_SPACES}"

# Youtu and Tiny Aya follow their tokenizer.json; llama.cpp's own matcher differs from it in a few mixed-case words.
_UPPER_LETTERS = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
_LOWER_LETTERS = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_CASED_WORD = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER_LETTERS}*{_LOWER_LETTERS}+{_ENDINGS}?"
    rf"|[^\r\n\p{{L}}\p{{N}}]?{_UPPER_LETTERS}+{_LOWER_LETTERS}*{_ENDINGS}?"
)
_YOUTU = (
    "[\uac00-\ud7a3\u3131-\u318e]+|[\uff01\u2026\u201c\u201d\u2018\u2019\u2014\uff1a\uff1b\uff0c\u3001-\u303f"
    "\ufe30-\ufe4f]+|[\u3105-\u312f]+|[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
    rf"{_CASED_WORD}|\p{{N}}|{_MARKS_SLASH}|{_SPACES}",
)
_TINY_AYA = (r"\d{1,3}(?=(?:\d{3})*\b)", rf"{_CASED_WORD}|\p{{N}}{{1,3}}|{_MARKS_SLASH}|{_SPACES}")
_RUNS = "|".join(rf"\s{{{length}}}(?!\S)" for length in (512, 256, 128, 64, 32, 16, 8, 4))
_JAIS2 = rf"{_ENDINGS}|{_WORD}|\p{{N}}{{1,3}}|{_MARKS}|\s*[\r\n]+|{_RUNS}|\s{{1,2}}(?!\S)|\s{{1}}"

_CJK = "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"
_DEEPSEEK_V3 = (
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
    rf"| ?[\p{{P}}\p{{S}}]+[\r\n]*|{_SPACES}"
)
# llama.cpp blanks wide spaces before it matches these two, so the ranges around them do not hold spaces.
_DEEPSEEK_CJK = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff&&\\S]+"
# Cased letters (Lu, Ll, Lt) as DeepSeek's tokenizer.json lists them; newer scripts are missing there too.
_DEEPSEEK_LETTERS = (
    "A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af\u0370-\u0373\u0376"
    "\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5\u03f7-\u0481\u048a-\u052f"
    "\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77"
    "\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d"
    "\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4"
    "\u1ff6-\u1ffc\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139"
    "\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3\ua640-\ua66d"
    "\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06\ufb13-\ufb17\uff21-\uff3a"
    "\uff41-\uff5a\U00010400-\U0001044f\U000104b0-\U000104d3\U000104d8-\U000104fb\U00010c80-\U00010cb2"
    "\U00010cc0-\U00010cf2\U000118a0-\U000118df\U0001e900-\U0001e943"
)
_DEEPSEEK_LLM = (
    r"[\r\n]",
    rf"\s?[{_DEEPSEEK_LETTERS}]+",
    "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3001-\u3002]+",
    r"\s+$",
    _DEEPSEEK_CJK,
    r"\p{N}+",
)
_BLOOM = " ?[^(\\s|.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c)]+"
_DIGITS = r"[0-9][0-9][0-9]"

_LINES = r"[^\n]+|[\n]+"

_FAMILIES: dict[str, PreTokenizer] = {
    "gpt-2 phi-2 jina-es jina-de gigachat jina-v2-es jina-v2-de a.x-4.0 mellum modern-bert jina-v1-en jina-v2-code "
    "roberta-bpe mpt olmo jais trillion granite-docling exaone4": PreTokenizer(patterns=(_GPT2,)),
    "smollm starcoder refact command-r codeshell exaone minerva-7b mellum2": PreTokenizer(patterns=(r"\p{N}", _GPT2)),
    "llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano": PreTokenizer(
        patterns=(_LLAMA3,), add_bos=True, ignore_merges=True
    ),
    "dbrx smaug-bpe glm4 chatglm-bpe": PreTokenizer(patterns=(_LLAMA3,)),
    "qwen2 deepseek-r1-qwen kormo f2llmv2 megrez stablelm2 hunyuan solar-open grok-2": PreTokenizer(patterns=(_QWEN2,)),
    "qwen35": PreTokenizer(patterns=(_QWEN35,)),
    "laguna": PreTokenizer(patterns=(_LINES, _QWEN2)),
    "ufakzeka": PreTokenizer(patterns=(_UFAKZEKA,)),
    "deepseek-llm": PreTokenizer(patterns=_DEEPSEEK_LLM),
    "deepseek-coder": PreTokenizer(patterns=(r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", _DEEPSEEK_CJK, r"\p{N}")),
    "deepseek-v3 hunyuan-dense joyai-llm hy_v4": PreTokenizer(patterns=(r"\p{N}{1,3}", _CJK, _DEEPSEEK_V3)),
    "falcon": PreTokenizer(patterns=(r"[\p{P}\$\+<=>\^~\|`]+", _GPT2, _DIGITS)),
    "default": PreTokenizer(patterns=(r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", _DIGITS)),
    "bloom poro-chat gpt3-finnish": PreTokenizer(patterns=(_BLOOM,)),
    "viking": PreTokenizer(patterns=(_BLOOM, r"\p{N}")),
    "tekken": PreTokenizer(patterns=(_TEKKEN,), add_bos=True, ignore_merges=True),
    "gpt-4o llama4 kanana2 talkie minimax-m2": PreTokenizer(patterns=(_GPT4O,)),
    "bailingmoe bailingmoe2 llada-moe": PreTokenizer(patterns=(_BAILING,)),
    "seed-coder": PreTokenizer(patterns=(_SEED_CODER,)),
    "exaone-moe": PreTokenizer(patterns=(_EXAONE_MOE,)),
    "minicpm5": PreTokenizer(patterns=(r"\p{N}{1,3}", _MINICPM5), ignore_merges=True),
    "youtu": PreTokenizer(patterns=_YOUTU, ignore_merges=True),
    "tiny_aya cohere2moe": PreTokenizer(patterns=_TINY_AYA),
    "jais-2": PreTokenizer(patterns=(_JAIS2,)),
    "gemma4": PreTokenizer(patterns=(_LINES,), add_bos=True, byte_level=False),
}


def pre_tokenizer(name: str) -> PreTokenizer | None:
    """The pre-tokenizer of that name; '' is 'default'; None when it is not known here."""
    wanted = name or "default"
    for names, found in _FAMILIES.items():
        if wanted in names.split():
            return found
    return None


def known_pre_tokenizers() -> tuple[str, ...]:
    """All names, in the order of the table."""
    return tuple(name for names in _FAMILIES for name in names.split())
