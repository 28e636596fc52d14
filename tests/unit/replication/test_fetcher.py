"""The fetch loop against a scripted leader: errors, truncations, changes during a fetch."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.reports import reported

from ottla.host import HostClock, HostDisk
from ottla.log.config import LogConfig
from ottla.log.log import Log
from ottla.records.batch import HEADER_BYTES
from ottla.records.record import Record, build_batch, read_records
from ottla.replication.fetcher import Fetcher, Fetchers, FetchSettings
from ottla.replication.throttle import Throttle
from ottla.wire.errors import ErrorCode, KafkaError, KafkaStorageError
from ottla.wire.messages.fetch import FetchRequest, FetchResponse

TOPIC_ID = b"t" * 16
EPOCH = 5


class Replica:
    def __init__(self, log: Log) -> None:
        self.topic, self.topic_id, self.index = "t", TOPIC_ID, 0
        self.leader_id, self.leader_epoch = 9, EPOCH
        self.log: Log | None = log
        self.moves = 0

    def watermark_moved(self) -> None:
        self.moves += 1


class Storage:
    def __init__(self) -> None:
        self.errors: list[OSError] = []

    async def truncate_to(self, log: Log, offset: int) -> bool:
        return log.truncate_to(offset)

    async def start_over(self, log: Log, offset: int) -> None:
        log.truncate_fully_and_start_at(offset)

    def storage_error(self, log: Log, error: OSError) -> KafkaError:
        self.errors.append(error)
        return KafkaStorageError(str(error))

    async def flush(self, log: Log) -> None:
        log.flush()


Answer = Callable[[FetchRequest], FetchResponse]


class Follower:
    """A fetcher, a log of three records of epoch 1, and scripted responses."""

    def __init__(self, directory: Path, disk: HostDisk) -> None:
        config = LogConfig()
        self.log = Log.open(disk, HostClock(), str(directory / "t-0"), config, topic="t", partition=0)
        for value in (b"a", b"b", b"c"):
            self.log.append(memoryview(batch(value)), leader_epoch=1, now_ms=0)
        self.replica = Replica(self.log)
        self.storage = Storage()
        self.requests: list[FetchRequest] = []
        self.broker_epoch = 7
        self.answers: list[Answer | Exception] = []

    def make(self, leader_id: int = 9, _number: int = 0) -> Fetcher:
        return Fetcher(
            leader_id,
            2,
            lambda: self.broker_epoch,
            clock=HostClock(),
            storage=self.storage,
            ask=self._ask,
            settings=FetchSettings(backoff_ms=1),
            throttle=Throttle(),
        )

    async def _ask(self, _leader_id: int, request: Any) -> FetchResponse:
        self.requests.append(request)
        if not self.answers:
            await asyncio.Event().wait()
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer(request)

    def run(self, *answers: Answer | Exception) -> None:
        """Run until all responses are used and the next request is sent."""
        self.answers = list(answers)

        async def main() -> None:
            fetchers = Fetchers(self.make, lambda: 1)
            fetchers.follow(self.replica)
            async with asyncio.timeout(10):
                while len(self.requests) <= len(answers):
                    await asyncio.sleep(0.001)
            await fetchers.close()

        asyncio.run(main())

    @property
    def last_asked(self) -> FetchRequest.FetchPartition:
        """The partition's part of its newest fetch request."""
        for request in reversed(self.requests):
            for topic in request.topics:
                return topic.partitions[0]
        raise AssertionError("nothing was asked")

    @property
    def values(self) -> list[bytes | None]:
        found = self.log.read(0, 1 << 20, limit_offset=self.log.log_end_offset)
        return [one.value for one in read_records(found.records)]


def batch(value: bytes, offset: int = 0, epoch: int = EPOCH) -> bytearray:
    made = build_batch([Record(0, 1, None, value)])
    made[:8] = offset.to_bytes(8, "big")
    made[12:16] = epoch.to_bytes(4, "big")
    return made


def answer(records: bytes = b"", session_id: int = 0, **fields: Any) -> Answer:
    data = FetchResponse.PartitionData(
        partition_index=0,
        records=memoryview(records),
        **{"high_watermark": 0, "log_start_offset": 0} | fields,
    )
    topic = FetchResponse.FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[data])
    return lambda _request: FetchResponse(session_id=session_id, responses=[topic])


@pytest.fixture
def follower(tmp_path: Path) -> Iterator[Follower]:
    disk = HostDisk(threads=1)
    made = Follower(tmp_path, disk)
    yield made
    made.log.close(clean=False)
    disk.close()


def test_fetched_records_are_appended_with_the_leaders_watermark(follower: Follower) -> None:
    follower.run(answer(bytes(batch(b"d", 3) + batch(b"e", 4)), high_watermark=4))
    assert follower.values == [b"a", b"b", b"c", b"d", b"e"]
    assert (follower.log.high_watermark, follower.replica.moves) == (4, 1)
    asked = follower.last_asked
    assert (asked.fetch_offset, asked.last_fetched_epoch, asked.current_leader_epoch) == (5, EPOCH, EPOCH)
    state = follower.requests[0].replica_state
    assert (state.replica_id, state.replica_epoch) == (2, 7)


