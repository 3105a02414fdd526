"""Receipts count what happened, whatever way the request ended."""

from __future__ import annotations

import msgspec

from dragoman.core.errors import EngineFailure
from dragoman.core.events import Failed, Finished, PartDelta, PartStart, Started
from dragoman.core.finish import Finish, FinishReason
from dragoman.core.prefix_miss import PrefixMiss
from dragoman.core.usage import Timings, Usage
from dragoman.telemetry.receipt import Receipt, ReceiptBook


def book(**options: bool) -> ReceiptBook:
    return ReceiptBook(Receipt(request_id="r", dialect="d", path="/p"), **options)


def finished(choice: int, tokens: int) -> Finished:
    return Finished(choice, Finish(FinishReason.EOS), Usage(5, tokens))


def test_finished() -> None:
    made = book()
    made.note([Started(0, 5, 2, "secret"), PartStart(0, 0, "text"), PartDelta(0, 0, "a", (1,))])
    made.note([PartDelta(0, 0, "b", (2, 3)), finished(0, 3)])
    receipt = made.close()
    assert (receipt.outcome, receipt.reason) == ("finished", "eos")
    assert (receipt.prompt_tokens, receipt.cached_tokens, receipt.completion_tokens) == (5, 2, 3)
    assert receipt.first_token_ms is not None
    assert receipt.total_ms >= receipt.first_token_ms


def test_several_choices_add_up() -> None:
    made = book()
    made.note([Started(0, 5), Started(1, 5), finished(0, 3), finished(1, 4)])
    receipt = made.close()
    assert (receipt.choices, receipt.prompt_tokens, receipt.completion_tokens) == (2, 10, 7)


def test_left_early_counts_what_was_sampled() -> None:
    made = book()
    made.note([Started(0, 5), PartDelta(0, -1, "", (1,)), PartDelta(0, 0, "x", (2,))])
    receipt = made.close()
    assert (receipt.outcome, receipt.completion_tokens) == ("cancelled", 2)


def test_failed_stays_failed() -> None:
    made = book()
    made.note([Started(0, 5), finished(0, 1), Failed(1, EngineFailure("x"))])
    assert (made.close().outcome, made.receipt.error) == ("failed", "engine_failure")


def test_text_is_kept_only_when_told() -> None:
    events = [Started(0, 5, 0, "secret"), PartDelta(0, 0, "he", (1,)), PartDelta(0, 0, "llo", (2,)), finished(0, 2)]
    quiet, loud = book(), book(keep_text=True)
    for made in (quiet, loud):
        made.note(events)
        made.close()
    assert (quiet.receipt.prompts, quiet.receipt.answers) == ((), ())
    assert (loud.receipt.prompts, loud.receipt.answers) == (("secret",), ("hello",))


def test_times_are_those_of_the_slowest_choice() -> None:
    made = book()
    one, other = Timings(10.0, 20.0, 3.0, "batched"), Timings(1.0, 50.0, 4.0, "batched")
    made.note([Started(0, 5), Started(1, 5)])
    made.note([msgspec.structs.replace(finished(place, 1), timings=each) for place, each in enumerate((one, other))])
    receipt = made.close()
    assert (receipt.prompt_ms, receipt.predicted_ms, receipt.queued_ms) == (10.0, 50.0, 4.0)
    assert receipt.lane == "batched"


def test_a_missed_prefix_says_where_and_what() -> None:
    made = book()
    miss = PrefixMiss(reason="diverged", shared=7, length=20, kept=1, asked=2, kept_text="a", asked_text="b")
    made.note([Started(0, 9), Started(1, 9, miss=miss), finished(0, 1), finished(1, 1)])
    line = msgspec.to_builtins(made.close())
    assert line["miss"] == {
        "reason": "diverged", "shared": 7, "length": 20, "kept": 1, "asked": 2, "kept_text": "a", "asked_text": "b"
    }  # fmt: skip
    assert "miss" not in msgspec.to_builtins(book().close())


def test_repairs_of_all_choices() -> None:
    made = book()
    made.note([Started(0, 9), Started(1, 9)])
    mended = (("commas", "close"), ("commas",))
    made.note([msgspec.structs.replace(finished(place, 1), repairs=rungs) for place, rungs in enumerate(mended)])
    assert made.close().repairs == ("commas", "close", "commas")
