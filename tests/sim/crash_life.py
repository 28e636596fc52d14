"""A life of a node's log directory on a simulated disk, and what must be found after a loss of power.

Two partitions live in it: one that is written, rolled, truncated, shortened at its start and flushed, and one
that is compacted. After each step the test loses power in every legal way and starts again: `judge` says
whether what came back keeps the promises.

What was flushed is a promise: it is there, unless it was truncated or deleted since. What was not may be
gone, from the end on; and whatever is there is a prefix of one of the contents that the log had in turn.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from ottla.log.config import LogConfig
from ottla.log.directories import DirectoriesConfig, LogDirectories
from ottla.log.log import Log
from ottla.log.properties import MetaProperties, write_meta
from ottla.records.batch import iterate_headers
from ottla.records.record import Record, build_batch
from ottla.testing.world.disk import Model, SimulatedDisk, Storage
from ottla.testing.world.random import SimulatedRandom
from tests.unit.log.support import START_MS, FakeClock, append, batch, end_transaction, produced, read_all

PLAIN, COMPACTED = ("plain", 0), ("compacted", 0)
TOPIC_IDS = {"plain": bytes(range(16)), "compacted": bytes(range(1, 17))}
CONFIGS = {
    "plain": LogConfig(segment_bytes=1700, index_interval_bytes=100, file_delete_delay_ms=0),
    "compacted": LogConfig(
        segment_bytes=600,
        cleanup_policy=frozenset(("compact",)),
        min_cleanable_dirty_ratio=0.0,
        file_delete_delay_ms=0,
    ),
}

_T = TypeVar("_T")


class InstantDisk(SimulatedDisk):
    """Blocking work is done when it is asked for: only the order of changes matters here, not time."""

    def offload(self, work: Callable[..., _T], *arguments: Any) -> Awaitable[_T]:
        outcome: asyncio.Future[_T] = asyncio.get_running_loop().create_future()
        try:
            outcome.set_result(work(*arguments))
        except OSError as error:
            outcome.set_exception(error)
        return outcome


def directories_on(disk: SimulatedDisk) -> LogDirectories:
    return LogDirectories(
        disk,
        FakeClock(),
        SimulatedRandom(random.Random(1)),
        DirectoriesConfig(paths=("/d",)),
        log_config=lambda topic: CONFIGS[topic],
        on_offline=lambda directory, partitions: None,
        on_moved=lambda partition, log: None,
    )


class Life:
    """What was done so far, step by step."""

    def __init__(self, seed: int, model: Model) -> None:
        self.chance = random.Random(seed)
        self.disk = InstantDisk(random.Random(seed), model=model)
        self.steps: list[str] = []
        self.contents: list[list[bytes]] = [[]]  # of the plain log: up to each truncation, and now
        self.ends = [0]  # of its batches
        self.flushed = 0  # the plain log is promised up to here
        self.start = 0
        self.keys: list[tuple[bytes, bytes]] = []  # of the compacted log, by offset
        self.keys_flushed = 0
        self.epoch = 0
        self.producer, self.sequence = 7, 0
        self.number = 0

    async def begin(self) -> None:
        self.disk.make_directory("/d")
        meta = MetaProperties(cluster_id="5L6g3nShT-eMCtK--X86sw", node_id=1, directory_id=bytes([100]) * 16)
        write_meta(self.disk, "/d", meta, START_MS)
        self.disk.storage.sync_all()
        self.directories = directories_on(self.disk)
        self.directories.open(node_id=1)
        await self.directories.load()
        self.plain = self.directories.create(*PLAIN, TOPIC_IDS["plain"])
        self.compacted = self.directories.create(*COMPACTED, TOPIC_IDS["compacted"])

    async def step(self) -> str:
        """Do something; what it was."""
        name, weight = zip(*STEPS, strict=True)
        chosen = self.chance.choices(name, weight)[0]
        self.steps.append(chosen.__name__)
        await chosen(self)
        return str(chosen.__name__)

    # Steps

    async def append(self) -> None:
        for _ in range(self.chance.randrange(1, 4)):
            self.number += 1
            count = self.chance.randrange(1, 4)
            value = b"%d" % self.number + b"." * self.chance.choice((0, 20, 500))
            if self.chance.random() < 0.4:
                data = produced(self.producer, self.sequence, count, value=value)
                self.sequence += count
            else:
                data = batch(count, value=value, timestamp=START_MS + self.number)
            append(self.plain, data, leader_epoch=self.epoch)
            self.contents[-1].extend([value] * count)
            self.ends.append(self.plain.log_end_offset)

    async def abort_a_transaction(self) -> None:
        self.number += 1
        value = b"t%d" % self.number
        append(
            self.plain,
            produced(1000 + self.number, 0, transactional=True, value=value),
            leader_epoch=self.epoch,
        )
        end_transaction(self.plain, 1000 + self.number, commit=False)
        self.contents[-1].extend([value, b"marker"])
        self.ends.append(self.plain.log_end_offset)

    async def flush(self) -> None:
        await self.directories.flush(self.plain)
        self.flushed = self.plain.recovery_point

    async def checkpoint(self) -> None:
        await self.directories.checkpoint_recovery_points()
        await self.directories.checkpoint_log_starts()
        await self.directories.checkpoint_high_watermarks()

    async def truncate(self) -> None:
        """As a follower that finds that it has more than its new leader."""
        ends = [end for end in self.ends if self.start <= end < self.plain.log_end_offset]
        if not ends:
            return
        offset = self.chance.choice(ends[-4:])
        await self.directories.truncate_to(self.plain, offset)
        self.epoch += 1
        self.ends = [end for end in self.ends if end <= offset]
        self.contents.append(self.contents[-1][:offset])
        self.flushed = min(self.flushed, offset)
        self.producer += 1
        self.sequence = 0

    async def delete_records(self) -> None:
        end = self.plain.log_end_offset
        offset = self.chance.randrange(self.start, end + 1)
        self.plain.increase_log_start_offset(offset, "a test")
        self.start = max(self.start, offset)
        await self.directories.checkpoint_log_starts()
        await self.directories.retain()
        await self.directories.delete_due()

    async def append_keys(self) -> None:
        for _ in range(self.chance.randrange(1, 5)):
            self.number += 1
            pair = (b"k%d" % self.chance.randrange(4), b"%d" % self.number + b"." * 100)
            append(self.compacted, memoryview(build_batch([Record(0, START_MS, *pair)])))
            self.keys.append(pair)

    async def flush_keys(self) -> None:
        await self.directories.flush(self.compacted)
        self.keys_flushed = self.compacted.recovery_point

    async def clean(self) -> None:
        while await self.directories.cleaner.clean_next():
            self.keys_flushed = max(self.keys_flushed, 0)
        await self.directories.delete_due()

    # After the loss of power

    async def judge(self, storage: Storage) -> str | None:
        """Start again on what is left. What is wrong with it, or None."""
        disk = InstantDisk(random.Random(1), storage=storage)
        directories = directories_on(disk)
        directories.open(node_id=1)
        await directories.load()
        if directories.offline_partitions:
            return f"cannot be served: {directories.offline_partitions}"
        return self._judge_plain(directories.logs.get(PLAIN)) or self._judge_compacted(
            directories.logs.get(COMPACTED)
        )

    def _judge_plain(self, log: Log | None) -> str | None:
        if log is None:
            return "the plain log is gone" if self.flushed else None
        promised = self.flushed
        if log.log_end_offset < promised:
            return f"the plain log ends at {log.log_end_offset}, flushed to {promised}"
        if log.log_start_offset > self.start and not self._may_lose_names(promised, self.start):
            return f"the plain log starts at {log.log_start_offset}, not {self.start}"
        found = [record.value if record.value is not None else b"" for record in read_all(log)]
        if len(found) != log.log_end_offset - log.log_start_offset:
            return f"{len(found)} records from {log.log_start_offset} to {log.log_end_offset}"
        start, end = log.log_start_offset, log.log_end_offset
        if not any(_is_prefix(content, start, end, found) for content in self.contents):
            return f"records from {start} to {end} are none that the log ever had: {found}"
        if not _is_prefix(self.contents[-1], start, min(promised, end), found[: max(promised - start, 0)]):
            return f"what was flushed, to {promised}, is not what is there: {found}"
        if log.producers.end_offset != end:
            return f"producers are known to {log.producers.end_offset}, the log ends at {end}"
        return _lookups(log)

    def _may_lose_names(self, flushed: int, start: int) -> bool:
        """A file system that keeps no order of names can lose a segment and keep the one behind it, as long
        as nothing of it was flushed. None of those in use does."""
        return self.disk.storage.model == "posix" and flushed <= start

    def _judge_compacted(self, log: Log | None) -> str | None:
        if log is None:
            return "the compacted log is gone" if self.keys_flushed else None
        if log.log_end_offset < self.keys_flushed:
            return f"the compacted log ends at {log.log_end_offset}, flushed to {self.keys_flushed}"
        first = log.log_start_offset if self._may_lose_names(self.keys_flushed, 0) else 0
        wanted = dict(self.keys[first : log.log_end_offset])
        records = read_all(log)
        for record in records:
            if self.keys[record.offset] != (record.key, record.value):
                return f"{record} is not what was written at {record.offset}"
        found = {record.key: record.value for record in records}
        if found != wanted:
            return f"compacted to {found}, should be {wanted}"
        return None


def _is_prefix(content: list[bytes], start: int, end: int, found: list[bytes]) -> bool:
    """Whether the records from `start` to `end` are those of `content`; a marker's value is its own."""
    if end > len(content):
        return False
    return all(
        mine == theirs or mine == b"marker" for mine, theirs in zip(content[start:end], found, strict=False)
    )


