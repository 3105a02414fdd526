"""Replayed thoughts: those signed for this model and tenant stay, with the text that was signed."""

from __future__ import annotations

import pytest

from dragoman.core.messages import Message, ReasoningPart, TextPart
from dragoman.core.request import ChatInput, RawInput, Request
from dragoman.core.signatures import UNSIGNED, SignatureKind, Signatures
from dragoman.service.thoughts import verified

OURS = Signatures(b"k" * 32)
SAID = TextPart("Hi")
KINDS = pytest.mark.parametrize("kind", ["thinking", "thinkingc", "reasoning"])


def believed(*thoughts: ReasoningPart) -> tuple[tuple[object, ...], int]:
    request = Request(input=ChatInput(messages=(Message("assistant", (*thoughts, SAID)),)))
    found, dropped = verified(request, OURS, model="m", tenant="t")
    assert isinstance(found.input, ChatInput)
    return found.input.messages[0].parts, dropped


def thought(kind: SignatureKind, model: str = "m", tenant: str = "t", by: Signatures = OURS) -> ReasoningPart:
    signature = by.sign(kind, "so", model=model, tenant=tenant)
    return ReasoningPart("so" if kind == "thinking" else "", signature)


@KINDS
def test_ours_come_back_with_their_text(kind: SignatureKind) -> None:
    parts, dropped = believed(thought(kind))
    assert (parts, dropped) == ((ReasoningPart("so", thought(kind).signature), SAID), 0)


@KINDS
def test_of_another_model_tenant_or_key_they_are_dropped(kind: SignatureKind) -> None:
    foreign = (thought(kind, model="n"), thought(kind, tenant="u"), thought(kind, by=Signatures(b"j" * 32)))
    assert believed(*foreign) == ((SAID,), 3)


@KINDS
def test_beside_another_text_they_are_dropped(kind: SignatureKind) -> None:
    assert believed(ReasoningPart("other", thought(kind).signature)) == ((SAID,), 1)


def test_unsigned_text_is_the_clients_own_and_stays() -> None:
    assert believed(ReasoningPart("mine"), ReasoningPart("mine", UNSIGNED)) == ((ReasoningPart("mine"), SAID), 1)


def test_a_turn_of_dropped_thoughts_alone_goes() -> None:
    alone = Request(input=ChatInput(messages=(Message("assistant", (ReasoningPart("", UNSIGNED),)),)))
    found, dropped = verified(alone, OURS, model="m")
    assert (found.input, dropped) == (ChatInput(messages=()), 1)


def test_what_is_no_conversation_has_no_thoughts() -> None:
    request = Request(input=RawInput(("x",)))
    assert verified(request, OURS, model="m") == (request, 0)
