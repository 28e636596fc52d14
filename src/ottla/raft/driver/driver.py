"""The driver of a replica: it starts and stops it, passes messages on, and owns the parts.

The rules: effects are carried out in their order, and a response to another replica leaves after the effects
of its request; a record counts for this replica only after it is on stable storage; records of a leader are
appended only while that leader is followed; and after a failed write nothing more is promised: `failure` is
set and the node must stop. A full disk and a lack of descriptors are no failure (`disk_space.py`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar

from ottla.log.log import Log
from ottla.log.segment import LogDamaged
from ottla.ports import OUT_OF_RESOURCES, Buffer, Clock, Disk, Random
from ottla.raft.disk_reserve import Reserve
from ottla.raft.driver.config import DriverConfig
from ottla.raft.driver.delivery import Delivery, Listener
from ottla.raft.driver.disk_space import DiskSpace
from ottla.raft.driver.effect_queue import EffectQueue
from ottla.raft.driver.election_writer import ElectionWriter
from ottla.raft.driver.follower_log import DivergedBelowCommit, FollowerLog
from ottla.raft.driver.leader_log import LeaderLog
from ottla.raft.driver.log_storage import LogStorage
from ottla.raft.driver.replica_timer import ReplicaTimer, monotonic_ms
from ottla.raft.driver.snapshot_lifecycle import SnapshotLifecycle
from ottla.raft.effects import (
    Effect,
    HighWatermarkAdvanced,
    LeaderChanged,
    LeadershipLost,
    SendRequest,
    SendResponse,
    StartEpoch,
)
from ottla.raft.election_state import EPOCH_MAX, NOBODY
from ottla.raft.events import (
    Event,
    LeaderDiscovered,
    LeaderResponded,
    LogTruncated,
    ReplicaFetched,
    RequestReceived,
    ResignRequested,
    ResponseReceived,
    SnapshotFetched,
    TimePassed,
)
from ottla.raft.messages import Request, Response
from ottla.raft.metadata_log import EpochEnd, Journal
from ottla.raft.replica import Replica
from ottla.raft.roles import Role
from ottla.raft.snapshots import SnapshotId
from ottla.raft.store import Download
from ottla.raft.voters import ReplicaKey, VoterSet
from ottla.rare_paths import rarely
from ottla.wire.errors import KafkaStorageError

logger = logging.getLogger("ottla.raft.driver")

_T = TypeVar("_T")


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
        self.failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.failure.add_done_callback(self._step_down)  # the node may set it for another reason
        self.on_progress: Callable[[], None] | None = None  # the log grew, or this node no longer leads it
        self.on_ask: Callable[[SendRequest], None] | None = None  # sends a request to another replica
        self.on_leader: Callable[[], None] | None = None  # the leader, the epoch or the role has changed
        self._reported_role: type[Role] | None = None
        self._tasks: list[asyncio.Task[None]] = []

        self.journal = Journal(disk, clock, config.directory, config.log)
        self.replica = replica = Replica(
            config.local, config.static_voters, timeouts=config.timeouts, draw=random.below
        )
        self._reserve = Reserve(disk, config.directory, config.reserve_bytes)
        self._space = DiskSpace(self._reserve)
        self._elections = ElectionWriter(disk, self.journal.store, replica, self._space)
        self._timer = ReplicaTimer(
            clock,
            replica,
            config.timeouts.fetch_ms,
            can_run=self._can_run_timer,
            is_paused=lambda: self._elections.is_retrying,
            on_time=self._on_time,
        )
        self._delivery = Delivery(self.journal, replica, listener)
        self._storage = LogStorage(disk, clock, self.journal, self._space, replica, self._act)
        self._leader_log = LeaderLog(
            clock,
            self._storage,
            replica,
            self._delivery,
            config.batch_bytes_max,
            on_progress=self._report_progress,
            resign=self.resign,
            fail=self.fail,
        )
        self._follower_log = FollowerLog(
            self._storage,
            replica,
            self._delivery,
            self._timer,
            decode,
            act=self._act,
            is_observer=config.is_observer,
        )
        self._snapshots = SnapshotLifecycle(
            disk, clock, config, self._storage, replica, self._delivery, decode, self._act
        )
        self._effects = EffectQueue(
            self._elections.write,
            {
                StartEpoch: self._leader_log.start_epoch,
                LeaderChanged: self._on_leader_changed,
                HighWatermarkAdvanced: self._delivery.advance,
                LeadershipLost: self._lose_leadership,
                SendRequest: self._send_request,
            },
            self.fail,
        )

    # State

    @property
    def log(self) -> Log:
        return self.journal.log

    @property
    def is_leader(self) -> bool:
        return self.replica.is_leader

    @property
    def is_disk_full(self) -> bool:
        """Whether the log uses its reserve or waits for space: write only what is necessary."""
        return self._space.is_full

    @property
    def next_offset(self) -> int:
        """The offset that the next record appended on this node gets."""
        return self._leader_log.next_offset

    @property
    def latest_snapshot(self) -> SnapshotId | None:
        return self.journal.latest_snapshot

    # Starting and stopping

    async def start(self) -> None:
        """Open the log and take part in the quorum.

        The only voter leads: this returns once everything committed has been delivered. For other replicas it
        returns at once, and they deliver records as they learn that these are committed.
        """
        await self._disk.offload(self._open)
        replica, config = self.replica, self._config
        if replica.is_voter and config.is_observer:
            raise UnsupportedQuorum(replica.voters.last.ids, config.local.key.id)
        if not config.is_observer and not config.has_bootstrap and not replica.voters.last.ids:
            raise UnsupportedQuorum((), config.local.key.id)
        election = await self._disk.offload(self.journal.store.read_election)
        if not config.is_observer and not replica.is_only_voter:
            await self._storage.flush()  # a killed process may have left records that only the page cache has
        await self._snapshots.load()
        end = self.journal.end
        self._act(replica.start(election, end.end_offset, end.epoch, self._now_ms()))
        await self._completed()
        if replica.is_only_voter:
            await self._leader_log.write()
        if not config.is_observer:
            self._tasks.append(asyncio.create_task(self._leader_log.run()))

    async def stop(self) -> None:
        """Write what was appended, then close the log."""
        self._elections.stop()
        if not self.journal.is_open:
            self._reserve.close()
            return
        self._timer.cancel()
        self.on_ask = None
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._effects.close()
        is_clean = not self.failure.done()
        if is_clean and self.is_leader:
            try:
                await self._leader_log.write()
            except OSError as error:
                self.fail(error)
                is_clean = False
        if self.replica.is_started:
            self.resign()
            self._timer.cancel()
        self._reserve.close()
        log = self.journal.detach()
        if log is not None:
            await self._disk.offload(_close, log, is_clean)
            self._report_progress()

    def _open(self) -> None:
        """Open the log and the snapshots, and report the voters that they name. Blocks."""
        self._reserve.open()
        self.journal.open(can_refetch=self._config.is_observer)
        for event in self.journal.voter_events():
            self.replica.step(event)

    # Events and effects

    def _step(self, event: Event) -> None:
        self._act(self.replica.step(event))

    def _act(self, effects: Iterable[Effect]) -> None:
        """Carry out effects. Those that need the disk, and those after them, are carried out later."""
        try:
            self._effects.carry_out(effects)
        except Exception as error:  # noqa: BLE001 - of a listener: the state is unknown now
            self.fail(error)
            return
        self._timer.set()
        role = type(self.replica.role)
        if role is not self._reported_role:
            self._reported_role = role
            self._report_leader()

    async def _completed(self) -> None:
        """Wait until all effects so far are carried out, and on disk where they must be."""
        if self.failure.done():
            raise KafkaStorageError("The metadata log failed; this node is shutting down.")
        await self._effects.completed()

    def _on_leader_changed(self, effect: LeaderChanged) -> None:
        if effect.leader_id == NOBODY:
            logger.info("No leader of the quorum is known in epoch %d.", effect.epoch)
            if effect.epoch >= EPOCH_MAX:
                logger.critical(
                    "Epoch %d is the highest: no leader can be elected any more. Restore the quorum-state "
                    "files of the controllers from a backup.",
                    effect.epoch,
                )
        else:
            logger.info("In epoch %d the leader of the quorum is %d.", effect.epoch, effect.leader_id)
        self._report_progress()
        self._report_leader()

    def _send_request(self, effect: SendRequest) -> None:
        if self.on_ask is not None:
            self.on_ask(effect)

    def _lose_leadership(self, effect: LeadershipLost) -> None:
        """Drop what was not written. What was written may be truncated by the next leader."""
        self._leader_log.drop_unwritten()
        if self.journal.is_open:
            end = self.journal.end
            self.replica.step(LogTruncated(end.end_offset, end.epoch))
        self._delivery.lose_leadership(effect.epoch)
        self._report_progress()

    def _can_run_timer(self) -> bool:
        return not self._config.is_observer and not self.failure.done() and self.journal.is_open

    def _on_time(self, now_ms: int) -> None:
        if self.is_leader and rarely("a leader of the quorum resigns"):
            self.resign()
        self._step(TimePassed(now_ms))

    def _now_ms(self) -> int:
        return monotonic_ms(self._clock)

    def _report_progress(self) -> None:
        if self.on_progress is not None:
            self.on_progress()

    def _report_leader(self) -> None:
        if self.on_leader is not None:
            self.on_leader()

    # Other replicas

    async def answer(self, request: Request) -> Response:
        """The response to another replica's request, once what it changed is on disk."""
        *effects, sent = self.replica.step(RequestReceived(request, self._now_ms()))
        assert isinstance(sent, SendResponse)
        self._act(effects)
        await self._completed()
        return sent.response

    def take_answer(self, replica_id: int, request: Request, response: Response) -> None:
        """Another replica's response to a request of this one."""
        if self.journal.is_open and not self.failure.done():
            self._step(ResponseReceived(replica_id, request, response, self._now_ms()))

    def fetched_by(self, key: ReplicaKey, offset: int) -> None:
        """Another replica fetches from `offset` of the log that this one leads."""
        effects = self.replica.step(ReplicaFetched(key, offset, self._now_ms()))
        if effects:
            self._act(effects)
            self._report_progress()

    def contacted_by(self, key: ReplicaKey) -> None:
        """Another replica fetches a snapshot of this one."""
        self.replica.step(SnapshotFetched(key, self._now_ms()))

    def resign(self) -> None:
        """Resign as leader, and notify the other voters."""
        self._step(ResignRequested(self._now_ms()))

    # Leading

    def append(self, values: Sequence[bytes], records: Sequence[_T]) -> int:
        """Append one batch as the leader; `values` are the records as bytes.

        Returns the offset of the last record; the listener learns when it is committed. Batches that are
        appended during a flush share the next one.
        """
        if self.failure.done():
            raise KafkaStorageError("The metadata log failed; this node is shutting down.")
        return self._leader_log.append(values, records)

    def upgrade_kraft_version(self, level: int) -> None:
        """Raise kraft.version: from here on the log names the voters."""
        self._leader_log.append_kraft_version(level)

    def append_voters(self, voters: VoterSet) -> int:
        """Append other voters, which take effect at once. Returns the offset of the record."""
        return self._leader_log.append_voters(voters)

    async def committed(self, offset: int) -> None:
        """Wait until `offset` is committed; NotLeader if this node loses the leadership before."""
        await self._delivery.committed(offset)

    # Following

    async def follow(self, leader_id: int, epoch: int) -> None:
        """A response names the leader of an epoch, or -1. An older epoch changes nothing."""
        self._step(LeaderDiscovered(leader_id, epoch, self._now_ms()))
        await self._completed()

    def is_following(self, leader_id: int, epoch: int) -> bool:
        """Whether what this leader sent in this epoch may still change the log."""
        return self.replica.is_following(leader_id, epoch)

    def heard_from_leader(self) -> None:
        """The leader has responded to a fetch."""
        self.replica.step(LeaderResponded(self._now_ms()))

    async def take_fetched(self, records: Buffer, high_watermark: int) -> None:
        """Append what the leader sent, and deliver what is committed now.

        The caller checks `is_following` first, and awaits nothing in between.
        """
        await self._follower_log.append(records, high_watermark)
        if high_watermark >= 0:
            await self._completed()

    async def flushed(self) -> None:
        """Wait until a controller's log is on stable storage: its next fetch says that it has the records."""
        await self._follower_log.flush()

    async def truncate(self, diverging: EpochEnd, leader_id: int, epoch: int) -> None:
        """Truncate the log to where it diverges from the leader's, if that leader is still followed."""
        await self._follower_log.truncate(diverging, leader_id, epoch)

    # Snapshots

    def begin_download(self, snapshot_id: SnapshotId) -> Download:
        return self.journal.store.begin_download(snapshot_id)

    async def adopt_snapshot(self, download: Download, leader_id: int, epoch: int) -> None:
        """Replace the log by a newer snapshot of the leader, if that leader is still followed."""
        with self._timer.follower_work():
            await self._snapshots.adopt(download, leader_id, epoch)
        await self._completed()

    async def write_snapshot(
        self, snapshot_id: SnapshotId, values: Iterable[bytes], last_contained_ms: int
    ) -> None:
        """Write a snapshot of what is committed before its offset. A thread reads `values`."""
        await self._snapshots.write(snapshot_id, values, last_contained_ms)

    async def clean(self) -> None:
        """Delete what `metadata.max.retention.*` no longer keeps."""
        await self._snapshots.clean()

    # Failing

    def is_passing(self, error: Exception) -> bool:
        """Whether the log is as it was before the error of a write, and a retry may succeed."""
        return self.journal.can_retry(error)

    def fail(self, error: Exception) -> None:
        """Stop taking part in the quorum: the content of the log, or what was replayed of it, is unknown."""
        if self.failure.done():  # the node stops already, and that explains this error
            self._effects.fail(KafkaStorageError(str(error)))
            return
        if isinstance(error, OSError):
            text = f"Cannot read or write the metadata log in {self.journal.store.directory}: {error}"
            logger.critical("%s", text)
        elif isinstance(error, DivergedBelowCommit):
            text = str(error)
            logger.critical("%s", text)
        else:
            text = f"Failed to apply committed metadata: {error}"
            logger.critical("%s", text, exc_info=error)
        self.failure.set_exception(KafkaStorageError(text))
        self.failure.exception()  # asyncio reports no unretrieved exception; whoever awaits it still gets it
        self._step_down(self.failure)

    def cannot_read(self, error: OSError) -> None:
        """Reading for another replica failed. The disk has failed, so this node stops.

        But not if too many files are open, or if a batch is damaged that the other replicas read long ago:
        one replica that is behind must not stop a controller.
        """
        if isinstance(error, LogDamaged):
            logger.error("%s", error)
        elif error.errno in OUT_OF_RESOURCES:
            logger.error("%s: %s (raise the limit of open files)", self.journal.store.directory, error)
        else:  # soon: the driver itself may have woken the caller
            asyncio.get_running_loop().call_soon(self.fail, error)

    def _step_down(self, failure: asyncio.Future[None]) -> None:
        """Promise nothing more, and let others lead. A second call does nothing."""
        if failure.cancelled() or not self.replica.is_started:
            return
        self._effects.fail(KafkaStorageError(str(failure.exception())))
        for effect in self.replica.step(ResignRequested(self._now_ms())):
            if isinstance(effect, LeadershipLost):
                self._lose_leadership(effect)
            elif isinstance(effect, SendRequest):
                self._send_request(effect)
        self._report_progress()


class UnsupportedQuorum(RuntimeError):
    """The quorum contradicts the settings of this node."""

    def __init__(self, voters: Sequence[int], node_id: int) -> None:
        if voters:
            text = (
                f"Node {node_id} is one of the voters {', '.join(map(str, voters))}, but process.roles does "
                "not contain controller. Add controller to process.roles, or remove the node from "
                "controller.quorum.voters."
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
        logger.error("Failed to close the metadata log cleanly; the next start will scan it: %s", error)
        log.close(clean=False)
