"""The budget of large answers: who gets room, who waits for it, and who loses its connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ottla.server.net.response_memory import SLOW_BYTES, ResponseMemory


class _Client:
    def __init__(self, host: str = "a") -> None:
        self.peer_host = host
        self.unsent_bytes = 0
        self.closed_for: str | None = None
        self.grants = 0

    def close(self, reason: str | None = None) -> None:
        self.closed_for = reason

    def room_granted(self) -> None:
        self.grants += 1


def _run(main: Callable[[], None]) -> None:
    async def body() -> None:
        main()

    asyncio.run(body())


def test_one_answer_of_any_size_passes_the_limit_and_the_next_waits_for_it() -> None:
    def main() -> None:
        memory = ResponseMemory(100)
        first, second, third = _Client(), _Client(), _Client()
        assert memory.take(first, 1000)
        assert not memory.take(second, 1)
        assert not memory.take(third, 1)
        memory.give_back(first)
        assert (second.grants, third.grants) == (1, 1)
        assert (memory.used_bytes, memory.most_bytes) == (2, 1000)

    _run(main)


def test_room_that_is_granted_is_taken_at_once_so_that_few_are_granted_it() -> None:
    def main() -> None:
        memory = ResponseMemory(100)
        first = _Client()
        assert memory.take(first, 100)
        waiting = [_Client() for _ in range(5)]
        for client in waiting:
            assert not memory.take(client, 60)
        memory.give_back(first)
        assert [client.grants for client in waiting] == [1, 1, 0, 0, 0]

    _run(main)


def test_hosts_get_room_in_turn_however_many_clients_of_one_of_them_wait() -> None:
    def main() -> None:
        memory = ResponseMemory(100)
        first = _Client()
        assert memory.take(first, 100)
        crowd = [_Client("crowd") for _ in range(5)]
        alone = _Client("alone")
        for client in (*crowd, alone):
            assert not memory.take(client, 100)
        memory.give_back(first)
        assert (crowd[0].grants, alone.grants) == (1, 0)
        memory.give_back(crowd[0])
        assert (crowd[1].grants, alone.grants) == (0, 1)

    _run(main)


def test_who_is_gone_neither_keeps_room_nor_gets_any() -> None:
    def main() -> None:
        memory = ResponseMemory(100)
        first, gone, last = _Client(), _Client(), _Client()
        assert memory.take(first, 100)
        assert not memory.take(gone, 100)
        assert not memory.take(last, 100)
        memory.withdraw(gone)
        memory.withdraw(first)
        assert (gone.grants, last.grants) == (0, 1)
        memory.withdraw(last)
        assert memory.used_bytes == 0

    _run(main)


def test_who_takes_its_answer_too_slowly_loses_its_connection_once_others_wait() -> None:
    def main() -> None:
        memory = ResponseMemory(100)
        slow, quick, new = _Client(), _Client(), _Client()
        for client in (slow, quick):
            assert memory.take(client, 50)
            client.unsent_bytes = 1_000_000
        memory._check()
        memory._check()
        assert slow.closed_for is None  # nobody waits
        assert not memory.take(new, 50)
        slow.unsent_bytes -= int(SLOW_BYTES) - 1
        quick.unsent_bytes -= int(SLOW_BYTES)
        memory._check()
        assert slow.closed_for is not None
        assert "waited for memory" in slow.closed_for
        assert quick.closed_for is None
        memory.withdraw(slow)
        assert new.grants == 1

    _run(main)
