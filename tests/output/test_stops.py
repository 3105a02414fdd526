import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.output.stops import StopMatcher
from tests.output.fakes import cut_at


def matched(stops: list[str], pieces: list[str]) -> tuple[str, str | None]:
    matcher = StopMatcher(stops)
    released = ""
    for piece in pieces:
        text, match = matcher.feed(piece)
        released += text
        if match is not None:
            return released, match
    text, match = matcher.flush()
    return released + text, match


def naive(stops: list[str], text: str) -> tuple[str, str | None]:
    found = [(at, order, stop) for order, stop in enumerate(stops) if (at := text.find(stop)) >= 0]
    if not found:
        return text, None
    at, _, stop = min(found)
    return text[:at], stop


words = st.text("ab<", min_size=1, max_size=5)


@given(st.lists(words, max_size=16), st.text("ab<c", max_size=40), st.lists(st.integers(0, 60)))
def test_any_cut_gives_what_find_gives_on_the_whole(stops: list[str], text: str, places: list[int]) -> None:
    assert matched(stops, cut_at(text, places)) == naive(stops, text)
    assert matched(stops, list(text)) == naive(stops, text)


@given(st.lists(words, min_size=1, max_size=6), st.text("ab<c", max_size=30))
def test_only_the_longest_tail_that_may_become_a_stop_is_held(stops: list[str], text: str) -> None:
    matcher = StopMatcher(stops)
    released, match = matcher.feed(text)
    if match is None:
        tails = [text[at:] for at in range(len(text))]
        expected = next((tail for tail in tails if any(stop.startswith(tail) and stop != tail for stop in stops)), "")
        assert text == released + expected
        assert matcher.held == (expected != "")


def test_earliest_match_wins_and_first_listed_on_ties() -> None:
    assert matched(["world", "lo"], ["hello world"]) == ("hel", "lo")
    assert matched(["lo w", "lo"], ["hello world"]) == ("hel", "lo w")
    assert matched(["lo", "lo w"], ["hello world"]) == ("hel", "lo")


def test_a_complete_stop_waits_for_an_earlier_one_that_may_follow() -> None:
    assert matched(["abc", "b"], ["a", "b", "c"]) == ("", "abc")
    assert matched(["abc", "b"], ["a", "b", "x"]) == ("a", "b")
    assert matched(["abc", "b"], ["ab"]) == ("a", "b")


@pytest.mark.parametrize("stops", [[""], ["", ""], ["x", ""]])
def test_an_empty_stop_matches_at_once(stops: list[str]) -> None:
    assert StopMatcher(stops).feed("Paris") == ("", "")


def test_an_empty_stop_does_not_match_where_there_is_no_text() -> None:
    assert StopMatcher([""]).flush() == ("", None)


def test_first_characters_that_mean_something_in_a_pattern_are_plain() -> None:
    for stop in "^]-\\[.*":
        assert matched(["^x", stop + "!"], ["a" + stop, "!"]) == ("a", stop + "!")
        assert matched(["^x", stop + "!"], ["a!b"]) == ("a!b", None)
