"""Effects are carried out in their order, and none before the election ahead of it is on disk."""

from __future__ import annotations

import asyncio

import pytest

from ottla.raft.driver.effect_queue import EffectQueue
from ottla.raft.effects import Effect, HighWatermarkAdvanced, LeaderChanged, LeadershipLost, PersistElection
from ottla.raft.election_state import ElectionState


class Shell:
    """A disk on which elections wait for `write`, and handlers that record effects."""

    def __init__(self) -> None:
        self.done: list[Effect | ElectionState] = []
        self.errors: list[Exception] = []
        self.writing: asyncio.Future[None] | None = None
        handlers = dict.fromkeys((HighWatermarkAdvanced, LeaderChanged, LeadershipLost), self.done.append)
        self.queue = EffectQueue(self._persist, handlers, self.errors.append)

    async def _persist(self, election: ElectionState) -> None:
        self.writing = asyncio.get_running_loop().create_future()
        await self.writing
        self.done.append(election)

    async def write(self, error: Exception | None = None) -> None:
        """Complete the write of an election, or fail it."""
        while self.writing is None or self.writing.done():
            await asyncio.sleep(0)
        if error is None:
            self.writing.set_result(None)
        else:
            self.writing.set_exception(error)
        await self.queue.close()


FIRST, SECOND = ElectionState(1), ElectionState(2)
COMMIT, LEADER = HighWatermarkAdvanced(7), LeaderChanged(3, 2)


def test_effects_that_need_no_disk_are_carried_out_at_once() -> None:
    async def test() -> None:
        shell = Shell()
        shell.queue.carry_out([COMMIT, LEADER])
        assert shell.done == [COMMIT, LEADER]
        await shell.queue.completed()

    asyncio.run(test())


def test_effects_after_an_election_wait_until_it_is_on_disk() -> None:
    async def test() -> None:
        shell = Shell()
        shell.queue.carry_out([COMMIT, PersistElection(FIRST), LEADER])
        completed = asyncio.ensure_future(shell.queue.completed())
        await asyncio.sleep(0)
        assert (shell.done, completed.done()) == ([COMMIT], False)
        await shell.write()
        await completed
        assert shell.done == [COMMIT, FIRST, LEADER]

    asyncio.run(test())


def test_of_elections_in_a_row_only_the_last_is_written() -> None:
    async def test() -> None:
        shell = Shell()
        shell.queue.carry_out([PersistElection(FIRST), PersistElection(SECOND), LEADER])
        await shell.write()
        assert shell.done == [SECOND, LEADER]

    asyncio.run(test())


def test_a_loss_of_leadership_does_not_wait_for_an_election() -> None:
    async def test() -> None:
        shell = Shell()
        shell.queue.carry_out([PersistElection(FIRST), LEADER, LeadershipLost(1)])
        assert shell.done == [LeadershipLost(1)]
        await shell.write()
        assert shell.done == [LeadershipLost(1), FIRST, LEADER]

    asyncio.run(test())


def test_after_a_failed_write_nothing_is_carried_out_and_waiting_tasks_get_the_error() -> None:
    async def test() -> None:
        shell = Shell()
        shell.queue.carry_out([PersistElection(FIRST), LEADER])
        completed = asyncio.ensure_future(shell.queue.completed())
        error = OSError("injected")
        await shell.write(error)
        assert shell.errors == [error]
        shell.queue.fail(error)
        with pytest.raises(OSError, match="injected"):
            await completed
        shell.queue.carry_out([COMMIT])
        assert shell.done == []

    asyncio.run(test())
