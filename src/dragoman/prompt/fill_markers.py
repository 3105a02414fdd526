"""Spellings of the tokens that models were trained to fill gaps with, by what they mark. Looks up none of them."""

from __future__ import annotations

FILL_PREFIX = (
    "<|fim_prefix|>",
    "<fim-prefix>",
    "<fim_prefix>",
    "<\uff5cfim\u2581begin\uff5c>",
    "<PRE>",
    "\u2581<PRE>",
    "<|code_prefix|>",
    "<|prefix|>",
)
FILL_SUFFIX = (
    "<|fim_suffix|>",
    "<fim-suffix>",
    "<fim_suffix>",
    "<\uff5cfim\u2581hole\uff5c>",
    "<SUF>",
    "\u2581<SUF>",
    "<|code_suffix|>",
    "<|suffix|>",
)
FILL_MIDDLE = (
    "<|fim_middle|>",
    "<fim-middle>",
    "<fim_middle>",
    "<\uff5cfim\u2581end\uff5c>",
    "<MID>",
    "\u2581<MID>",
    "<|code_middle|>",
    "<|middle|>",
)
FILL_PAD = ("<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]")
FILL_REPOSITORY = ("<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>")
FILL_FILE = ("<|file_sep|>",)
