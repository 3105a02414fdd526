from __future__ import annotations

from dragoman.cache.base import EntryKind
from dragoman.cache.entry import Entry
from dragoman.cache.policy import EvictionPolicy, most_durable
from tests.cache.snapshots import PlainSnapshot


def entry_of(kind: EntryKind) -> Entry:
    return Entry(
        namespace="",
        key=b"",
        snapshot=PlainSnapshot(0),
        kind=kind,
        length=0,
        nbytes=0,
        trimmable=True,
        serial=0,
    )


def order(policy: EvictionPolicy, held: set[Entry]) -> list[Entry]:
    gone: list[Entry] = []
    while (victim := policy.victim(held)) is not None:
        policy.remove(victim)
        gone.append(victim)
    return gone


def test_the_least_recently_used_goes_first() -> None:
    policy = EvictionPolicy()
    one, two, three = (entry_of("prompt") for _ in range(3))
    for entry in (one, two, three, one):
        policy.use(entry)
    assert order(policy, set()) == [two, three, one]
    assert policy.victim(set()) is None
    assert len(policy) == 0


def test_a_boundary_outlives_a_prompt_and_a_prompt_an_answer_of_about_equal_age() -> None:
    policy = EvictionPolicy()
    boundary, prompt, answer = entry_of("boundary"), entry_of("prompt"), entry_of("answer")
    for entry in (boundary, prompt, answer, *(entry_of("boundary") for _ in range(4))):
        policy.use(entry)
    assert order(policy, set())[:3] == [answer, prompt, boundary]


def test_a_boundary_is_not_kept_for_ever() -> None:
    policy = EvictionPolicy()
    boundary = entry_of("boundary")
    policy.use(boundary)
    for _ in range(10):
        policy.use(entry_of("answer"))
    assert order(policy, set()).index(boundary) == 7


def test_held_entries_go_last_and_by_the_same_rule() -> None:
    policy = EvictionPolicy()
    old, young, free = entry_of("answer"), entry_of("answer"), entry_of("boundary")
    for entry in (old, young, free):
        policy.use(entry)
    assert order(policy, {old, young}) == [free, old, young]


def test_the_most_durable_kind() -> None:
    assert most_durable(["answer", "prompt"]) == "prompt"
    assert most_durable(["answer", "boundary", "prompt"]) == "boundary"
    assert most_durable(["answer"]) == "answer"
