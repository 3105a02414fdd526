from __future__ import annotations

from dragoman.cache.base import EntryKind
from dragoman.cache.entry import Entry
from dragoman.cache.sessions import Sessions
from tests.cache.snapshots import PlainSnapshot


def entry_of(kind: EntryKind) -> Entry:
    return Entry(
        namespace="", key=b"", snapshot=PlainSnapshot(0), kind=kind, length=0, nbytes=0, trimmable=True, serial=0
    )


A, B, C = ("", "a"), ("", "b"), ("other", "a")


def test_a_session_holds_the_latest_of_its_prompt_and_of_its_answer() -> None:
    sessions = Sessions(4)
    boundary, answer, prompt, later = (entry_of(kind) for kind in ("boundary", "answer", "prompt", "answer"))
    sessions.hold(A, boundary)
    sessions.hold(A, answer)
    assert set(sessions.held(A)) == {boundary, answer}
    sessions.hold(A, prompt)
    sessions.hold(A, later)
    assert set(sessions.held(A)) == {prompt, later}
    assert boundary not in sessions
    assert sessions.entries() == {prompt, later}


def test_the_least_recently_used_session_is_forgotten() -> None:
    sessions = Sessions(2)
    one, two, three = (entry_of("prompt") for _ in range(3))
    sessions.hold(A, one)
    sessions.hold(B, two)
    sessions.hold(A, one)
    sessions.hold(C, three)
    assert sessions.held(B) == []
    assert two not in sessions
    assert (sessions.held(A), sessions.held(C)) == ([one], [three])
    assert len(sessions) == 2


def test_an_entry_may_be_held_by_many_and_is_held_until_the_last_lets_go() -> None:
    sessions = Sessions(4)
    both, other = entry_of("prompt"), entry_of("prompt")
    sessions.hold(A, both)
    sessions.hold(B, both)
    sessions.hold(A, other)
    assert both in sessions
    sessions.hold(B, other)
    assert both not in sessions


def test_what_replaces_an_entry_is_held_in_its_place() -> None:
    sessions = Sessions(4)
    old, new = entry_of("boundary"), entry_of("answer")
    sessions.hold(A, old)
    sessions.hold(B, old)
    sessions.hand_on(old, new)
    assert old not in sessions
    assert sessions.held(A) == sessions.held(B) == [new]


def test_forgetting_an_entry_forgets_sessions_that_hold_nothing_else() -> None:
    sessions = Sessions(4)
    one, two = entry_of("prompt"), entry_of("answer")
    sessions.hold(A, one)
    sessions.hold(A, two)
    sessions.forget(one)
    assert sessions.held(A) == [two]
    sessions.forget(two)
    sessions.forget(two)
    assert len(sessions) == 0
    assert sessions.entries() == set()
