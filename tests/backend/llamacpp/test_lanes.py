"""The queue alone."""

from __future__ import annotations

import asyncio

import pytest

from dragoman.backend.llamacpp.lanes import Lanes, Ticket
from dragoman.backend.llamacpp.pool import Claim, Pool
from dragoman.core.errors import Overloaded, Unavailable

pytestmark = pytest.mark.anyio


async def test_lanes_are_granted_in_order_of_arrival() -> None:
    lanes = Lanes(1, 9)
    first, second, third = (lanes.enter() for _ in range(3))
    await first.granted()
    second_waits, third_waits = (asyncio.create_task(ticket.granted()) for ticket in (second, third))
    first.release()
    await second_waits
    assert not third_waits.done()
    second.release()
    await third_waits
    third.release()
    third.release()
    assert (lanes.running, lanes.waiting) == (0, 0)


async def test_paused_lanes_are_not_granted_but_may_be_waited_for() -> None:
    lanes = Lanes(2, 9)
    lanes.pause()
    ticket = lanes.enter()
    assert (lanes.running, lanes.waiting) == (0, 1)
    lanes.resume()
    await ticket.granted()
    assert lanes.running == 1


async def test_refusing_all_empties_the_queue_only() -> None:
    lanes = Lanes(1, 9)
    running, waiting = lanes.enter(), lanes.enter()
    lanes.refuse_all(Unavailable("over"))
    await running.granted()
    with pytest.raises(Unavailable):
        await waiting.granted()
    waiting.release()
    assert (lanes.running, lanes.waiting) == (1, 0)


async def test_a_cancelled_wait_keeps_its_place() -> None:
    lanes = Lanes(1, 9)
    running, waiting = lanes.enter(), lanes.enter()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(waiting.granted(), 0.001)
    running.release()
    await waiting.granted()
    assert waiting.begun is not None


async def test_the_time_to_retry_follows_how_long_requests_take() -> None:
    now = [0.0]
    lanes = Lanes(1, 0, lambda: now[0])
    for _ in range(40):
        ticket = lanes.enter()
        ticket.begun = now[0]
        now[0] += 20
        ticket.release()
    ticket = lanes.enter()
    with pytest.raises(Overloaded) as caught:
        lanes.enter()
    assert caught.value.retry_after == 20


async def test_more_and_fewer_lanes() -> None:
    lanes = Lanes(3, 9)
    tickets = [lanes.enter() for _ in range(3)]
    lanes.resize(1)
    waiting = lanes.enter()
    tickets[0].release()
    tickets[1].release()
    assert waiting.begun is None
    tickets[2].release()
    assert waiting.begun is not None
    assert (lanes.running, lanes.waiting) == (1, 0)


def begun(*tickets: Ticket) -> list[bool]:
    return [ticket.begun is not None for ticket in tickets]


async def test_who_would_fill_a_shared_window_waits_and_nobody_overtakes() -> None:
    lanes = Lanes(4, 9, pool=Pool(tokens=1000, more=100))
    first = lanes.enter(claim=Claim(500, most=50))  # 550
    second = lanes.enter(claim=Claim(350, most=500))  # 450
    third = lanes.enter(claim=Claim(10, most=10))
    assert begun(first, second, third) == [True, True, False]
    second.release()
    assert begun(third) == [True]
    fourth, fifth = lanes.enter(claim=Claim(400, most=31)), lanes.enter(claim=Claim(1, most=1))
    assert begun(fourth, fifth) == [False, False]
    third.release()
    assert begun(fourth, fifth) == [True, True]


async def test_what_is_answered_counts_too() -> None:
    lanes = Lanes(2, 9, pool=Pool(tokens=1000, more=100))
    first = lanes.enter(claim=Claim(100, most=800))
    first.claim.made = 500
    second = lanes.enter(claim=Claim(350, most=0))
    assert begun(second) == [False]
    first.release()
    assert begun(second) == [True]


async def test_a_lone_request_takes_what_there_is() -> None:
    lanes = Lanes(2, 9, pool=Pool(tokens=1000, more=100))
    first, second = lanes.enter(claim=Claim(990, most=500)), lanes.enter(claim=Claim(1, most=1))
    assert begun(first, second) == [True, False]
    first.release()
    assert begun(second) == [True]
