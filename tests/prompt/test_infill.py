"""Prompts for gaps in code."""

from __future__ import annotations

import pytest

from dragoman.core.errors import NotSupported
from dragoman.core.request import InfillInput, RawInput
from dragoman.engines.fake import FakeScript, FakeTokenizer
from dragoman.prompt.builder import PromptBuilder
from dragoman.prompt.infill import infill_ids

MARKERS = ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>")


def text_of(tokenizer: FakeTokenizer, ids: list[int]) -> str:
    return b"".join(map(tokenizer.token_bytes, ids)).decode()


def built(gap: InfillInput, *markers: str) -> str:
    tokenizer = FakeTokenizer(FakeScript(control_tokens=(*MARKERS, *markers)))
    return text_of(
        tokenizer, infill_ids(tokenizer, gap, tokenizer.encode("p", add_special=False, parse_special=False), [])
    )


def test_code_goes_around_the_gap() -> None:
    gap = InfillInput(prefix="a<|fim_middle|>", suffix="b")
    assert built(gap) == "<|fim_prefix|>a<|fim_middle|>p<|fim_suffix|>b<|fim_middle|>"


def test_what_is_nearest_to_the_gap_is_kept() -> None:
    gap = InfillInput(prefix="0123456789", suffix="abcdefghij", batch=16)
    assert built(InfillInput(prefix="x" * 20 + "0123", suffix="abcdefghij", batch=16)).startswith(
        "<|fim_prefix|>" + "x" * 8 + "0123p<|fim_suffix|>a<|fim_middle|>"
    )
    assert built(gap) == "<|fim_prefix|>0123456789p<|fim_suffix|>a<|fim_middle|>"


def test_other_files_come_first() -> None:
    gap = InfillInput(prefix="a", suffix="b", extra=(("x.py", "X"),), spare=100)
    tail = "<|fim_prefix|>ap<|fim_suffix|>b<|fim_middle|>"
    assert built(gap) == "\n\n--- snippet ---\n\nX" + tail
    named = built(gap, "<|repo_name|>", "<|file_sep|>")
    assert named == "<|repo_name|>myproject\n<|file_sep|>x.py\nX<|file_sep|>filename\n" + tail
    assert built(InfillInput(prefix="a", suffix="b", extra=(("x.py", "X"),), spare=1)) == "X" + tail


def test_the_builder_puts_bos_before_the_first_marker() -> None:
    tokenizer = FakeTokenizer(FakeScript(control_tokens=MARKERS))
    builder = PromptBuilder(tokenizer, "")
    ids = list(builder.build(InfillInput(prefix="a", suffix="b", prompt=RawInput(("p",)))).ids)
    assert text_of(tokenizer, ids) == "<|bos|><|fim_prefix|>ap<|fim_suffix|>b<|fim_middle|>"


def test_a_model_without_markers_says_which() -> None:
    with pytest.raises(NotSupported) as raised:
        infill_ids(FakeTokenizer(), InfillInput(prefix="a", suffix="b"), [], [])
    assert str(raised.value) == (
        "Infill is not supported by this model: "
        "prefix token is missing. suffix token is missing. middle token is missing. "
    )
