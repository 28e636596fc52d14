"""A shard loaded from batches as they lie in a log: plain, compressed, of transactions, with their ends."""

from __future__ import annotations

from typing import Any, cast

import pytest
from tests.unit.coordinator.groups.shards import KINDS, START_MS, ShardOfTests

from ottla.coordinator.records import encode
from ottla.coordinator.result import Record
from ottla.coordinator.shard_loader import Progress, load_steps
from ottla.log.log import Log
from ottla.records.batch import Codec
from ottla.records.control import end_txn_marker
from ottla.records.record import Record as LogRecord
from ottla.records.record import build_batch
from ottla.wire.errors import CorruptMessage
from ottla.wire.messages.group_records import GroupMetadataKey, OffsetCommitKey, OffsetCommitValue


class LogOfTests:
    """Batches one after the other, read a few bytes at a time."""

    log_start_offset = 0

    def __init__(self, read_bytes: int = 1 << 20) -> None:
        self.log_end_offset = 0
        self._batches: list[tuple[int, bytes]] = []
        self._read_bytes = read_bytes

    def add(self, *records: Record, **options: Any) -> None:
        stored = [LogRecord(0, START_MS, *encode(record), ()) for record in records]
        self.add_batch(build_batch(stored, base_offset=self.log_end_offset, **options), len(stored))

    def add_batch(self, batch: bytes | bytearray, count: int) -> None:
        self._batches.append((self.log_end_offset, bytes(batch)))
        self.log_end_offset += count

    def break_last(self) -> None:
        offset, batch = self._batches[-1]
        self._batches[-1] = (offset, batch[:-1] + bytes([batch[-1] ^ 1]))

    def read(self, offset: int, _max_bytes: int, *, limit_offset: int) -> Any:
        found = b""
        ends = [base for base, _ in self._batches[1:]] + [self.log_end_offset]
        for (_base, batch), end in zip(self._batches, ends, strict=True):
            if end <= offset:
                continue
            if found and len(found) + len(batch) > self._read_bytes:
                break
            found += batch
        return type("Read", (), {"records": found})


def commit(partition: int, offset: int, group: str = "g") -> Record:
    key = OffsetCommitKey(group=group, topic="a", partition=partition)
    return Record(key, OffsetCommitValue(offset=offset, commit_timestamp=START_MS), 4)


def load(log: LogOfTests) -> tuple[ShardOfTests, Progress]:
    tests = ShardOfTests(a=3)
    progress = Progress(0, log.log_end_offset)
    for _ in load_steps(cast(Log, log), tests.shard, KINDS, progress):
        pass
    tests.take(tests.shard.on_loaded())
    return tests, progress


@pytest.mark.parametrize("read_bytes", [1, 300, 1 << 20])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_the_order_of_commits_and_transactions_is_that_of_the_log(read_bytes: int, codec: Codec) -> None:
    log = LogOfTests(read_bytes)
    transaction = {"transactional": True, "producer_id": 7, "producer_epoch": 0}
    log.add(commit(0, 1), commit(1, 1), commit(2, 1), codec=codec)
    log.add(commit(0, 2), commit(1, 2), **transaction)
    log.add(commit(1, 3), codec=codec)
    log.add(commit(2, 4), codec=codec)
    marker = end_txn_marker(
        commit=True,
        producer_id=7,
        producer_epoch=0,
        coordinator_epoch=0,
        timestamp=START_MS,
        base_offset=log.log_end_offset,
    )
    log.add_batch(marker, 1)
    log.add(commit(0, 9), producer_id=8, producer_epoch=0, transactional=True)
    tests, progress = load(log)
    assert tests.fetch("g") == {("a", 0): 2, ("a", 1): 3, ("a", 2): 4}
    assert set(tests.shard.offsets.store.pending_of("g")) == {("a", 0)}
    assert progress.next_offset == log.log_end_offset
    assert progress.record_count == 8


def test_groups_and_offsets_of_one_batch_do_not_depend_on_their_order() -> None:
    gone = Record(GroupMetadataKey(group="gone"), None)
    log = LogOfTests()
    log.add(commit(0, 1, "gone"), gone, commit(0, 5), Record(commit(0, 1, "gone").key, None))
    tests, _ = load(log)
    assert tests.listed() == ["g"]


def test_a_broken_batch_stops_the_load() -> None:
    log = LogOfTests()
    log.add(commit(0, 1))
    log.add(commit(0, 2))
    log.break_last()
    with pytest.raises(CorruptMessage):
        load(log)
