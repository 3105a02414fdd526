"""Masks as engines read them."""

from __future__ import annotations

import numpy as np
import pytest

from dragoman.core.exchange import EngineRequest
from dragoman.core.request import OutputFormat
from dragoman.core.vocabulary import GgufVocabulary
from dragoman.grammar.compiler import Compiler
from dragoman.grammar.mask import GrammarMask
from dragoman.grammar.tokens import ll_tokenizer
from dragoman.prompt.gguf import gguf_tokenizer
from dragoman.sampling.mask import unpacked
from tests.grammar.rig import COMPILER, TOKENIZER, text_of

GRAMMAR = text_of(OutputFormat("choice", '["ab", "b"]'))


def mask_of(grammar: str) -> GrammarMask:
    return GrammarMask(COMPILER.matcher(grammar), TOKENIZER.size)


def allowed(mask: GrammarMask, words: int) -> list[int]:
    buffer = np.full(words, -1, np.int32)
    assert mask.fill(buffer)
    return np.flatnonzero(unpacked(buffer, words * 32)).tolist()


@pytest.mark.parametrize("words", [9, 10, 40], ids=["own size", "one more", "a padded model"])
def test_ids_the_tokenizer_does_not_know_are_forbidden(words: int) -> None:
    assert allowed(mask_of(GRAMMAR), words) == [ord("a"), ord("b")]


def test_a_model_with_fewer_logits_than_tokens() -> None:
    assert allowed(mask_of(GRAMMAR), 4) == [ord("a"), ord("b")]


def test_a_mask_in_steps() -> None:
    mask = mask_of(GRAMMAR)
    assert not mask.complete
    mask.advance(ord("a"))
    assert allowed(mask, 9) == [ord("b")]
    assert not mask.complete
    mask.advance(ord("b"))
    assert mask.complete


def test_every_end_token_ends_an_answer_that_may_end() -> None:
    mask = mask_of(text_of(OutputFormat("regex", "a+")))
    assert not set(allowed(mask, 9)) & TOKENIZER.stop_tokens
    mask.advance(ord("a"))
    assert set(allowed(mask, 9)) == {ord("a"), *TOKENIZER.stop_tokens}
    mask.advance(min(TOKENIZER.stop_tokens))
    assert mask.complete


def test_a_token_that_is_not_allowed_is_one_sentence() -> None:
    mask = mask_of(GRAMMAR)
    with pytest.raises(RuntimeError) as failed:
        mask.advance(ord("z"))
    assert "\n" not in str(failed.value)
    with pytest.raises(RuntimeError):
        mask.fill(np.zeros(9, np.int32))


def test_requests_get_masks_of_their_own() -> None:
    factory = COMPILER.masks
    assert factory(EngineRequest(id="a", prompt=(1,), max_tokens=1)) is None
    one, two = (factory(EngineRequest(id=id, prompt=(1,), max_tokens=1, grammar=GRAMMAR)) for id in "ab")
    assert one is not None
    assert two is not None
    one.advance(ord("a"))
    assert allowed(one, 9) == [ord("b")]
    assert allowed(two, 9) == [ord("a"), ord("b")]


def test_a_grammar_that_does_not_compile_is_an_error_when_its_row_opens() -> None:
    with pytest.raises(RuntimeError):
        COMPILER.masks(EngineRequest(id="a", prompt=(1,), max_tokens=1, grammar="%llguidance {}\nstart: x"))


def test_forced_tokens_are_offered() -> None:
    mask = mask_of(text_of(OutputFormat("choice", '["abcabc"]')))
    assert mask.forced() == list(b"abcabc")


@pytest.mark.parametrize("space_prefix", [True, False])
def test_forced_texts_are_written_in_tokens_that_are_exactly_them(space_prefix: bool) -> None:
    """Vocabularies that put a blank in front of a text must not do so inside an answer."""
    pieces = ["<unk>", "<s>", "</s>", "▁", "a", "b", "▁a", "ab", "▁ab", *(f"<0x{byte:02X}>" for byte in range(256))]
    tokenizer = gguf_tokenizer(
        GgufVocabulary(
            model="llama",
            pre="",
            tokens=pieces,
            types=[2, 3, 3, *[1] * 6, *[6] * 256],
            merges=[],
            scores=[0.0] * len(pieces),
            bos_id=1,
            eos_id=2,
            unk_id=0,
            add_space_prefix=space_prefix,
        )
    )
    trie = ll_tokenizer(tokenizer)
    for text in ("ab", "a b", " ab", "é{", "", "b\nab"):
        assert trie.decode_bytes(trie.tokenize_str(text)) == text.encode()
    compiler = Compiler(tokenizer)
    matcher = compiler.matcher('%llguidance {}\nstart: "ab" /[0-9]/\n')
    forced = matcher.compute_ff_tokens()
    assert b"".join(tokenizer.token_bytes(token) for token in forced) == b"ab"
