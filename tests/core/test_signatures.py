"""Signatures of thoughts: ours verify, nothing else does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.core.signatures import UNSIGNED, Signatures, signature_kind

OURS = Signatures(b"k" * 32)
kinds = st.sampled_from(["reasoning", "thinking", "thinkingc"])
names = st.text(max_size=6)


@given(kind=kinds, text=st.text(max_size=40), model=names, tenant=names)
def test_what_was_signed_verifies(kind, text: str, model: str, tenant: str) -> None:
    signature = OURS.sign(kind, text, model=model, tenant=tenant)
    beside = text if kind == "thinking" else ""
    assert OURS.verify(signature, model=model, tenant=tenant, text=beside) == text
    assert OURS.signer(model, tenant).sign(kind, text) == signature
    assert signature_kind(signature) == kind


@given(kind=kinds, text=st.text(min_size=1, max_size=20), data=st.data())
def test_any_change_is_found(kind, text: str, data: st.DataObject) -> None:
    signature = OURS.sign(kind, text, model="m")
    at = data.draw(st.integers(0, len(signature) - 1))
    changed = signature[:at] + data.draw(st.characters(exclude_characters=signature[at])) + signature[at + 1 :]
    assert OURS.verify(changed, model="m", text=text if kind == "thinking" else "") is None


@pytest.mark.parametrize("model", ["n", "m "])
def test_foreign_ones_are_not_believed(model: str) -> None:
    signature = OURS.sign("reasoning", "so", model="m", tenant="a")
    assert OURS.verify(signature, model=model, tenant="a") is None
    assert OURS.verify(signature, model="m", tenant="b") is None
    assert Signatures(b"j" * 32).verify(signature, model="m", tenant="a") is None


def test_a_kind_is_not_accepted_as_another() -> None:
    carried = OURS.sign("reasoning", "so", model="m")
    assert OURS.verify(carried.replace("reasoning", "thinkingc"), model="m") is None
    assert OURS.verify(carried, model="m", text="another thought") is None
    assert OURS.verify(OURS.sign("thinking", "so", model="m"), model="m", text="so!") is None


def test_text_cannot_be_moved_into_what_is_carried() -> None:
    pieces = OURS.sign("thinking", "so", model="m").split(".")
    assert OURS.verify(".".join((*pieces[:4], "so", pieces[5])), model="m", text="another thought") is None


def test_thoughts_of_blocks_shown_empty_are_compressed() -> None:
    thought = "and so it goes on, " * 500
    assert len(OURS.sign("thinkingc", thought, model="m")) < len(thought) // 10


def test_pieces_cannot_be_shifted() -> None:
    assert OURS.sign("thinking", "b", model="ma") != OURS.sign("thinking", "ab", model="m")


@pytest.mark.parametrize("signature", ["", UNSIGNED, "dragoman.reasoning.v1.x.y", "a.b.c.d.e.f", "dragoman1.c28"])
def test_nonsense(signature: str) -> None:
    assert OURS.verify(signature, model="m") is None


def test_short_keys_are_refused() -> None:
    with pytest.raises(ValueError, match="32"):
        Signatures(b"short")
