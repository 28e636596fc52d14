"""The life of a node's log directories on a simulated disk, and the checks after a power loss.

It has two partitions: a plain one that is written, rolled, truncated, shortened at its start and flushed, and
a compacted one. There are several kinds of lives (`KINDS`): logs alone, a follower that copies a log with
gaps, and moves between two directories on separate file systems. After each step, and at each sync within it,
the test loses power in every legal way and starts again: `judge` checks the guarantees.

Flushed records survive, unless they were truncated or deleted since. Unflushed ones may be lost from the end
on; the remaining ones are a prefix of one of the successive contents of the log. If only the process was
killed, everything survives.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias, TypeVar, TypeVarTuple

from ottla.log.checkpoints import Partition
from ottla.log.config import LogConfig
from ottla.log.directories.log_directories import DirectoriesConfig, LogDirectories
from ottla.log.directories.properties import MetaProperties, write_meta
from ottla.log.log import Log
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
_Ts = TypeVarTuple("_Ts")


class InstantDisk(SimulatedDisk):
    """Executes blocking work at once: only the order of changes matters here, not time.

    `moments` has the contents before each sync: the states at which power may be lost within a step.
    """

    moments: list[Storage] | None = None

    def step(self, operation: str, path: str) -> None:
        if self.moments is not None and operation in ("fsync", "sync_directory") and self.storage.pending:
            self.moments.append(self.storage.copy())
        super().step(operation, path)

    def offload(self, work: Callable[[*_Ts], _T], *arguments: *_Ts) -> Awaitable[_T]:
        outcome: asyncio.Future[_T] = asyncio.get_running_loop().create_future()
        try:
            outcome.set_result(work(*arguments))
        except OSError as error:
            outcome.set_exception(error)
        return outcome


def directories_on(
    disk: SimulatedDisk, paths: tuple[str, ...], on_moved: Callable[[Partition, Log], None]
) -> LogDirectories:
    return LogDirectories(
        disk,
        FakeClock(),
        SimulatedRandom(random.Random(1)),
        DirectoriesConfig(paths=paths, delete_delay_ms=0),
        log_config=lambda topic: CONFIGS[topic],
        on_offline=lambda directory, partitions: None,
        on_moved=on_moved,
    )


Step: TypeAlias = Callable[["Life"], Awaitable[None]]


class Life:
    """The steps so far."""

    def __init__(self, seed: int, model: Model, kind: str = "log") -> None:
        self.kind = kind
        self.paths = ("/a", "/b") if kind == "move" else ("/a",)
        self.rng = random.Random(seed)
        self.disk = InstantDisk(random.Random(seed), model=model)
        self.steps: list[str] = []
        self.contents: list[list[bytes]] = [[]]  # of the plain log: before each truncation, and now
        self.ends = [0]  # of its batches
        self.flushed = 0  # the plain log is flushed up to here
        self.start = 0
        # Of the compacted log, by offset, before each truncation and now; None for compacted records.
        self.keys: list[list[tuple[bytes, bytes] | None]] = [[]]
        self.keys_flushed = 0
        self.flushed_before = self.keys_flushed_before = 0  # flushed before this step
        self.cut: tuple[Partition, int] | None = None  # by this step
        self.epoch = 0
        self.producer, self.sequence = 7, 0
        self.number = 0

    async def begin(self) -> None:
        for number, path in enumerate(self.paths):
            self.disk.mount(path)
            meta = MetaProperties(
                cluster_id="5L6g3nShT-eMCtK--X86sw", node_id=1, directory_id=bytes([100 + number]) * 16
            )
            write_meta(self.disk, path, meta, START_MS)
        self.disk.storage.sync_all()
        self.directories = directories_on(self.disk, self.paths, self._moved)
        self.directories.open(node_id=1)
        await self.directories.load()
        self.plain = self.directories.create(*PLAIN, TOPIC_IDS["plain"])
        self.compacted = self.directories.create(*COMPACTED, TOPIC_IDS["compacted"])
        self.disk.moments = []

    def _moved(self, partition: Partition, log: Log) -> None:
        if partition == PLAIN:
            self.plain = log
        else:
            self.compacted = log

    async def step(self, chosen: Step | None = None) -> list[Storage]:
        """Take a step; return the moments within it, and the one after it."""
        if chosen is None:
            name, weight = zip(*STEPS[self.kind], strict=True)
            chosen = self.rng.choices(name, weight)[0]
        self.steps.append(chosen.__name__)
        self.flushed_before, self.keys_flushed_before = self.flushed, self.keys_flushed
        self.disk.moments = []
        self.cut = None
        await chosen(self)
        return [*self.disk.moments, self.disk.storage]

    # Steps

    async def append(self) -> None:
        for _ in range(self.rng.randrange(1, 4)):
            self.number += 1
            count = self.rng.randrange(1, 4)
            value = b"%d" % self.number + b"." * self.rng.choice((0, 20, 500))
            if self.rng.random() < 0.4:
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
        """Truncate like a follower with more records than its new leader."""
        ends = [end for end in self.ends if self.start <= end < self.plain.log_end_offset]
        if not ends:
            return
        offset = self.rng.choice(ends[-4:])
        self.cut = (PLAIN, offset)
        await self.directories.truncate_to(self.plain, offset)
        self.epoch += 1
        self.ends = [end for end in self.ends if end <= offset]
        self.contents.append(self.contents[-1][:offset])
        self.flushed = min(self.flushed, offset)
        self.producer += 1
        self.sequence = 0

    async def delete_records(self) -> None:
        end = self.plain.log_end_offset
        offset = self.rng.randrange(self.start, end + 1)
        self.plain.increase_log_start_offset(offset, "a test")
        self.start = max(self.start, offset)
        await self.directories.checkpoint_log_starts()
        await self.directories.retain()
        await self.directories.delete_due()

    async def append_keys(self) -> None:
        for _ in range(self.rng.randrange(1, 5)):
            pair = self._pair()
            append(self.compacted, memoryview(build_batch([Record(0, START_MS, *pair)])))
            self.keys[-1].append(pair)

    def _pair(self) -> tuple[bytes, bytes]:
        self.number += 1
        return b"k%d" % self.rng.randrange(4), b"%d" % self.number + b"." * 100

    async def fetch_keys(self) -> None:
        """Fetch like a follower of a leader that has compacted its log."""
        content, keys = b"", self.keys[-1]
        for _ in range(self.rng.randrange(1, 5)):
            keys += [None] * self.rng.choice((0, 0, 1, 5))
            pair = self._pair()
            content += build_batch(
                [Record(0, START_MS, *pair)], base_offset=len(keys), leader_epoch=self.epoch
            )
            keys.append(pair)
            if self.rng.random() < 0.5:
                self.compacted.append_as_follower(memoryview(bytearray(content)))
                content = b""
        if content:
            self.compacted.append_as_follower(memoryview(bytearray(content)))
        self.compacted.advance_high_watermark(self.compacted.log_end_offset)

    async def truncate_keys(self) -> None:
        """Truncate above the compacted part, possibly between two batches."""
        first = self.directories.cleaner.cleaned_offset(COMPACTED, self.compacted) or 0
        end = self.compacted.log_end_offset
        if first >= end:
            return
        offset = self.rng.randrange(first, end)
        self.cut = (COMPACTED, offset)
        await self.directories.truncate_to(self.compacted, offset)
        self.epoch += 1
        self.keys.append(self.keys[-1][:offset])
        self.keys_flushed = min(self.keys_flushed, self.compacted.data_end_offset)

    async def flush_rolled(self) -> None:
        await self.directories.flush_due()

    async def move(self) -> None:
        log = self.rng.choice((self.plain, self.compacted))
        self.directories.move(log.topic, log.partition, self.rng.choice(self.paths))

    async def move_plain(self) -> None:
        self._move_away(self.plain)

    async def move_compacted(self) -> None:
        self._move_away(self.compacted)

    def _move_away(self, log: Log) -> None:
        other = next(path for path in self.paths if not log.directory.startswith(path))
        self.directories.move(log.topic, log.partition, other)

    async def copy_once(self) -> None:
        await self.directories.copy_futures()

    async def copy(self) -> None:
        for _ in range(self.rng.randrange(1, 4)):
            await self.directories.copy_futures()
        await self.directories.delete_due()

    async def flush_keys(self) -> None:
        await self.directories.flush(self.compacted)
        self.keys_flushed = self.compacted.data_end_offset

    async def clean(self) -> None:
        while await self.directories.cleaner.clean_next():
            pass
        await self.directories.delete_due()

    # After a power loss

    async def judge(
        self, storage: Storage, *, is_within: bool = False, is_killed: bool = False
    ) -> str | None:
        """Start again on the remaining content: within the last step, after it, or after a kill of the
        process. Return the error, or None."""
        disk = InstantDisk(random.Random(1), storage=storage)
        directories = directories_on(disk, self.paths, lambda partition, log: None)
        directories.open(node_id=1)
        await directories.load()
        flushed, keys_flushed = self.flushed, self.keys_flushed
        if is_within:
            flushed, keys_flushed = (
                min(flushed, self.flushed_before),
                min(keys_flushed, self.keys_flushed_before),
            )
        elif is_killed:
            flushed, keys_flushed = self.plain.log_end_offset, self.compacted.data_end_offset
        if is_within and self.cut is not None and storage.model == "posix":
            return self._judge_cut(directories, self.cut)
        wrong = self._judge(directories, flushed, keys_flushed)
        if wrong or not directories.futures:
            return wrong
        while await directories.copy_futures():
            pass
        wrong = self._judge(directories, flushed, keys_flushed)
        return f"after the moves have gone on, {wrong}" if wrong else None

    def _judge_cut(self, directories: LogDirectories, cut: tuple[Partition, int]) -> str | None:
        """Without order of names, a file system may bring back only some of the segments that a truncation
        renamed. The log below the truncation must exist, and the rest must be as it was written."""
        partition, offset = cut
        log = directories.logs.get(partition)
        if log is None:
            return "the log that was truncated is gone" if self.flushed or self.keys_flushed else None
        records = {record.offset: (record.key, record.value) for record in read_all(log)}
        if partition == PLAIN:
            promised = min(self.flushed, self.flushed_before, offset)
            missing = [at for at in range(log.log_start_offset, promised) if at not in records]
            if missing:
                return f"{missing} of the plain log, truncated to {offset}, are missing"
        else:
            promised = min(self.keys_flushed, self.keys_flushed_before, offset)
            wanted = {pair[0]: at for at, pair in enumerate(self.keys[-2][:promised]) if pair is not None}
            newest = {key: at for at, (key, _) in records.items()}
            lost = [key for key, at in wanted.items() if newest.get(key, -1) < at]
            if lost:
                return f"{lost}, flushed to {promised} and not written again, are missing: {newest}"
        written = [value for _, value in records.values()]
        known = [value for content in self.contents for value in content]
        known += [pair[1] for keys in self.keys for pair in keys if pair is not None]
        is_marker = b"marker" in known
        strange = [value for value in written if value not in known and not is_marker]
        return f"{strange} was never written" if strange else None

    def _judge(self, directories: LogDirectories, flushed: int, keys_flushed: int) -> str | None:
        for topic, partition in list(directories.futures):  # as the node does for known replicas
            directories.create(topic, partition, TOPIC_IDS[topic], is_new=False)
        if directories.hosted.offline_partitions:
            return f"cannot be served: {directories.hosted.offline_partitions}"
        return self._judge_plain(directories.logs.get(PLAIN), flushed) or self._judge_compacted(
            directories.logs.get(COMPACTED), keys_flushed
        )

    def _judge_plain(self, log: Log | None, promised: int) -> str | None:
        if log is None:
            return "the plain log is gone" if promised else None
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
        """Without order of names, a file system can lose a segment and keep the next one, if nothing of it
        was flushed. No file system in use does."""
        return self.disk.storage.model == "posix" and flushed <= start

    def _judge_compacted(self, log: Log | None, promised: int) -> str | None:
        if log is None:
            return "the compacted log is gone" if promised else None
        if log.log_end_offset < promised:
            return f"the compacted log ends at {log.log_end_offset}, flushed to {promised}"
        first = log.log_start_offset if self._may_lose_names(promised, 0) else 0
        end = log.log_end_offset
        records = read_all(log)
        bases = [segment.base_offset for segment in log.segments]
        ends = [segment.read_next_offset() for segment in log.segments]
        if any(after > base for after, base in zip(ends, bases[1:], strict=False)):
            return f"segments from {bases} to {ends} overlap"
        found = {record.key: record.value for record in records}
        for keys in self.keys:
            wanted = dict(pair for pair in keys[first:end] if pair is not None)
            is_of_these = end <= len(keys) and all(
                keys[record.offset] == (record.key, record.value) for record in records
            )
            if is_of_these and found == wanted:
                return None
        return f"compacted to {found} from {first} to {end}, should be {wanted}"


def _is_prefix(content: list[bytes], start: int, end: int, found: list[bytes]) -> bool:
    """Whether the records from `start` to `end` match `content`; a marker has its own value."""
    if end > len(content):
        return False
    return all(
        mine == theirs or mine == b"marker" for mine, theirs in zip(content[start:end], found, strict=False)
    )


def _lookups(log: Log) -> str | None:
    """The indexes find every offset and every timestamp."""
    records = read_all(log)
    for record in records:
        data = log.read(record.offset, 1, limit_offset=log.log_end_offset).records
        header = next((header for _, header in iterate_headers(data)), None)
        if header is None or not header.base_offset <= record.offset < header.next_offset:
            return f"offset {record.offset} is not found where it is"
    if len(log.segments) > 1 and log.segments[1].base_offset <= log.log_start_offset:
        return None  # deleted segments came back, and are searched, as in Kafka
    for wanted in sorted({record.timestamp for record in records}):
        naive = next(record.offset for record in records if record.timestamp >= wanted)
        found = log.offset_for_timestamp(wanted)
        if found is None or found.offset != naive:
            return f"timestamp {wanted} is found at {found}, is at {naive}"
    return None


STEPS: dict[str, list[tuple[Step, int]]] = {
    "log": [
        (Life.append, 8),
        (Life.abort_a_transaction, 1),
        (Life.flush, 3),
        (Life.checkpoint, 2),
        (Life.truncate, 2),
        (Life.delete_records, 1),
        (Life.append_keys, 4),
        (Life.flush_keys, 1),
        (Life.clean, 2),
    ],
    "copy": [
        (Life.fetch_keys, 8),
        (Life.truncate_keys, 2),
        (Life.flush_keys, 2),
        (Life.flush_rolled, 1),
        (Life.checkpoint, 2),
        (Life.clean, 1),
    ],
    "move": [
        (Life.append, 5),
        (Life.flush, 1),
        (Life.checkpoint, 1),
        (Life.truncate, 1),
        (Life.delete_records, 1),
        (Life.fetch_keys, 3),
        (Life.flush_keys, 1),
        (Life.truncate_keys, 1),
        (Life.clean, 1),
        (Life.move, 3),
        (Life.copy, 6),
    ],
}
KINDS = tuple(STEPS)

SCRIPTS: dict[str, tuple[str, Sequence[Step]]] = {
    "exchange": (
        "log",
        [Life.append_keys] * 3
        + [Life.flush_keys, Life.append_keys, Life.clean]
        + [Life.append_keys] * 2
        + [Life.clean],
    ),
    "copy of a compacted log": (
        "copy",
        [Life.fetch_keys, Life.flush_keys, Life.checkpoint, Life.fetch_keys, Life.fetch_keys]
        + [Life.truncate_keys, Life.fetch_keys, Life.flush_rolled, Life.fetch_keys, Life.clean],
    ),
    "move": (
        "move",
        [Life.append] * 3
        + [Life.flush, Life.append, Life.move_plain, Life.copy_once, Life.append]
        + [Life.copy_once] * 3
        + [Life.append],
    ),
    "move of a compacted log": (
        "move",
        [Life.fetch_keys, Life.fetch_keys, Life.flush_keys, Life.clean, Life.move_compacted]
        + [Life.fetch_keys, Life.copy_once, Life.copy_once, Life.fetch_keys],
    ),
}
"""(kind, steps) of short lives in which every moment is tested."""
