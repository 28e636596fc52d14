"""The shell of the quorum: it owns the log `__cluster_metadata-0` and does what the replica decides.

The rules: effects are carried out in their order; a batch is committed, delivered and answered for only
after it is on stable storage; and after a failed write nothing more is promised: `failure` is set and the
node must stop. Whoever appends while a flush is under way shares the next one (group commit).
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, Protocol, TypeVar

from ottla.log.config import LogConfig
from ottla.log.log import Log
from ottla.log.properties import PARTITION_METADATA, format_partition_metadata
from ottla.ports import Clock, Disk, Random
from ottla.raft import control, snapshots
from ottla.raft.effects import Effect, HighWatermarkMoved, LeaderChanged, PersistElection, StartEpoch
from ottla.raft.election import ElectionState
from ottla.raft.replica import NotLeader, Replica, Timeouts
from ottla.raft.retention import new_start
from ottla.raft.roles import Leader
from ottla.raft.snapshots import Snapshot, SnapshotId
from ottla.raft.store import Store
from ottla.raft.voters import Voter, VoterSet
from ottla.records.batch import iterate_headers
from ottla.records.record import Record, build_batch, read_batch
from ottla.records.validate import Origin
from ottla.wire import uuid
from ottla.wire.errors import KafkaStorageError, RecordListTooLarge
from ottla.wire.messages.protocol_data import KRaftVersionRecord, VotersRecord

logger = logging.getLogger("ottla.raft.driver")

TOPIC = "__cluster_metadata"
DIRECTORY_NAME = f"{TOPIC}-0"
_READ_BYTES = 4 * 1024 * 1024
_ROLL_BYTES = 4 * 1024 * 1024

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverConfig:
    """What the configuration of this node says to the quorum."""

    directory: str  # metadata.log.dir
    local: Voter
    static_voters: VoterSet
    timeouts: Timeouts = field(default_factory=Timeouts)
    segment_bytes: int = 1024 * 1024 * 1024
    segment_ms: int = 7 * 24 * 3600 * 1000
    retention_bytes: int = 100 * 1024 * 1024
    retention_ms: int = 7 * 24 * 3600 * 1000
    batch_bytes_max: int = 8 * 1024 * 1024


class CommittedBatch(NamedTuple, Generic[_T]):
    """Records that are committed; a batch of control records has none."""

    base_offset: int
    last_offset: int
    epoch: int
    timestamp_ms: int
    size_bytes: int
    records: Sequence[_T]


class Listener(Protocol[_T]):
    """Who is told what is committed, in the order of the log."""

    def load(self, snapshot_id: SnapshotId, last_contained_ms: int, records: Sequence[_T]) -> None:
        """Begin anew with a snapshot."""

    def commit(self, batches: Sequence[CommittedBatch[_T]]) -> None: ...

    def lead(self, epoch: int) -> None:
        """This node leads, and everything of earlier epochs was delivered."""


class _Waiting(NamedTuple, Generic[_T]):
    """A batch that was appended and is not committed yet."""

    batch: CommittedBatch[_T]
    content: bytearray


class Driver(Generic[_T]):
    """A replica of the metadata log on this node."""

    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        random: Random,
        config: DriverConfig,
        listener: Listener[_T],
        decode: Callable[[bytes], _T],
    ) -> None:
        self._disk = disk
        self._clock = clock
        self._config = config
        self._listener = listener
        self._decode = decode
        self._store = Store(disk, f"{config.directory}/{DIRECTORY_NAME}")
        self._log_config = LogConfig(
            segment_bytes=config.segment_bytes,
            segment_ms=config.segment_ms,
            retention_bytes=-1,
            retention_ms=-1,
            max_message_bytes=config.batch_bytes_max,
        )
        self.replica = Replica(
            config.local, config.static_voters, timeouts=config.timeouts, draw=random.below
        )
        self.failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._log: Log | None = None
        self._unwritten: list[_Waiting[_T]] = []
        self._uncommitted: deque[CommittedBatch[_T]] = deque()
        self._next_offset = 0
        self._is_loaded = False
        self._wake = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    # Facts

    @property
    def log(self) -> Log:
        if self._log is None:
            raise RuntimeError("The metadata log is not open.")
        return self._log

    @property
    def is_leader(self) -> bool:
        return isinstance(self.replica.role, Leader)

    @property
    def next_offset(self) -> int:
        """The offset that the next record appended here will get."""
        return self._next_offset

    @property
    def latest_snapshot(self) -> SnapshotId | None:
        return self._store.latest

    # Life

    async def start(self) -> None:
        """Open the log and take part in the quorum; back once all that is committed was delivered.

        Only a quorum whose one voter is this node can be led today, so anything else is refused.
        """
        await self._disk.offload(self._open)
        log = self.log
        self._next_offset = log.log_end_offset
        if not self.replica.is_only_voter:
            raise UnsupportedQuorum(self.replica.voters.last.ids, self._config.local.key.id)
        election = await self._disk.offload(self._store.read_election)
        end_epoch = max(log.epochs.latest_epoch, 0)
        if self._store.latest is not None and log.epochs.latest_epoch < 0:
            end_epoch = self._store.latest.epoch
        await self._carry_out(
            self.replica.start(election, log.log_end_offset, end_epoch, self._monotonic_ms())
        )
        await self._write()
        await self._load()
        self._tasks.append(asyncio.create_task(self._write_loop()))
        self._listener.lead(self.replica.epoch)

    async def stop(self) -> None:
        """Write what was appended, then close the log."""
        if self._log is None:
            return
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        is_clean = not self.failure.done()
        if is_clean and self.is_leader:
            try:
                await self._write()
            except OSError as error:
                self._fail(error)
                is_clean = False
        if self._log is not None:
            self.replica.resign(self._monotonic_ms())
            log, self._log = self._log, None
            await self._disk.offload(_close, log, is_clean)

    def _open(self) -> None:
        """Blocking: the log, the snapshots, and the voters that they name."""
        store, config = self._store, self._config
        self._disk.make_directory(store.directory)
        store.load()
        recovery_point = store.latest.offset if store.latest is not None else 0
        log = Log.open(
            self._disk,
            self._clock,
            store.directory,
            self._log_config,
            topic=TOPIC,
            partition=0,
            topic_id=uuid.METADATA_TOPIC_ID,
            recovery_point=recovery_point,
        )
        path = f"{store.directory}/{PARTITION_METADATA}"
        if not self._disk.exists(path):
            self._disk.replace(path, format_partition_metadata(uuid.METADATA_TOPIC_ID).encode(), sync=True)
        store.drop_before(log.log_start_offset)
        latest = store.latest
        if log.log_start_offset > 0 and latest is None:
            raise MissingSnapshot(
                f"The metadata log in {store.directory} starts at offset {log.log_start_offset}, and the "
                "snapshot with what was before is missing. Restore the .checkpoint file from a backup."
            )
        if latest is not None and latest.offset > log.log_end_offset:
            logger.warning("The snapshot %s is ahead of the log, which starts anew there.", latest.file_name)
            log.truncate_fully_and_start_at(latest.offset)
            store.drop_before(latest.offset)
        self._log = log
        self._read_voters(config)

    def _read_voters(self, config: DriverConfig) -> None:
        """Blocking: what the control records of the newest snapshot and of the log after it say."""
        latest = self._store.latest
        offset = self.log.log_start_offset
        if latest is not None:
            snapshot = self._store.read_snapshot(latest)
            if snapshot.kraft_version:
                self.replica.kraft_version_written(latest.offset - 1, snapshot.kraft_version)
            if snapshot.voters is not None:
                self.replica.voters_written(latest.offset - 1, snapshot.voters)
            offset = latest.offset
        for buffer in self._chunks(offset, self.log.log_end_offset):
            for position, header in iterate_headers(buffer):
                if header.is_control:
                    for record in control.read_control(buffer, position, header):
                        if isinstance(record.message, KRaftVersionRecord):
                            self.replica.kraft_version_written(record.offset, record.message.k_raft_version)
                        elif isinstance(record.message, VotersRecord):
                            voters = VoterSet.from_record(record.message)
                            self.replica.voters_written(record.offset, voters)

    def _chunks(self, offset: int, end_offset: int) -> Iterable[bytes]:
        """The log's batches from the one with `offset` on, in pieces."""
        while offset < end_offset:
            read = self.log.read(offset, _READ_BYTES, limit_offset=end_offset)
            last = -1
            for _, header in iterate_headers(read.records):
                last = header.last_offset
            if last < offset:
                raise MissingSnapshot(f"Nothing can be read from the metadata log at offset {offset}.")
            yield read.records
            offset = last + 1

    # Effects

    async def _carry_out(self, effects: Iterable[Effect]) -> None:
        election: ElectionState | None = None
        for effect in effects:
            if isinstance(effect, PersistElection):
                election = effect.election  # nobody saw the one before it, so the last one is enough
                continue
            if election is not None:
                await self._persist(election)
                election = None
            if isinstance(effect, StartEpoch):
                self._start_epoch(effect)
            elif isinstance(effect, LeaderChanged):
                logger.info("In epoch %d the leader of the quorum is %d.", effect.epoch, effect.leader_id)
            elif isinstance(effect, HighWatermarkMoved):
                self._deliver(effect.offset)
        if election is not None:
            await self._persist(election)

    async def _persist(self, election: ElectionState) -> None:
        version, voters = self.replica.kraft_version.last, self.replica.voters.last
        await self._disk.offload(self._store.write_election, election, version, voters)

    def _start_epoch(self, effect: StartEpoch) -> None:
        self.log.assign_epoch_start_offset(effect.epoch, self.log.log_end_offset)
        self._append_control(control.start_of_epoch(effect), effect.epoch)
        if effect.voters is not None and effect.kraft_version is not None:
            self.replica.kraft_version_written(self._next_offset - 2, effect.kraft_version)
            self.replica.voters_written(self._next_offset - 1, effect.voters)

    # Appending

    def append(self, values: Sequence[bytes], records: Sequence[_T]) -> int:
        """Append one batch as the leader; the offset of its last record. `commit` tells when it holds.

        `values` are the records as bytes. Several can be under way; they share a flush.
        """
        if self.failure.done():
            raise KafkaStorageError("The metadata log failed; this node is going down.")
        if not self.is_leader:
            raise NotLeader
        now_ms = self._clock.now_ms()
        base_offset, epoch = self._next_offset, self.replica.epoch
        content = build_batch(
            [Record(base_offset + index, now_ms, None, value) for index, value in enumerate(values)],
            base_offset=base_offset,
            leader_epoch=epoch,
        )
        if len(content) > self._config.batch_bytes_max:
            raise RecordListTooLarge(
                f"The change takes {len(content)} bytes of metadata; a batch holds "
                f"{self._config.batch_bytes_max}."
            )
        self._enqueue(content, len(values), epoch, now_ms, records)
        return self._next_offset - 1

    def _append_control(self, entries: control.Entries, epoch: int) -> None:
        now_ms = self._clock.now_ms()
        content = control.batch_of(entries, base_offset=self._next_offset, epoch=epoch, now_ms=now_ms)
        self._enqueue(content, len(entries), epoch, now_ms, ())

    def _enqueue(
        self, content: bytearray, count: int, epoch: int, now_ms: int, records: Sequence[_T]
    ) -> None:
        first = self._next_offset
        self._next_offset += count
        batch = CommittedBatch(first, self._next_offset - 1, epoch, now_ms, len(content), records)
        self._unwritten.append(_Waiting(batch, content))
        self._wake.set()

    def upgrade_kraft_version(self, level: int) -> None:
        """Raise kraft.version: from here on the log names the voters."""
        if level <= self.replica.kraft_version.last:
            return
        voters = self.replica.upgrade(level)
        self._append_control(control.voters_entries(level, voters), self.replica.epoch)
        self.replica.kraft_version_written(self._next_offset - 2, level)
        self.replica.voters_written(self._next_offset - 1, voters)

    async def _write_loop(self) -> None:
        while True:
            await self._wake.wait()
            try:
                await self._write()
            except Exception as error:  # noqa: BLE001 - from the disk or a listener: what holds is unknown now
                self._fail(error)
                return

    async def _write(self) -> None:
        """Write and flush what was appended, and whatever comes while that is under way."""
        while self._unwritten:
            self._wake.clear()
            waiting, self._unwritten = self._unwritten, []
            log = self.log
            content = (
                waiting[0].content if len(waiting) == 1 else bytearray().join(w.content for w in waiting)
            )
            self._uncommitted.extend(w.batch for w in waiting)
            log.append(
                memoryview(content),
                leader_epoch=self.replica.epoch,
                now_ms=self._clock.now_ms(),
                origin=Origin.RAFT_LEADER,
            )
            flush = log.prepare_flush()
            if flush is not None:
                try:
                    await self._disk.offload(flush.run)
                except OSError as error:
                    log.fail(error)
                    raise
                log.complete_flush(flush)
            await self._carry_out(self.replica.flushed(log.log_end_offset, self._monotonic_ms()))
        self._wake.clear()

    def _fail(self, error: Exception) -> None:
        if isinstance(error, OSError):
            text = f"The metadata log in {self._store.directory} cannot be written: {error}"
            logger.critical("%s", text)
        else:
            text = f"What was committed to the metadata log could not be applied: {error}"
            logger.critical("%s", text, exc_info=error)
        self.replica.resign(self._monotonic_ms())
        if not self.failure.done():
            self.failure.set_exception(KafkaStorageError(text))
            self.failure.exception()  # seen: whoever looks gets it again

    # Delivering

    def _deliver(self, high_watermark: int) -> None:
        self.log.advance_high_watermark(high_watermark)
        if not self._is_loaded:
            return
        batches = []
        while self._uncommitted and self._uncommitted[0].last_offset < high_watermark:
            batches.append(self._uncommitted.popleft())
        if batches:
            self._listener.commit(batches)

    async def _load(self) -> None:
        """Deliver what was committed before this run, and the start of this epoch."""
        self._uncommitted.clear()
        latest, snapshot, batches = await self._disk.offload(self._read_committed, self.log.high_watermark)
        if latest is not None and snapshot is not None:
            self._listener.load(
                latest, snapshot.last_contained_ms or 0, [self._decode(v) for v in snapshot.values]
            )
        self._is_loaded = True
        if batches:
            self._listener.commit(batches)

    def _read_committed(
        self, high_watermark: int
    ) -> tuple[SnapshotId | None, Snapshot | None, list[CommittedBatch[_T]]]:
        latest = self._store.latest
        snapshot = None if latest is None else self._store.read_snapshot(latest)
        offset = self.log.log_start_offset if latest is None else latest.offset
        batches: list[CommittedBatch[_T]] = []
        for buffer in self._chunks(offset, high_watermark):
            for position, header in iterate_headers(buffer):
                records: list[_T] = []
                if not header.is_control:
                    records = [self._decode(r.value or b"") for r in read_batch(buffer, position, header)]
                batches.append(
                    CommittedBatch(
                        header.base_offset,
                        header.last_offset,
                        header.partition_leader_epoch,
                        header.max_timestamp,
                        header.length_bytes,
                        records,
                    )
                )
        return latest, snapshot, batches

    # Snapshots

    async def write_snapshot(
        self, snapshot_id: SnapshotId, values: Iterable[bytes], last_contained_ms: int
    ) -> None:
        """Write a snapshot of what is committed before its offset. `values` is read off the loop."""
        latest = self._store.latest
        if latest is not None and snapshot_id.offset <= latest.offset:
            return
        if snapshot_id.offset > self.log.high_watermark:
            raise ValueError(f"{snapshot_id} is ahead of what is committed ({self.log.high_watermark}).")
        batches = snapshots.build(
            values,
            epoch=snapshot_id.epoch,
            now_ms=self._clock.now_ms(),
            last_contained_ms=last_contained_ms,
            kraft_version=self.replica.kraft_version.at(snapshot_id.offset - 1),
            voters=self.replica.voters.at(snapshot_id.offset - 1),
        )
        kept = await self._disk.offload(self._store.write_snapshot, snapshot_id, batches, last_contained_ms)
        self._store.add(kept)
        if self._log is not None and self._log.active_segment.size_bytes >= _ROLL_BYTES:
            self._log.roll()  # so that a start after a crash scans little, and old segments can go
        logger.info("Wrote the snapshot %s of %d bytes.", snapshot_id.file_name, kept.size_bytes)

    async def clean(self) -> None:
        """Delete what `metadata.max.retention.*` no longer keeps."""
        now_ms, log, config = self._clock.now_ms(), self.log, self._config
        await self._disk.offload(self._store.remove_retired)
        log.delete_due(now_ms)
        start = new_start(
            self._store.kept,
            log.size_bytes,
            now_ms,
            retention_bytes=config.retention_bytes,
            retention_ms=config.retention_ms,
        )
        if start is None or self._log is None:
            return
        log.increase_log_start_offset(start.offset, "a snapshot holds what was before")
        log.delete_old_segments(now_ms)
        self.replica.voters.forget_before(start.offset - 1)
        self.replica.kraft_version.forget_before(start.offset - 1)
        await self._disk.offload(self._store.retire_before, start)

    def _monotonic_ms(self) -> int:
        return int(self._clock.monotonic() * 1000)


class MissingSnapshot(RuntimeError):
    """The metadata log begins where a snapshot should be, and there is none."""


class UnsupportedQuorum(RuntimeError):
    """The quorum has other voters than this node."""

    def __init__(self, voters: Sequence[int], node_id: int) -> None:
        if voters:
            text = (
                f"The voters of the quorum are {', '.join(map(str, voters))}; this version runs a quorum "
                f"whose only voter is this node ({node_id}). Set controller.quorum.voters to this node alone."
            )
        else:
            text = (
                f"The quorum has no voters. Set controller.quorum.voters={node_id}@host:port, or format the "
                "metadata directory with kafka-storage format --standalone."
            )
        super().__init__(text)


def _close(log: Log, is_clean: bool) -> None:
    log.close(clean=is_clean)
