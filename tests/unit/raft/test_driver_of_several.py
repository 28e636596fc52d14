"""The driver of one of two voters: votes are on disk before responses, and a former leader drops records."""

from __future__ import annotations

import asyncio
import errno
import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar, TypeVarTuple

import pytest
from tests.unit.raft.listener import RecordingListener

from ottla.host import HostClock, HostDisk, HostRandom
from ottla.raft.driver import DIRECTORY_NAME, Driver, DriverConfig
from ottla.raft.effects import SendRequest
from ottla.raft.election_state import FILE_NAME
from ottla.raft.events import TimePassed
from ottla.raft.messages import BeginEpoch, Response, Vote
from ottla.raft.replica import NotLeader, Timeouts
from ottla.raft.roles import Leader
from ottla.raft.voters import ReplicaKey, Voter, VoterEndpoint, VoterSet
from ottla.wire.errors import ErrorCode, KafkaStorageError

_T = TypeVar("_T")
_Ts = TypeVarTuple("_Ts")

OWN = ReplicaKey(1, b"1" * 16)
OTHER = ReplicaKey(2, b"2" * 16)


class LeapingClock(HostClock):
    passed_seconds = 0

    def monotonic(self) -> float:
        return super().monotonic() + self.passed_seconds


class GatedDisk(HostDisk):
    """A disk whose writes of the election wait until the gate is open, or fail with `error`."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.gate.set()
        self.error = 0

    async def offload_urgent(self, work: Callable[[*_Ts], _T], *arguments: *_Ts) -> _T:
        if work.__name__ == "write_election":
            await self.gate.wait()
            if self.error:
                raise OSError(self.error, "injected")
        return await super().offload_urgent(work, *arguments)


class OneOfTwo:
    """A voter of two; the test plays the other one. Its timeouts are too long to start an election."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.disk = GatedDisk()
        self.clock = LeapingClock()
        self.listener = RecordingListener()
        self.sent: list[SendRequest] = []
        config = DriverConfig(
            directory=str(directory),
            local=Voter(OWN, (VoterEndpoint("CONTROLLER", "localhost", 1),)),
            static_voters=VoterSet.static({1: ("localhost", 1), 2: ("localhost", 2)}, "CONTROLLER"),
            timeouts=Timeouts(10**9, 10**9, 0),
        )
        self.driver: Driver[bytes] = Driver(self.disk, self.clock, HostRandom(), config, self.listener, bytes)
        self.driver.on_ask = self.sent.append

    async def __aenter__(self) -> OneOfTwo:
        await self.driver.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.disk.gate.set()
        await self.driver.stop()
        self.disk.close()

    @property
    def election(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.directory / DIRECTORY_NAME / FILE_NAME).read_bytes())
        return found

    async def until(self, condition: Callable[[], object]) -> None:
        while not condition():
            await asyncio.sleep(0)

    async def win(self) -> int:
        """Win an election; its epoch."""
        driver = self.driver
        driver._act(driver.replica.step(TimePassed(10**12)))
        for _ in ("pre-vote", "vote"):
            await self.until(lambda: self.sent)
            request = self.sent.pop().request
            assert isinstance(request, Vote)
            self.sent.clear()
            driver.take_answer(2, request, Response(ErrorCode.NONE, -1, request.epoch, is_granted=True))
        assert isinstance(driver.replica.role, Leader)
        await self.until(lambda: driver.replica.end_offset > 0)
        return driver.replica.epoch


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), 30))


def test_a_vote_is_on_disk_before_the_response(tmp_path: Path) -> None:
    async def test() -> None:
        async with OneOfTwo(tmp_path) as voter:
            voter.disk.gate.clear()
            answer = asyncio.ensure_future(voter.driver.answer(Vote(5, OTHER, 0, 0, is_pre_vote=False)))
            for _ in range(20):
                await asyncio.sleep(0)
            assert not answer.done()
            assert voter.election["leaderEpoch"] == 0
            voter.disk.gate.set()
            assert (await answer).is_granted
            assert (voter.election["leaderEpoch"], voter.election["votedId"]) == (5, 2)

    run(test)


