"""The budget of frames that arrive: what fits, who waits, and who loses its connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ottla.server.net.request_memory import SMALL_FRAME_BYTES, RequestMemory

LARGE = SMALL_FRAME_BYTES + 1


class _Sender:
    def __init__(self) -> None:
        self.received_bytes: int | None = 0
        self.closed_for: str | None = None
        self.grants = 0

    def close(self, reason: str | None = None) -> None:
        self.closed_for = reason

    def granted(self) -> None:
        self.grants += 1


def _run(main: Callable[[], None]) -> None:
    async def body() -> None:
        main()

    asyncio.run(body())


def test_the_budget_remembers_the_most_that_was_in_use() -> None:
    memory = RequestMemory(100)
    assert memory.take(_Sender(), 60, 60, lambda: None)
    memory.give_back(60)
    assert memory.take(_Sender(), 80, 80, lambda: None)
    memory.give_back(80)
    assert (memory.used_bytes, memory.most_bytes) == (0, 80)


def test_large_frames_leave_a_quarter_to_small_ones() -> None:
    def main() -> None:
        memory = RequestMemory(100)
        first, second, small = _Sender(), _Sender(), _Sender()
        assert memory.take(first, LARGE, 70, first.granted)
        assert memory.take(second, LARGE, 20, second.granted)  # one may pass the limit
        third = _Sender()
        assert not memory.take(third, LARGE, 1, third.granted)
        assert memory.take(small, 10, 10, small.granted)
        memory.completed(first)
        memory.give_back(70)
        assert third.grants == 1

    _run(main)


def test_one_frame_can_always_be_completed_and_the_next_follows_it() -> None:
    def main() -> None:
        memory = RequestMemory(100)
        senders = [_Sender() for _ in range(4)]
        for sender in senders[:2]:
            assert memory.take(sender, LARGE, 60, sender.granted)
        for sender in senders[2:]:
            assert not memory.take(sender, LARGE, 60, sender.granted)
        assert memory.take(senders[1], LARGE, 1000, senders[1].granted)
        memory.completed(senders[1])  # another one may pass the limit now
        assert [sender.grants for sender in senders] == [0, 0, 1, 0]
        assert memory.take(senders[2], LARGE, 1000, senders[2].granted)
        memory.completed(senders[3])  # its connection is closed: it takes nothing any more
        memory.completed(senders[2])
        assert senders[3].grants == 0

    _run(main)


def test_a_frame_that_waits_and_loses_its_connection_lets_a_smaller_one_behind_it_pass() -> None:
    def main() -> None:
        memory = RequestMemory(100)
        senders = [_Sender() for _ in range(4)]
        assert memory.take(senders[0], LARGE, 60, senders[0].granted)
        assert memory.take(senders[1], LARGE, 10, senders[1].granted)
        assert memory.take(senders[1], LARGE, 10, senders[1].granted)  # one may pass the limit
        assert not memory.take(senders[2], LARGE, 60, senders[2].granted)
        assert not memory.take(senders[3], LARGE, 5, senders[3].granted)
        memory.give_back(10)
        assert senders[3].grants == 0
        memory.completed(senders[2])
        assert (senders[2].grants, senders[3].grants) == (0, 1)

    _run(main)


def test_a_frame_that_arrives_too_slowly_loses_its_connection_once_others_wait() -> None:
    def main() -> None:
        memory = RequestMemory(100)
        slow, quick, blocked, waiting = (_Sender() for _ in range(4))
        for sender in (slow, quick, blocked):
            memory.take(sender, 30, 30, sender.granted)
        memory._check()
        memory._check()
        assert slow.closed_for is None  # nobody waits
        assert memory.take(_Sender(), 30, 30, lambda: None)
        assert not memory.take(waiting, 30, 30, waiting.granted)
        memory._check()
        quick.received_bytes = 1 << 20
        blocked.received_bytes = waiting.received_bytes = None
        memory._check()
        assert slow.closed_for is not None
        assert "waited for memory" in slow.closed_for
        assert [one.closed_for for one in (quick, blocked, waiting)] == [None] * 3

    _run(main)
