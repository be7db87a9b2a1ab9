"""How many requests may be in flight, seen from the requests."""

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from evalspec.targets.http.pacing import AdaptiveLimit


async def peak(limit, tasks=30):
    """The most slots held at one moment while many want one."""
    held = most = 0

    async def work():
        nonlocal held, most
        async with limit.slot():
            held += 1
            most = max(most, held)
            await asyncio.sleep(0)
            held -= 1

    await asyncio.gather(*(work() for _ in range(tasks)))
    return most


def test_no_more_than_the_maximum_and_all_of_it():
    assert asyncio.run(peak(AdaptiveLimit(7))) == 7


def test_a_refusal_halves_once_however_many_say_so_and_success_recovers():
    async def story():
        limit = AdaptiveLimit(16)
        for _ in range(5):
            limit.throttled(None)
        assert await peak(limit) == 8
        for _ in range(8):
            limit.succeeded()
        assert await peak(limit) == 8, "one more a round of requests"
        limit.succeeded()
        assert await peak(limit) == 9
        for _ in range(500):
            limit.succeeded()
        assert await peak(limit) == 16, "and never beyond the maximum"

    asyncio.run(story())


def test_nobody_goes_before_the_pause_is_over():
    async def story():
        limit = AdaptiveLimit(3)
        loop = asyncio.get_running_loop()
        started = loop.time()
        limit.throttled(0.2)
        async with limit.slot():
            return loop.time() - started

    assert asyncio.run(story()) >= 0.2


def test_a_cancelled_waiter_takes_no_slot_with_it():
    async def story():
        limit = AdaptiveLimit(1)
        async with limit.slot():
            waiter = asyncio.create_task(peak(limit, 1))
            await asyncio.sleep(0)
            waiter.cancel()
            await asyncio.gather(waiter, return_exceptions=True)
        assert await asyncio.wait_for(peak(limit, 3), 60) == 1

    asyncio.run(story())


@given(st.lists(st.booleans(), max_size=60), st.integers(1, 20))
@settings(max_examples=50)
def test_whatever_happens_somebody_may_ask(events, maximum):
    async def story():
        limit = AdaptiveLimit(maximum)
        for succeeded in events:
            limit.succeeded() if succeeded else limit.throttled(None)
        assert 1 <= await asyncio.wait_for(peak(limit), 60) <= maximum

    asyncio.run(story())