def _lookups(log: Log) -> str | None:
    """Every offset is found by the indexes where it is, and so is every timestamp."""
    records = read_all(log)
    for record in records:
        data = log.read(record.offset, 1, limit_offset=log.log_end_offset).records
        header = next((header for _, header in iterate_headers(data)), None)
        if header is None or not header.base_offset <= record.offset < header.next_offset:
            return f"offset {record.offset} is not found where it is"
    if len(log.segments) > 1 and log.segments[1].base_offset <= log.log_start_offset:
        return None  # deleted segments came back; until they go again times are sought in them, as in Kafka
    for wanted in sorted({record.timestamp for record in records}):
        naive = next(record.offset for record in records if record.timestamp >= wanted)
        found = log.offset_for_timestamp(wanted)
        if found is None or found.offset != naive:
            return f"timestamp {wanted} is found at {found}, is at {naive}"
    return None


STEPS: list[tuple[Callable[[Life], Awaitable[None]], int]] = [
    (Life.append, 8),
    (Life.abort_a_transaction, 1),
    (Life.flush, 3),
    (Life.checkpoint, 2),
    (Life.truncate, 2),
    (Life.delete_records, 1),
    (Life.append_keys, 4),
    (Life.flush_keys, 1),
    (Life.clean, 2),
]