def test_a_vote_that_cannot_be_written_is_not_granted(tmp_path: Path) -> None:
    async def test() -> None:
        async with OneOfTwo(tmp_path) as voter:
            voter.disk.error = errno.EIO
            with pytest.raises(KafkaStorageError):
                await voter.driver.answer(Vote(5, OTHER, 0, 0, is_pre_vote=False))
            assert voter.driver.failure.done()
            with pytest.raises(KafkaStorageError):
                await voter.driver.answer(Vote(6, OTHER, 0, 0, is_pre_vote=False))

    run(test)


def test_a_vote_waits_for_space_on_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.raft.driver.disk_space.RETRY_SECONDS", 0)

    async def test() -> None:
        async with OneOfTwo(tmp_path) as voter:
            voter.disk.error = errno.ENOSPC
            answer = asyncio.ensure_future(voter.driver.answer(Vote(5, OTHER, 0, 0, is_pre_vote=False)))
            await voter.until(lambda: voter.driver.is_disk_full)
            for _ in range(20):
                await asyncio.sleep(0)
            assert not answer.done()
            assert not voter.driver.failure.done()
            voter.disk.error = 0
            assert (await answer).is_granted
            assert (voter.election["leaderEpoch"], voter.election["votedId"]) == (5, 2)
            assert not voter.driver.is_disk_full

    run(test)


def test_a_voter_that_waits_for_space_starts_no_election(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.raft.driver.disk_space.RETRY_SECONDS", 0)

    async def test() -> None:
        async with OneOfTwo(tmp_path) as voter:
            driver, timer = voter.driver, voter.driver._timer

            def let_time_pass() -> None:
                voter.clock.passed_seconds += 3 * 10**6
                timer.cancel()
                timer._due_ms = driver._now_ms()
                timer._fire()

            voter.disk.error = errno.ENOSPC
            answer = asyncio.ensure_future(driver.answer(Vote(5, OTHER, 0, 0, is_pre_vote=False)))
            await voter.until(lambda: driver.is_disk_full)
            waiting = len(driver._effects._queue)
            for _ in range(20):
                let_time_pass()
            assert len(driver._effects._queue) == waiting
            assert voter.sent == []
            voter.disk.error = 0
            assert (await answer).is_granted
            let_time_pass()
            await voter.until(lambda: voter.sent)

    run(test)


def test_a_voter_that_waits_for_space_can_be_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.raft.driver.disk_space.RETRY_SECONDS", 0)

    async def test() -> None:
        async with OneOfTwo(tmp_path) as voter:
            voter.disk.error = errno.ENOSPC
            answer = asyncio.ensure_future(voter.driver.answer(Vote(5, OTHER, 0, 0, is_pre_vote=False)))
            await voter.until(lambda: voter.driver.is_disk_full)
        await asyncio.gather(answer, return_exceptions=True)
        assert voter.election["votedId"] != 2

    run(test)


def test_the_listener_leads_once_the_first_record_of_the_epoch_is_committed(tmp_path: Path) -> None:
    async def test() -> None:
        async with OneOfTwo(tmp_path) as voter:
            epoch = await voter.win()
            assert voter.listener.led == []
            voter.driver.fetched_by(OTHER, 1)
            assert voter.listener.led == [epoch]
            voter.driver.append([b"a"], [b"a"])
            await voter.until(lambda: voter.driver.replica.end_offset == 2)
            assert voter.listener.records == []
            voter.driver.fetched_by(OTHER, 2)
            assert voter.listener.records == [b"a"]

    run(test)


def test_a_former_leader_drops_what_it_has_not_written(tmp_path: Path) -> None:
    async def test() -> None:
        async with OneOfTwo(tmp_path) as voter:
            driver = voter.driver
            epoch = await voter.win()
            driver.fetched_by(OTHER, 1)
            driver.append([b"never written"], [b"never written"])
            committing = asyncio.ensure_future(driver.committed(1))
            answer = asyncio.ensure_future(driver.answer(BeginEpoch(2, epoch + 1)))
            assert (await answer).error is ErrorCode.NONE
            assert voter.listener.resigned == [epoch]
            with pytest.raises(NotLeader):
                await committing
            with pytest.raises(NotLeader):
                driver.append([b"b"], [b"b"])
            assert driver.next_offset == driver.log.log_end_offset
            assert driver.is_following(2, epoch + 1)

    run(test)
