"""What the vocabulary makes of a request's texts, and what slots and adapters of a model are told."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from dragoman.core.adapters import AdapterScale
from dragoman.core.errors import InvalidField, NotSupported
from dragoman.core.request import GrammarTrigger, OutputFormat, RawInput, Request
from dragoman.core.sampling import SamplingSpec
from dragoman.core.slots import Adapters, AdaptersRequest, MountedAdapter, SlotAction
from dragoman.service import adapters, slots
from dragoman.service.models import ServedModel
from dragoman.service.prepare import AnswerLimits, prepare
from tests.service.served import scripted

pytestmark = pytest.mark.anyio


def asking(**more: object) -> Request:
    return Request(input=RawInput(("x",)), **more)


async def test_texts_of_biases_become_ids_and_unknown_ids_go() -> None:
    async with scripted() as model:
        request = asking(
            biases=(("ab", -math.inf), (97, 2.0), (10**6, 1.0)), sampling=SamplingSpec(logit_bias={97: 1.0})
        )
        work = prepare(model, request, AnswerLimits())
        assert work.in_force.biases == ((97, -math.inf), (98, -math.inf), (97, 2.0))
        assert work.sampling.logit_bias == {97: -math.inf, 98: -math.inf}


async def test_end_tokens_are_told_where_they_may_not_come() -> None:
    async with scripted() as model:
        ends = tuple(sorted(model.tokenizer.stop_tokens))
        assert (
            prepare(model, asking(sampling=SamplingSpec(ignore_eos=True)), AnswerLimits()).in_force.end_tokens == ends
        )
        assert prepare(model, asking(), AnswerLimits()).in_force.end_tokens == ()


async def test_spelled_tokens_and_trigger_words() -> None:
    async with scripted() as model:
        end = model.tokenizer.encode("<|im_end|>", add_special=False, parse_special=True)
        work = prepare(model, asking(spelled=("<|im_end|>", "two tokens")), AnswerLimits())
        assert work.in_force.spelled == tuple(end)
        trigger = OutputFormat("gbnf", 'root ::= "a"', "grammar", triggers=(GrammarTrigger("word", "<|im_end|>"),))
        with pytest.raises(InvalidField, match="should be marked as preserved token"):
            prepare(model, asking(spelled=(), format=trigger), AnswerLimits(grammar_degrade=True))
        prepare(model, asking(spelled=("<|im_end|>",), format=trigger), AnswerLimits(grammar_degrade=True))


class Host:
    """A backend with two adapters."""

    def __init__(self, model: ServedModel) -> None:
        self._backend = model.backend
        self.told: list[float] = []

    def __getattr__(self, name: str) -> object:
        return getattr(self._backend, name)

    @property
    def mounted(self) -> tuple[MountedAdapter, ...]:
        return (MountedAdapter("/a", AdapterScale("a", 1.0)), MountedAdapter("/b", AdapterScale("b", 0.5)))

    def rescale(self, scales: list[float]) -> None:
        self.told = scales


async def test_adapters_by_place() -> None:
    async with scripted() as plain:
        assert adapters.adapters_of(plain, asking(adapter_places=((7, 0.5),))) is None
        assert adapters.adapters(plain, AdaptersRequest()) == Adapters(())
        host = Host(plain)
        model = ServedModel(card=plain.card, tokenizer=plain.tokenizer, builder=plain.builder, backend=host)
        assert adapters.adapters_of(model, asking()) is None
        assert adapters.adapters_of(model, asking(adapter_places=((1, 0.25), (9, 1.0)))) == (AdapterScale("b", 0.25),)
        assert adapters.adapters_of(model, asking(adapter_places=((9, 1.0),))) == ()
        adapters.adapters(model, AdaptersRequest(scales=((1, 0.75),)))
        assert host.told == [0.0, 0.75]


async def test_slots_need_a_folder_to_be_saved_to(tmp_path: Path) -> None:
    async with scripted() as model:
        assert len(await slots.slots(model)) == model.backend.capabilities.lanes
        saving = SlotAction(number=0, verb="save", name="x")
        with pytest.raises(NotSupported, match="--slot-save-path"):
            await slots.act(model, saving, None)
        with pytest.raises(NotSupported, match="prompt cache, which is off"):
            await slots.act(model, saving, tmp_path / "new")
        assert (await slots.act(model, SlotAction(number=0, verb="erase"), None)).tokens == 0
