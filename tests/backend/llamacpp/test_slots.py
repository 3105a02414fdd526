"""Which slot a prompt is given. Slots in use should lie beside each other: one pass decodes them then."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dragoman.backend.llamacpp.slots import Choice, Slots

PREFIX = tuple(range(100))


def took(slots: Slots, prompt: tuple[int, ...] = (), saved: int = 0) -> Choice:
    choice = slots.choose("", prompt, saved)
    assert choice is not None
    return choice


def filled(slots: Slots, number: int, tokens: tuple[int, ...], kept: int = 0) -> None:
    slots.at(number).fill("", tokens, kept)


def test_requests_at_once_lie_beside_each_other_whatever_was_used_last() -> None:
    slots = Slots(8)
    for number in (5, 2, 7):
        slots.pinned(number, "", (), 0)
        slots.release(slots.at(number))
    first = took(slots).slot.number
    others = [took(slots).slot.number for _ in range(3)]
    assert first == 0
    assert sorted(others) == [1, 2, 3]


def test_a_gap_is_closed_first() -> None:
    slots = Slots(8)
    for number in (2, 4):
        slots.pinned(number, "", (), 0)
    assert took(slots).slot.number == 3


def test_a_prefix_is_worth_more_than_a_neighbour() -> None:
    slots = Slots(8)
    filled(slots, 6, PREFIX)
    slots.pinned(0, "", (), 0)
    choice = took(slots, (*PREFIX, 1))
    assert (choice.slot.number, choice.shared, choice.restore) == (6, 100, False)


def test_a_prefix_that_is_saved_as_well_is_put_beside_the_others() -> None:
    slots = Slots(8)
    filled(slots, 6, PREFIX, kept=100)
    slots.pinned(0, "", (), 0)
    choice = took(slots, (*PREFIX, 1), saved=100)
    assert (choice.slot.number, choice.shared, choice.restore) == (1, 100, True)


def test_nothing_is_lost_for_the_sake_of_a_neighbour() -> None:
    slots = Slots(4)
    filled(slots, 1, PREFIX)
    slots.pinned(0, "", (), 0)
    assert took(slots, (200, 201)).slot.number == 2


@given(st.lists(st.one_of(st.just(-1), st.integers(0, 7)), max_size=60))
def test_runs_of_slots_only_appear_when_requests_in_the_middle_end(ends: list[int]) -> None:
    slots = Slots(8)
    for number in ends:
        if number >= 0:
            slots.release(slots.at(number))
        elif slots.free():
            before = runs(slots)
            took(slots)
            assert runs(slots) <= max(1, before)


def runs(slots: Slots) -> int:
    busy = [slot.busy for slot in slots]
    return sum(now and not before for before, now in zip([False, *busy], busy, strict=False))
