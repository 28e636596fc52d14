"""The shell of the quorum: it owns the log `__cluster_metadata-0` and does what the replica decides.

The rules: effects are carried out in their order, and an answer to another replica leaves after the effects
of its request; a batch counts for this replica only after it is on stable storage; what comes from a leader
is taken only while that leader is followed; and after a failed write nothing more is promised: `failure` is
set and the node must stop. Whoever appends while a flush is under way shares the next one (group commit).

A full disk and a lack of descriptors are no failure: the log takes room from its reserve, and once that is
used up it refuses changes and tries again.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, Protocol, TypeVar

from ottla.log.config import LogConfig
from ottla.log.flush import NotOpened
from ottla.log.log import Log
from ottla.log.segment import LogDamaged
from ottla.ports import DISK_FULL, OUT_OF_RESOURCES, PASSING, Buffer, Clock, Disk, Random
from ottla.raft import control_records, snapshots
from ottla.raft.contact_deadlines import OwnWork, Patience
from ottla.raft.disk_reserve import Reserve
from ottla.raft.effect_queue import Outbox
from ottla.raft.effects import (
    Effect,
    HighWatermarkAdvanced,
    LeaderChanged,
    LeadershipLost,
    SendRequest,
    SendResponse,
    StartEpoch,
)
from ottla.raft.election_state import EPOCH_MAX, NOBODY, ElectionState
from ottla.raft.events import (
    HighWatermarkReceived,
    KraftVersionAppended,
    LeaderDiscovered,
    LeaderResponded,
    LogAppended,
    LogFlushed,
    LogReplaced,
    LogTruncated,
    ReplicaFetched,
    RequestReceived,
    ResignRequested,
    ResponseReceived,
    SnapshotFetched,
    TimePassed,
    VotersAppended,
)
from ottla.raft.messages import Request, Response
from ottla.raft.metadata_log import (
    DIRECTORY_NAME,
    TOPIC,
    CommittedBatch,
    EpochEnd,
    Journal,
    MissingSnapshot,
    batches_of,
    control_records_of,
)
from ottla.raft.replica import NotLeader, Replica, Timeouts
from ottla.raft.retention import new_start
from ottla.raft.roles import Follower, Leader, Role
from ottla.raft.snapshots import SnapshotId
from ottla.raft.store import Download
from ottla.raft.voters import ReplicaKey, Voter, VoterSet
from ottla.rare_paths import rarely
from ottla.records.batch import whole_batches_end
from ottla.records.record import Record, build_batch
from ottla.records.validate import Origin
from ottla.wire.errors import KafkaStorageError, RecordListTooLarge
from ottla.wire.messages.protocol_data import KRaftVersionRecord, VotersRecord

__all__ = [
    "DIRECTORY_NAME",
    "TOPIC",
    "CommittedBatch",
    "DivergedBelowCommit",
    "Driver",
    "DriverConfig",
    "Listener",
    "MissingSnapshot",
    "UnsupportedQuorum",
]

logger = logging.getLogger("ottla.raft.driver")

_ROLL_BYTES = 4 * 1024 * 1024
RETRY_SECONDS = 0.5
"""After how long a write is tried again that met a full disk."""
LATE_WARNING_MS = 500
"""A timer of the quorum that fires so late is worth a warning: it may cost a leader."""
LOOK_AGAIN_MS = 100
"""How often a replica whose time stands still looks whether it goes on: a follower that flushes may judge its
leader again, or an election is on disk that waited for room."""

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
    reserve_bytes: int = 0  # ottla.metadata.reserve.bytes
    is_observer: bool = False  # a broker that is no controller: it follows and never votes
    has_bootstrap: bool = False  # controller.quorum.bootstrap.servers say whom to ask for the voters


class Listener(Protocol[_T]):
    """Who is told what is committed, in the order of the log."""

    def load(self, snapshot_id: SnapshotId, last_contained_ms: int, records: Sequence[_T]) -> None:
        """Begin anew with a snapshot."""

    def commit(self, batches: Sequence[CommittedBatch[_T]]) -> None: ...

    def lead(self, epoch: int) -> None:
        """This node leads, and everything of earlier epochs was delivered."""

    def resign(self, epoch: int) -> None:
        """This node, which was told to lead, leads no more."""


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
        log_config = LogConfig(
            segment_bytes=config.segment_bytes,
            segment_ms=config.segment_ms,
            retention_bytes=-1,
            retention_ms=-1,
            max_message_bytes=config.batch_bytes_max,
        )
        self.journal = Journal(disk, clock, config.directory, log_config)
        self._store = self.journal.store
        self._reserve = Reserve(disk, config.directory, config.reserve_bytes)
        self._lacks_room = False  # the last write met a full disk, and is tried again
        self._is_election_refused = False  # by a full disk, and it is tried again: what follows from it waits
        self._is_flush_owed = False
        self._is_stopping = False
        self.replica = Replica(
            config.local, config.static_voters, timeouts=config.timeouts, draw=random.below
        )
        self.failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.failure.add_done_callback(self._step_down)  # its node may have failed for another reason
        self.on_progress: Callable[[], None] | None = None  # the log grew, or is led no more
        self.on_ask: Callable[[SendRequest], None] | None = None  # a request to another replica
        self.on_leader: Callable[[], None] | None = None  # another leader, epoch or role
        self._outbox = Outbox(self._persist, self._do, self.fail)
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0
        self._patience = Patience(config.timeouts.fetch_ms)
        self._own_work_count = 0  # of a follower, on what its leader sent
        self._told_role: type[Role] | None = None
        self._led_epoch = NOBODY  # in which the listener leads
        self._disk_turn = asyncio.Lock()  # of whoever flushes, or cuts the log off
        self._commits: list[tuple[int, asyncio.Future[None]]] = []
        self._unwritten: list[_Waiting[_T]] = []
        self._uncommitted: deque[CommittedBatch[_T]] = deque()
        self._next_offset = 0
        self._wake = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    # Facts

    @property
    def log(self) -> Log:
        return self.journal.log

    @property
    def is_leader(self) -> bool:
        return self.replica.is_started and isinstance(self.replica.role, Leader)

    @property
    def is_disk_full(self) -> bool:
        """Whether the log lives on its reserve, or waits for room: write only what must be written."""
        return self._lacks_room or not self._reserve.is_whole

    @property
    def next_offset(self) -> int:
        """The offset that the next record appended here will get."""
        return self._next_offset

    @property
    def latest_snapshot(self) -> SnapshotId | None:
        return self._store.latest

    # Life

    async def start(self) -> None:
        """Open the log and take part in the quorum.

        The only voter leads: back once all that is committed was delivered. Others are back at once, and told
        what is committed as they hear of it.
        """
        await self._disk.offload(self._open)
        self._next_offset = self.log.log_end_offset
        replica, config = self.replica, self._config
        if replica.is_voter and config.is_observer:
            raise UnsupportedQuorum(replica.voters.last.ids, config.local.key.id)
        if not config.is_observer and not config.has_bootstrap and not replica.voters.last.ids:
            raise UnsupportedQuorum((), config.local.key.id)
        election = await self._disk.offload(self._store.read_election)
        if not config.is_observer and not replica.is_only_voter:
            await self._flush_log()  # a killed process may have left what only the system's memory holds
        await self._load()
        end = self.journal.end
        self._act(replica.start(election, end.end_offset, end.epoch, self._monotonic_ms()))
        await self._settled()
        if replica.is_only_voter:
            await self._write()
        if not config.is_observer:
            self._tasks.append(asyncio.create_task(self._write_loop()))

    async def stop(self) -> None:
        """Write what was appended, then close the log."""
        self._is_stopping = True
        if not self.journal.is_open:
            self._reserve.close()
            return
        if self._timer is not None:
            self._timer.cancel()
        self.on_ask = None
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._outbox.close()
        is_clean = not self.failure.done()
        if is_clean and self.is_leader:
            try:
                await self._write()
            except OSError as error:
                self.fail(error)
                is_clean = False
        if self.replica.is_started:
            self._act(self.replica.step(ResignRequested(self._monotonic_ms())))
            if self._timer is not None:
                self._timer.cancel()
        self._reserve.close()
        log = self.journal.detach()
        if log is not None:
            await self._disk.offload(_close, log, is_clean)
            self._tell_progress()

    def _open(self) -> None:
        """Blocking: the log, the snapshots, and the voters that they name."""
        self._reserve.open()
        self.journal.open(may_start_over=self._config.is_observer)
        latest, snapshot = self._store.latest, self.journal.newest_snapshot()
        if latest is not None and snapshot is not None:
            self._take_quorum_facts(latest.offset - 1, snapshot.kraft_version, snapshot.voters)
        for record in self.journal.control_records():
            self._take_control(record)

    def _take_quorum_facts(self, offset: int, kraft_version: int, voters: VoterSet | None) -> None:
        if kraft_version:
            self.replica.step(KraftVersionAppended(offset, kraft_version))
        if voters is not None:
            self.replica.step(VotersAppended(offset, voters))

    def _take_control(self, record: control_records.ControlRecord) -> None:
        if isinstance(record.message, KRaftVersionRecord):
            self.replica.step(KraftVersionAppended(record.offset, record.message.k_raft_version))
        elif isinstance(record.message, VotersRecord):
            self.replica.step(VotersAppended(record.offset, VoterSet.from_record(record.message)))

    # Effects

    def _act(self, effects: Iterable[Effect]) -> None:
        """Carry effects out in their order. What needs the disk is waited for, and with it what follows."""
        try:
            for effect in effects:
                if isinstance(effect, LeadershipLost):
                    self._outbox.pump()  # what was committed with it is
                    self._lose_leadership(effect.epoch)
                else:
                    self._outbox.add(effect)
            self._outbox.pump()
        except Exception as error:  # noqa: BLE001 - of a listener: what holds is unknown now
            self.fail(error)
            return
        self._set_timer()
        role = type(self.replica.role)
        if role is not self._told_role:
            self._told_role = role
            if self.on_leader is not None:
                self.on_leader()

    def _do(self, effect: Effect) -> None:
        if isinstance(effect, StartEpoch):
            if self.is_leader and self.replica.epoch == effect.epoch:
                self._start_epoch(effect)
        elif isinstance(effect, LeaderChanged):
            if effect.leader_id == NOBODY:
                logger.info("No leader of the quorum is known in epoch %d.", effect.epoch)
                if effect.epoch >= EPOCH_MAX:
                    logger.critical(
                        "Epoch %d is the last: no leader can be elected any more. Restore the quorum-state "
                        "files of the controllers from a backup.",
                        effect.epoch,
                    )
            else:
                logger.info("In epoch %d the leader of the quorum is %d.", effect.epoch, effect.leader_id)
            self._tell_progress()
            if self.on_leader is not None:
                self.on_leader()
        elif isinstance(effect, HighWatermarkAdvanced):
            self._deliver(effect.offset)
        elif isinstance(effect, SendRequest) and self.on_ask is not None:
            self.on_ask(effect)

    async def _persist(self, election: ElectionState) -> None:
        version, voters = self.replica.kraft_version.last, self.replica.voters.last
        while True:
            try:
                await self._disk.offload_urgent(self._store.write_election, election, version, voters)
                self._lacks_room = self._is_election_refused = False
                return
            except OSError as error:
                if error.errno not in PASSING or self._is_stopping:
                    raise
                self._is_election_refused = True
                if error.errno not in DISK_FULL or not self._reserve.give():
                    await self._wait_for_room(error)

    async def _settled(self) -> None:
        """Back when all that was decided so far is done, and on disk where it must be."""
        if self.failure.done():
            raise KafkaStorageError("The metadata log failed; this node is going down.")
        await self._outbox.settled()

    def _set_timer(self) -> None:
        """See to it that the replica is told in time what time it is."""
        deadline_ms = None if self._config.is_observer else self.replica.deadline_ms
        if deadline_ms is None or self.failure.done() or not self.journal.is_open:
            return
        now_ms = self._monotonic_ms()
        due_ms = max(deadline_ms, now_ms)
        if self._timer is not None:
            if self._timer_ms <= due_ms:
                return
            self._timer.cancel()
        self._timer_ms = due_ms
        self._timer = asyncio.get_running_loop().call_later((due_ms - now_ms) / 1000, self._on_time)

    def _on_time(self) -> None:
        self._timer = None
        now_ms, role = self._monotonic_ms(), self.replica.role
        late_ms = now_ms - self._timer_ms
        if late_ms >= LATE_WARNING_MS:
            logger.warning(
                "A timer of the quorum fired %d ms late: this process did not run, or something held it. "
                "The other replicas get more time.",
                late_ms,
            )
        is_held = self._is_election_refused or (self._own_work_count and isinstance(role, Follower))
        if is_held and not self.failure.done():
            self._timer_ms = now_ms + LOOK_AGAIN_MS
            self._timer = asyncio.get_running_loop().call_later(LOOK_AGAIN_MS / 1000, self._on_time)
            return
        self._patience.extend(role, self._timer_ms, now_ms)
        if self.is_leader and rarely("a leader of the quorum resigns"):
            self.resign()
        self._act(self.replica.step(TimePassed(now_ms)))
        self._set_timer()

    @contextmanager
    def _own_work(self) -> Iterator[None]:
        """What a follower does with its leader's records is no silence of the leader."""
        work = OwnWork(self.replica.role, self._monotonic_ms())
        self._own_work_count += 1
        try:
            yield
        finally:
            self._own_work_count -= 1
            work.end(self.replica.role, self._monotonic_ms())

    def _lose_leadership(self, epoch: int) -> None:
        """What was not written is not written any more; what was may be cut off by the next leader."""
        self._unwritten.clear()
        if self.journal.is_open:
            end = self.journal.end
            self._next_offset = end.end_offset
            self.replica.step(LogTruncated(end.end_offset, end.epoch))
        for _, commit in self._commits:
            if not commit.done():
                commit.set_exception(NotLeader())
        self._commits.clear()
        if self._led_epoch == epoch:
            self._led_epoch = NOBODY
            self._listener.resign(epoch)
        self._tell_progress()

    # Other replicas

    async def answer(self, request: Request) -> Response:
        """The answer to another replica's request, once what it changed is on disk."""
        *effects, response = self.replica.step(RequestReceived(request, self._monotonic_ms()))
        assert isinstance(response, SendResponse)
        self._act(effects)
        await self._settled()
        return response.response

    def take_answer(self, replica_id: int, request: Request, answer: Response) -> None:
        """Another replica's answer to a request of ours."""
        if self.journal.is_open and not self.failure.done():
            self._act(self.replica.step(ResponseReceived(replica_id, request, answer, self._monotonic_ms())))

    def resign(self) -> None:
        """Lead no longer, and tell the other voters so."""
        self._act(self.replica.step(ResignRequested(self._monotonic_ms())))

    def _start_epoch(self, effect: StartEpoch) -> None:
        self.log.assign_epoch_start_offset(effect.epoch, self.log.log_end_offset)
        self._append_control(control_records.start_of_epoch(effect), effect.epoch)
        if effect.voters is not None and effect.kraft_version is not None:
            self.replica.step(KraftVersionAppended(self._next_offset - 2, effect.kraft_version))
            self.replica.step(VotersAppended(self._next_offset - 1, effect.voters))

    # Appending

    def append(self, values: Sequence[bytes], records: Sequence[_T]) -> int:
        """Append one batch as the leader; the offset of its last record. `commit` tells when it holds.

        `values` are the records as bytes. Several can be under way; they share a flush.
        """
        if self.failure.done():
            raise KafkaStorageError("The metadata log failed; this node is going down.")
        if not self.is_leader:
            raise NotLeader
        if self._lacks_room:
            raise KafkaStorageError(f"The disk of {self._config.directory} is full: no metadata can change.")
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

    def _append_control(self, entries: control_records.Entries, epoch: int) -> None:
        now_ms = self._clock.now_ms()
        content = control_records.batch_of(entries, base_offset=self._next_offset, epoch=epoch, now_ms=now_ms)
        self._enqueue(content, len(entries), epoch, now_ms, ())

    def _enqueue(
        self, content: bytearray, count: int, epoch: int, now_ms: int, records: Sequence[_T]
    ) -> None:
        first = self._next_offset
        self._next_offset += count
        batch = CommittedBatch(first, self._next_offset - 1, epoch, now_ms, len(content), records)
        self._unwritten.append(_Waiting(batch, content))
        self._wake.set()

    def fetched_by(self, key: ReplicaKey, offset: int) -> None:
        """Another replica fetches from `offset` of the log that this one leads."""
        effects = self.replica.step(ReplicaFetched(key, offset, self._monotonic_ms()))
        if effects:
            self._act(effects)
            self._tell_progress()

    def contacted_by(self, key: ReplicaKey) -> None:
        """Another replica loads a snapshot of this one."""
        self.replica.step(SnapshotFetched(key, self._monotonic_ms()))

    def upgrade_kraft_version(self, level: int) -> None:
        """Raise kraft.version: from here on the log names the voters."""
        if level <= self.replica.kraft_version.last:
            return
        voters = self.replica.with_kraft_version(level)
        self._append_control(control_records.voters_entries(level, voters), self.replica.epoch)
        self.replica.step(KraftVersionAppended(self._next_offset - 2, level))
        self.replica.step(VotersAppended(self._next_offset - 1, voters))

    def append_voters(self, voters: VoterSet) -> int:
        """Write other voters to the log, which hold from now on; the offset of the record."""
        self._append_control([control_records.voters_entry(voters)], self.replica.epoch)
        offset = self._next_offset - 1
        self.replica.step(VotersAppended(offset, voters))
        return offset

    async def committed(self, offset: int) -> None:
        """Back when `offset` is committed; NotLeader where this node cannot tell any more."""
        if offset < self.replica.high_watermark:
            return
        commit: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._commits.append((offset, commit))
        await commit

    async def _write_loop(self) -> None:
        while True:
            await self._wake.wait()
            try:
                await self._write()
                self._lacks_room = False
            except Exception as error:  # noqa: BLE001 - from the disk or a listener: what holds is unknown now
                if not self.is_passing(error):
                    self.fail(error)
                    return
                if self.is_leader and not self.replica.is_only_voter:
                    self.resign()  # others may have room
                await self._wait_for_room(error)
                self._wake.set()

    def is_passing(self, error: Exception) -> bool:
        """Whether the log is as it was before the error, which a later try may not meet."""
        return isinstance(error, OSError) and error.errno in PASSING and self.log.failure is None

    async def _wait_for_room(self, error: Exception) -> None:
        """A write is to be tried again later."""
        if not self._lacks_room:
            self._lacks_room = True
            logger.error("The metadata log cannot be written for now, trying again: %s", error)
        await asyncio.sleep(RETRY_SECONDS)

    async def _write(self) -> None:
        """Write and flush what was appended, and whatever comes while that is under way."""
        async with self._disk_turn:
            while self._unwritten or self._is_flush_owed:
                self._wake.clear()
                if self._unwritten:
                    self._append_unwritten()
                self._is_flush_owed = True
                await self._flush()
                self._is_flush_owed = False
                self._tell_progress()
            self._wake.clear()

    def _append_unwritten(self) -> None:
        waiting = self._unwritten
        content = waiting[0].content if len(waiting) == 1 else bytearray().join(w.content for w in waiting)
        self._reserve.provide(
            lambda: self.log.append(
                memoryview(content),
                leader_epoch=self.replica.epoch,
                now_ms=self._clock.now_ms(),
                origin=Origin.RAFT_LEADER,
            )
        )
        self._unwritten = []
        self._uncommitted.extend(w.batch for w in waiting)
        self.replica.step(LogAppended(self.log.log_end_offset, self.replica.epoch))

    async def _flush(self) -> None:
        """Flush the log, and let the replica count what is in it. Whoever calls has the turn of the disk."""
        end = self.journal.end
        await self._flush_log()
        self._act(self.replica.step(LogFlushed(end.end_offset, end.epoch, self._monotonic_ms())))

    async def _flush_log(self) -> None:
        log = self.log
        flush = self._reserve.provide(log.prepare_flush)
        if flush is not None:
            try:
                await self._disk.offload_urgent(flush.run)
            except NotOpened:
                log.postpone_flush(flush)
                raise
            except OSError as error:
                log.fail(error)
                raise
            if rarely("metadata are flushed slowly"):
                await asyncio.sleep(1.0)
            log.complete_flush(flush)

    def _tell_progress(self) -> None:
        if self.on_progress is not None:
            self.on_progress()

    def fail(self, error: Exception) -> None:
        """Give up: what the log holds, or what was made of it, cannot be trusted any more."""
        if self.failure.done():  # the node is going down, as was said: what fails by that is nothing new
            self._outbox.end(KafkaStorageError(str(error)))
            return
        if isinstance(error, OSError):
            text = f"The metadata log in {self._store.directory} cannot be read or written: {error}"
            logger.critical("%s", text)
        elif isinstance(error, DivergedBelowCommit):
            text = str(error)
            logger.critical("%s", text)
        else:
            text = f"What was committed to the metadata log could not be applied: {error}"
            logger.critical("%s", text, exc_info=error)
        self.failure.set_exception(KafkaStorageError(text))
        self.failure.exception()  # seen: whoever looks gets it again
        self._step_down(self.failure)

    def cannot_read(self, error: OSError) -> None:
        """What another replica asked for could not be read: the disk failed, which is the end.

        But not where too many files are open, or where a batch is damaged that others have read long ago: one
        replica that is behind must not end a controller.
        """
        if isinstance(error, LogDamaged):
            logger.error("%s", error)
        elif error.errno in OUT_OF_RESOURCES:
            logger.error("%s: %s (raise the limit of open files)", self._store.directory, error)
        else:  # soon: the driver itself may have woken whoever asked
            asyncio.get_running_loop().call_soon(self.fail, error)

    def _step_down(self, failure: asyncio.Future[None]) -> None:
        """Promise nothing more, and have others lead. Does nothing the second time."""
        if failure.cancelled() or not self.replica.is_started:
            return
        self._outbox.end(KafkaStorageError(str(failure.exception())))
        for effect in self.replica.step(ResignRequested(self._monotonic_ms())):
            if isinstance(effect, LeadershipLost):
                self._lose_leadership(effect.epoch)
            elif isinstance(effect, SendRequest) and self.on_ask is not None:
                self.on_ask(effect)
        self._tell_progress()

    # Delivering

    def _deliver(self, high_watermark: int) -> None:
        self.log.advance_high_watermark(high_watermark)
        batches = []
        while self._uncommitted and self._uncommitted[0].last_offset < high_watermark:
            batches.append(self._uncommitted.popleft())
        if batches:
            self._listener.commit(batches)
        for offset, commit in [one for one in self._commits if one[0] < high_watermark]:
            self._commits.remove((offset, commit))
            if not commit.done():
                commit.set_result(None)
        role = self.replica.role
        if isinstance(role, Leader) and role.epoch != self._led_epoch and high_watermark > role.start_offset:
            self._led_epoch = role.epoch
            self._listener.lead(role.epoch)

    async def _load(self) -> None:
        """Deliver the newest snapshot, and keep what is in the log until it is known to be committed."""
        snapshot_id = self._store.latest
        snapshot, batches = await self._disk.offload(self.journal.read_all, self._decode)
        if snapshot_id is not None and snapshot is not None:
            values = [self._decode(value) for value in snapshot.values]
            self._listener.load(snapshot_id, snapshot.last_contained_ms or 0, values)
        self._uncommitted = deque(batches)

    # Following

    async def follow(self, leader_id: int, epoch: int) -> None:
        """An answer names the leader of an epoch, or -1: take it over unless it is old news."""
        self._act(self.replica.step(LeaderDiscovered(leader_id, epoch, self._monotonic_ms())))
        await self._settled()

    def is_following(self, leader_id: int, epoch: int) -> bool:
        """Whether what this leader sent in this epoch may still be taken."""
        role = self.replica.role
        return isinstance(role, Follower) and (role.leader_id, role.epoch) == (leader_id, epoch)

    def heard_from_leader(self) -> None:
        """The leader has answered: it is there."""
        self.replica.step(LeaderResponded(self._monotonic_ms()))

    async def take_fetched(self, records: Buffer, high_watermark: int) -> None:
        """Append what the leader sent after the end of this log, and deliver what is committed by now.

        `is_following` first, with nothing awaited in between. A broker's log is not flushed: what a crash
        takes is fetched again. A controller's is, before its next fetch says that it has it.
        """
        end = whole_batches_end(records)
        if end:
            run = memoryview(records)[:end]
            batches = batches_of(run, self._decode)
            self._reserve.provide(lambda: self.log.append_as_follower(run))
            self._next_offset = self.log.log_end_offset
            for record in control_records_of(run):
                self._take_control(record)
            self._uncommitted.extend(batches)
            position = self.journal.end
            self.replica.step(LogAppended(position.end_offset, position.epoch))
        await self.flushed()
        if high_watermark >= 0:
            self._act(self.replica.step(HighWatermarkReceived(high_watermark, self.log.log_end_offset)))
            await self._settled()

    async def flushed(self) -> None:
        """Back when a controller's log is on stable storage: its next fetch says that it has it."""
        if not self._config.is_observer and self.replica.end_offset < self.log.log_end_offset:
            with self._own_work():
                async with self._disk_turn:
                    if self.journal.is_open:
                        await self._flush()

    async def truncate(self, diverging: EpochEnd, leader_id: int, epoch: int) -> None:
        """The leader's log is another one after this: cut off what it does not have."""
        async with self._disk_turn:
            if not self.is_following(leader_id, epoch):
                return
            offset = min(self.journal.common_end(diverging), self.log.log_end_offset)
            if offset < self.replica.high_watermark:
                raise DivergedBelowCommit(offset, self.replica.high_watermark)
            self.log.truncate_to(offset)
            logger.info("Cut the metadata log off at %d, where the leader's goes another way.", offset)
            self._next_offset = offset
            self.replica.step(LogTruncated(offset, self.journal.end.epoch))
            while self._uncommitted and self._uncommitted[-1].last_offset >= offset:
                self._uncommitted.pop()

    async def adopt_snapshot(self, download: Download, leader_id: int, epoch: int) -> None:
        """Begin anew with a snapshot of the leader's, which is ahead of this log."""
        with self._own_work():
            await self._adopt_snapshot(download, leader_id, epoch)
        await self._settled()

    async def _adopt_snapshot(self, download: Download, leader_id: int, epoch: int) -> None:
        snapshot, kept = await self._disk.offload(self._store.finish_download, download)
        values = [self._decode(value) for value in snapshot.values]
        async with self._disk_turn:
            if not self.is_following(leader_id, epoch) or kept.id.offset <= self.replica.high_watermark:
                return
            self._store.add(kept)
            try:
                self._reserve.provide(self.journal.start_anew_at_snapshot)
            except OSError:
                self._store.withdraw(kept)  # so that the follower fetches it again
                raise
            offset = kept.id.offset
            self._next_offset = offset
            self._uncommitted.clear()
            self.replica.step(LogReplaced(offset, kept.id.epoch))
            self._take_quorum_facts(offset - 1, snapshot.kraft_version, snapshot.voters)
            self._listener.load(kept.id, snapshot.last_contained_ms or 0, values)
            self._act(self.replica.step(HighWatermarkReceived(offset, offset)))

    def begin_download(self, snapshot_id: SnapshotId) -> Download:
        return self._store.begin_download(snapshot_id)

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
        async with self._disk_turn:
            # What a snapshot stands for counts as flushed at the next start; a broker's log may not be yet.
            if not self.journal.is_open:
                return
            if self.log.recovery_point < snapshot_id.offset:
                await self._flush_log()
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
        if self.journal.is_open and self.log.active_segment.size_bytes >= _ROLL_BYTES:
            self.log.roll()  # so that a start after a crash scans little, and old segments can go
        logger.info("Wrote the snapshot %s of %d bytes.", snapshot_id.file_name, kept.size_bytes)

    async def clean(self) -> None:
        """Delete what `metadata.max.retention.*` no longer keeps."""
        now_ms, log, config = self._clock.now_ms(), self.log, self._config
        await self._disk.offload(self._reserve.fill)
        await self._disk.offload(self._store.remove_retired)
        log.delete_due(now_ms)
        start = new_start(
            self._store.kept,
            log.size_bytes,
            now_ms,
            retention_bytes=config.retention_bytes,
            retention_ms=config.retention_ms,
        )
        if start is None or not self.journal.is_open:
            return
        log.increase_log_start_offset(start.offset, "a snapshot holds what was before")
        log.delete_old_segments(now_ms)
        self.replica.voters.forget_before(start.offset - 1)
        self.replica.kraft_version.forget_before(start.offset - 1)
        await self._disk.offload(self._store.retire_before, start)

    def _monotonic_ms(self) -> int:
        return int(self._clock.monotonic() * 1000)


class DivergedBelowCommit(RuntimeError):
    """The leader's log lacks what it once told was committed."""

    def __init__(self, offset: int, high_watermark: int) -> None:
        super().__init__(
            f"The controller's log goes another way from offset {offset} on, although all below "
            f"{high_watermark} was committed: its data was lost or replaced. Restore the controller's "
            "metadata directory, or format this node anew for the new cluster."
        )


class UnsupportedQuorum(RuntimeError):
    """The quorum cannot be what the settings of this node say."""

    def __init__(self, voters: Sequence[int], node_id: int) -> None:
        if voters:
            text = (
                f"Node {node_id} is one of the voters {', '.join(map(str, voters))} and, by process.roles, "
                "no controller. Add controller there, or take the node from controller.quorum.voters."
            )
        else:
            text = (
                f"The quorum has no voters. Set controller.quorum.voters={node_id}@host:port, or format the "
                "metadata directory with kafka-storage format --standalone."
            )
        super().__init__(text)


def _close(log: Log, is_clean: bool) -> None:
    try:
        log.close(clean=is_clean)
    except OSError as error:
        logger.error("The metadata log is not closed cleanly, the next start scans it: %s", error)
        log.close(clean=False)
