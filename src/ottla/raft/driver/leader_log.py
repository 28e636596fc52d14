"""What the leader appends, with group commit: batches that arrive during a flush share the next one.

The records of a batch get their offsets at once. They are in no log until they are written, and a leader that
loses its leadership drops what it has not written.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Generic, NamedTuple, TypeVar

from ottla.ports import Clock
from ottla.raft import control_records
from ottla.raft.driver.delivery import Delivery
from ottla.raft.driver.log_storage import LogStorage
from ottla.raft.effects import StartEpoch
from ottla.raft.events import KraftVersionAppended, LogAppended, VotersAppended
from ottla.raft.metadata_log import CommittedBatch
from ottla.raft.replica import NotLeader, Replica
from ottla.raft.voters import VoterSet
from ottla.records.record import Record, build_batch
from ottla.records.validate import Origin
from ottla.wire.errors import KafkaStorageError, RecordListTooLarge

_T = TypeVar("_T")


class _UnwrittenBatch(NamedTuple, Generic[_T]):
    batch: CommittedBatch[_T]
    content: bytearray


class LeaderLog(Generic[_T]):
    def __init__(
        self,
        clock: Clock,
        storage: LogStorage,
        replica: Replica,
        delivery: Delivery[_T],
        batch_bytes_max: int,
        *,
        on_progress: Callable[[], None],
        resign: Callable[[], None],
        fail: Callable[[Exception], None],
    ) -> None:
        self._clock = clock
        self._storage = storage
        self._replica = replica
        self._delivery = delivery
        self._batch_bytes_max = batch_bytes_max
        self._on_progress = on_progress
        self._resign = resign
        self._fail = fail
        self._unwritten: list[_UnwrittenBatch[_T]] = []
        self._is_flush_due = False
        self._wake = asyncio.Event()

    @property
    def next_offset(self) -> int:
        """The offset that the next record appended here gets."""
        if self._unwritten:
            return self._unwritten[-1].batch.last_offset + 1
        return self._storage.log.log_end_offset

    # Appending

    def append(self, values: Sequence[bytes], records: Sequence[_T]) -> int:
        """Append one batch; `values` are the records as bytes. Returns the offset of the last record."""
        if not self._replica.is_leader:
            raise NotLeader
        if self._storage.space.is_lacking:
            raise KafkaStorageError(
                f"The disk of {self._storage.journal.directory} is full: metadata cannot change."
            )
        now_ms = self._clock.now_ms()
        base_offset, epoch = self.next_offset, self._replica.epoch
        content = build_batch(
            [Record(base_offset + index, now_ms, None, value) for index, value in enumerate(values)],
            base_offset=base_offset,
            leader_epoch=epoch,
        )
        if len(content) > self._batch_bytes_max:
            raise RecordListTooLarge(
                f"The change needs {len(content)} bytes of metadata, but a batch holds only "
                f"{self._batch_bytes_max}."
            )
        self._enqueue(content, len(values), epoch, now_ms, records)
        return self.next_offset - 1

    def start_epoch(self, effect: StartEpoch) -> None:
        """Append the control records of a new epoch, if this replica still leads it."""
        if not self._replica.is_leader or self._replica.epoch != effect.epoch:
            return
        log = self._storage.log
        log.assign_epoch_start_offset(effect.epoch, log.log_end_offset)
        self._append_control(control_records.start_of_epoch(effect), effect.epoch)
        if effect.voters is not None and effect.kraft_version is not None:
            self._report_kraft_version(effect.kraft_version, effect.voters)

    def append_kraft_version(self, level: int) -> None:
        """Raise kraft.version: from here on the log names the voters."""
        if level <= self._replica.kraft_version.last:
            return
        voters = self._replica.with_kraft_version(level)
        self._append_control(control_records.voters_entries(level, voters), self._replica.epoch)
        self._report_kraft_version(level, voters)

    def _report_kraft_version(self, level: int, voters: VoterSet) -> None:
        self._replica.step(KraftVersionAppended(self.next_offset - 2, level))
        self._replica.step(VotersAppended(self.next_offset - 1, voters))

    def append_voters(self, voters: VoterSet) -> int:
        """Append other voters, which take effect at once. Returns the offset of the record."""
        self._append_control([control_records.voters_entry(voters)], self._replica.epoch)
        offset = self.next_offset - 1
        self._replica.step(VotersAppended(offset, voters))
        return offset

    def _append_control(self, entries: control_records.Entries, epoch: int) -> None:
        now_ms = self._clock.now_ms()
        content = control_records.batch_of(entries, base_offset=self.next_offset, epoch=epoch, now_ms=now_ms)
        self._enqueue(content, len(entries), epoch, now_ms, ())

    def _enqueue(
        self, content: bytearray, count: int, epoch: int, now_ms: int, records: Sequence[_T]
    ) -> None:
        first = self.next_offset
        batch = CommittedBatch(first, first + count - 1, epoch, now_ms, len(content), records)
        self._unwritten.append(_UnwrittenBatch(batch, content))
        self._wake.set()

    def drop_unwritten(self) -> None:
        self._unwritten.clear()

    # Writing

    async def run(self) -> None:
        """Write whatever is appended, as long as the log works."""
        while True:
            await self._wake.wait()
            try:
                await self.write()
                self._storage.space.is_lacking = False
            except Exception as error:  # noqa: BLE001 - of the disk or of a listener: state unknown
                if not self._storage.journal.can_retry(error):
                    self._fail(error)
                    return
                if self._replica.is_leader and not self._replica.is_only_voter:
                    self._resign()  # others may have space
                await self._storage.space.wait(error)
                self._wake.set()

    async def write(self) -> None:
        """Write and flush what was appended, and what is appended meanwhile."""
        async with self._storage.turn:
            while self._unwritten or self._is_flush_due:
                self._wake.clear()
                if self._unwritten:
                    self._write_batches()
                self._is_flush_due = True
                await self._storage.flush_and_report()
                self._is_flush_due = False
                self._on_progress()
            self._wake.clear()

    def _write_batches(self) -> None:
        """Write what was appended, as many batches at once as fit into a segment: the log writes such a run
        completely or not at all. A run that was written is not appended again if a later one fails."""
        log, epoch = self._storage.log, self._replica.epoch
        while self._unwritten:
            run = self._next_run(log.config.segment_bytes)
            content = run[0].content if len(run) == 1 else bytearray().join(one.content for one in run)
            self._storage.write(partial(self._append_to_log, content, epoch))
            del self._unwritten[: len(run)]
            self._delivery.add(one.batch for one in run)
            self._replica.step(LogAppended(log.log_end_offset, epoch))

    def _append_to_log(self, content: bytearray, epoch: int) -> None:
        self._storage.log.append(
            memoryview(content),
            leader_epoch=epoch,
            now_ms=self._clock.now_ms(),
            origin=Origin.RAFT_LEADER,
        )

    def _next_run(self, bytes_max: int) -> list[_UnwrittenBatch[_T]]:
        """The next batches of at most `bytes_max` bytes, or one batch."""
        count, size = 1, len(self._unwritten[0].content)
        for one in self._unwritten[1:]:
            size += len(one.content)
            if size > bytes_max:
                break
            count += 1
        return self._unwritten[:count]