def test_a_diverging_epoch_truncates_before_any_append(follower: Follower) -> None:
    follower.run(
        answer(diverging_epoch=FetchResponse.EpochEndOffset(epoch=1, end_offset=1), high_watermark=1),
        answer(bytes(batch(b"B", 1)), high_watermark=1),
    )
    assert follower.values == [b"a", b"B"]
    assert follower.log.epochs.latest_epoch == EPOCH


def test_damaged_bytes_are_not_appended_and_fetched_again(follower: Follower) -> None:
    damaged = batch(b"d", 3)
    damaged[HEADER_BYTES + 2] ^= 1
    follower.run(answer(bytes(damaged)), answer(bytes(batch(b"d", 3))))
    assert follower.values == [b"a", b"b", b"c", b"d"]
    assert [one.topics[0].partitions[0].fetch_offset for one in follower.requests] == [3, 3, 4]


def test_a_truncated_batch_is_fetched_again(follower: Follower) -> None:
    follower.run(answer(bytes(batch(b"d", 3) + batch(b"e", 4)[:40])))
    assert follower.values == [b"a", b"b", b"c", b"d"]


def test_records_of_a_later_epoch_are_dropped(follower: Follower) -> None:
    follower.run(answer(bytes(batch(b"d", 3) + batch(b"e", 4, EPOCH + 1))))
    assert follower.values == [b"a", b"b", b"c", b"d"]


def test_an_unreachable_leader_is_retried_in_a_new_session(follower: Follower) -> None:
    follower.run(answer(session_id=11), ConnectionResetError("gone"), answer(session_id=12))
    asked = [(one.session_id, one.session_epoch) for one in follower.requests]
    assert asked == [(0, 0), (11, 1), (11, 0), (12, 1)]


def test_a_leader_without_the_epoch_is_retried(follower: Follower) -> None:
    follower.run(
        answer(error_code=ErrorCode.UNKNOWN_LEADER_EPOCH),
        answer(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER),
        answer(bytes(batch(b"d", 3))),
    )
    assert follower.values[-1] == b"d"


def test_a_fenced_epoch_ends_the_fetching(follower: Follower) -> None:
    async def main() -> None:
        fetcher = follower.make()
        follower.answers = [answer(error_code=ErrorCode.FENCED_LEADER_EPOCH)]
        fetcher.follow(follower.replica, follower.log)
        task = asyncio.ensure_future(fetcher.run())
        async with asyncio.timeout(10):
            while fetcher.following.positions:
                await asyncio.sleep(0.001)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(main())
    assert len(follower.requests) == 1


def test_a_response_for_a_dropped_partition_is_ignored(follower: Follower) -> None:
    async def main() -> None:
        fetchers = Fetchers(follower.make, lambda: 1)
        late = asyncio.Event()

        def forget_first(_request: FetchRequest) -> FetchResponse:
            fetchers.forget((TOPIC_ID, 0))
            late.set()
            return answer(bytes(batch(b"d", 3)))(_request)

        follower.answers = [forget_first]
        fetchers.follow(follower.replica)
        async with asyncio.timeout(10):
            await late.wait()
            await asyncio.sleep(0.01)
        fetchers.end_idle()
        await fetchers.close()

    asyncio.run(main())
    assert follower.values == [b"a", b"b", b"c"]


def test_a_disk_error_is_reported_and_retried(follower: Follower, monkeypatch: pytest.MonkeyPatch) -> None:
    full = OSError(errno.ENOSPC, "full")
    append = Log.append_as_follower
    failures = [full]

    def fail_once(log: Log, *arguments: Any, **options: Any) -> Any:
        if failures:
            raise failures.pop()
        return append(log, *arguments, **options)

    monkeypatch.setattr(Log, "append_as_follower", fail_once)
    follower.run(answer(bytes(batch(b"d", 3))), answer(bytes(batch(b"d", 3))))
    assert follower.storage.errors == [full]
    assert follower.values[-1] == b"d"


def test_a_failed_flush_of_a_dropped_replica_is_not_reported(
    follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = []

    async def story() -> None:
        begun, go_on = asyncio.Event(), asyncio.Event()

        async def flush(_log: Log) -> None:
            begun.set()
            await go_on.wait()
            ended.append("flush")
            raise KafkaStorageError("The disk has failed.")

        monkeypatch.setattr(Log, "is_flush_due", True)
        monkeypatch.setattr(follower.storage, "flush", flush)
        follower.answers = [answer(bytes(batch(b"d", 3)))]
        fetchers = Fetchers(follower.make, lambda: 1)
        fetchers.follow(follower.replica)
        await begun.wait()
        await fetchers.close()
        assert ended == []
        go_on.set()
        while not ended:
            await asyncio.sleep(0)

    assert reported(story()) == []
    assert ended == ["flush"]


def test_nothing_is_fetched_before_the_broker_is_registered(follower: Follower) -> None:
    async def main() -> None:
        follower.broker_epoch = -1
        fetchers = Fetchers(follower.make, lambda: 1)
        fetchers.follow(follower.replica)
        await asyncio.sleep(0.02)
        assert follower.requests == []
        follower.broker_epoch = 8
        async with asyncio.timeout(10):
            while not follower.requests:
                await asyncio.sleep(0.01)
        await fetchers.close()

    asyncio.run(main())
    assert follower.requests[0].replica_state.replica_epoch == 8
