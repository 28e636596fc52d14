"""The leader's view of a partition's followers.

It decides three things: the high watermark, the members of the ISR, and whose fetches count. Rules:

- The high watermark is the smallest end offset of the leader and of every replica that is in sync, is
  proposed for the ISR (`maximal_isr`), or has caught up and may join. A removal takes effect once the
  controller has accepted it.
- A follower joins once it has reached the high watermark and the offset at which the leader's epoch began:
  below that offset there may be committed records that the leader does not know to be committed.
- One ISR change is in flight at a time. The controller's response or newer metadata completes it, whichever
  comes first; a response to an older proposal is ignored. Metadata with a partition epoch that is already
  known does not complete it: a response brought that epoch first, and the next proposal may have reached the
  controller since.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from ottla.rare_paths import rarely
from ottla.wire.errors import ErrorCode, NotLeaderOrFollower, UnknownLeaderEpoch

UNKNOWN_OFFSET = -1
UNKNOWN_BROKER_EPOCH = -1
NEVER_MS = -(1 << 62)
"""A time before any reading of a clock."""

_NOT_CHANGED = frozenset((ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA))
_WAIT_FOR_METADATA = frozenset(
    (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    )
)


class BrokerStatus(Protocol):
    """The state of a broker in the cluster's metadata."""

    @property
    def epoch(self) -> int: ...

    @property
    def fenced(self) -> bool: ...

    @property
    def in_controlled_shutdown(self) -> bool: ...


class LeaderEnvironment(Protocol):
    """The leader's view of its environment."""

    @property
    def node_id(self) -> int: ...

    @property
    def broker_epoch(self) -> int:
        """The epoch of this broker's registration."""

    @property
    def brokers(self) -> Mapping[int, BrokerStatus]: ...

    @property
    def lag_max_ms(self) -> int:
        """`replica.lag.time.max.ms`"""

    def now_ms(self) -> int:
        """Milliseconds on a monotonic clock."""


class FollowerProgress:
    """The progress of one follower, from its fetches."""

    __slots__ = (
        "broker_epoch",
        "caught_up_ms",
        "fetched_ms",
        "leader_end_offset",
        "log_end_offset",
        "log_start_offset",
    )

    def __init__(self) -> None:
        self.log_start_offset = UNKNOWN_OFFSET
        self.log_end_offset = UNKNOWN_OFFSET
        self.leader_end_offset = UNKNOWN_OFFSET  # the leader's log end at its last fetch
        self.fetched_ms = NEVER_MS
        self.caught_up_ms = NEVER_MS
        self.broker_epoch: int | None = None  # None before its first fetch

    def begin_epoch(self, now_ms: int, leader_end_offset: int, *, is_new_leader: bool, in_sync: bool) -> None:
        """Start a leader epoch: a follower in the ISR gets time to fetch, any other does not."""
        self.caught_up_ms = now_ms if in_sync else NEVER_MS
        if is_new_leader:
            self.log_start_offset = self.log_end_offset = self.leader_end_offset = UNKNOWN_OFFSET
            self.fetched_ms = NEVER_MS
            self.broker_epoch = None
        else:
            self.leader_end_offset = leader_end_offset
            self.fetched_ms = now_ms if in_sync else NEVER_MS

    def take(
        self, offset: int, log_start_offset: int, leader_end_offset: int, now_ms: int, broker_epoch: int
    ) -> None:
        """Record a fetch from `offset` that arrived while the leader's log ended at `leader_end_offset`."""
        if offset >= leader_end_offset:
            self.caught_up_ms = max(self.caught_up_ms, now_ms)
        elif offset >= self.leader_end_offset:
            # It now has everything that existed at its last fetch, so it was caught up at that time. That way
            # a follower stays in sync even if records arrive faster than it fetches.
            self.caught_up_ms = max(self.caught_up_ms, self.fetched_ms)
        self.log_start_offset = log_start_offset
        self.log_end_offset = offset
        self.leader_end_offset = max(leader_end_offset, self.leader_end_offset)
        self.fetched_ms = now_ms
        self.broker_epoch = broker_epoch

    def stay(self, now_ms: int) -> None:
        """Record a repeated fetch from the leader's end offset."""
        self.fetched_ms = now_ms
        if now_ms > self.caught_up_ms:
            self.caught_up_ms = now_ms

    def is_caught_up(self, leader_end_offset: int, now_ms: int, lag_max_ms: int) -> bool:
        return self.log_end_offset == leader_end_offset or now_ms - self.caught_up_ms <= lag_max_ms


@dataclass(frozen=True, slots=True, eq=False)
class Proposal:
    """An ISR change proposed to the controller. Proposals are compared by identity."""

    isr: tuple[tuple[int, int], ...]
    """Each replica with the broker epoch known to the leader, -1 for any."""
    leader_epoch: int
    partition_epoch: int
    added: int | None = None
    removed: frozenset[int] = frozenset()


class AcceptedChange(NamedTuple):
    """The controller's response to an accepted proposal."""

    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]


class ReadableReplica(NamedTuple):
    """A replica that a consumer may read from; the greater one is preferred."""

    end_offset: int
    caught_up_ms: int
    broker_id: int


class Leadership:
    """A partition from its leader's point of view. See the module."""

    __slots__ = (
        "_around",
        "epoch_start_offset",
        "followers",
        "isr",
        "leader_epoch",
        "maximal_isr",
        "min_insync_replicas",
        "partition_epoch",
        "pending",
    )

    def __init__(self, around: LeaderEnvironment) -> None:
        self._around = around
        self.followers: dict[int, FollowerProgress] = {}
        self.isr: frozenset[int] = frozenset()  # accepted by the controller
        self.maximal_isr: frozenset[int] = frozenset()  # including a replica that is proposed
        self.leader_epoch = -1
        self.partition_epoch = -1
        self.epoch_start_offset = 0
        self.min_insync_replicas = 1  # never above the number of replicas
        self.pending: Proposal | None = None

    # Metadata

    def take(
        self,
        *,
        replicas: Sequence[int],
        isr: Iterable[int],
        leader_epoch: int,
        partition_epoch: int,
        end_offset: int,
    ) -> None:
        """Apply metadata that names this node the leader. `end_offset` is the end of its log."""
        followers = self.followers
        others = [replica for replica in replicas if replica != self._around.node_id]
        self.followers = {replica: followers.get(replica) or FollowerProgress() for replica in others}
        if partition_epoch > self.partition_epoch or leader_epoch > self.leader_epoch:
            self._commit(frozenset(isr), partition_epoch)
        if leader_epoch > self.leader_epoch:
            now_ms = self._around.now_ms()
            for replica, progress in self.followers.items():
                progress.begin_epoch(
                    now_ms, end_offset, is_new_leader=self.leader_epoch < 0, in_sync=replica in self.isr
                )
            self.leader_epoch = leader_epoch
            self.epoch_start_offset = end_offset

    def _commit(self, isr: frozenset[int], partition_epoch: int) -> None:
        self.isr = self.maximal_isr = isr
        self.partition_epoch = partition_epoch
        self.pending = None

    # Fetches of followers

    def follower(self, replica_id: int, *, names_epoch: bool) -> FollowerProgress:
        """The follower that fetches; raises the error for a node that is not a replica."""
        progress = self.followers.get(replica_id)
        if progress is None:
            # The node may learn of its assignment before this leader does, so the error is retriable.
            kind = UnknownLeaderEpoch if names_epoch else NotLeaderOrFollower
            raise kind(
                f"Node {replica_id} is not among the replicas in leader epoch {self.leader_epoch} "
                f"and partition epoch {self.partition_epoch}."
            )
        return progress

    def fetched(
        self,
        progress: FollowerProgress,
        replica_id: int,
        *,
        offset: int,
        log_start_offset: int,
        leader_end_offset: int,
        broker_epoch: int,
    ) -> bool:
        """Record a fetch; return whether the follower's end offset changed. Refuses a broker with an old
        epoch."""
        status = self._around.brokers.get(replica_id)
        is_replaced = status is not None and not status.fenced and status.epoch > broker_epoch
        if is_replaced and broker_epoch != UNKNOWN_BROKER_EPOCH:
            raise NotLeaderOrFollower(
                f"Node {replica_id} fetches with broker epoch {broker_epoch}, which is stale."
            )
        before = progress.log_end_offset
        progress.take(offset, log_start_offset, leader_end_offset, self._around.now_ms(), broker_epoch)
        return progress.log_end_offset != before

    def unchanged_follower(
        self, replica_id: int, *, offset: int, log_start_offset: int, broker_epoch: int
    ) -> FollowerProgress | None:
        """The follower, if a fetch with these values changes nothing."""
        progress = self.followers.get(replica_id)
        if (
            progress is not None
            and progress.log_end_offset == offset
            and progress.log_start_offset == log_start_offset
            and progress.broker_epoch == broker_epoch
            and replica_id in self.isr
        ):
            return progress
        return None

    # Watermarks

    def high_watermark(self, end_offset: int) -> int | None:
        """The high watermark for a log that ends at `end_offset`; None if the ISR is below
        min.insync.replicas."""
        if len(self.isr) < self.min_insync_replicas:
            return None
        lowest = end_offset
        for replica_id, progress in self.followers.items():
            if progress.log_end_offset < lowest and (
                replica_id in self.maximal_isr or self._may_soon_join(replica_id, progress, end_offset)
            ):
                lowest = progress.log_end_offset
        return lowest

    def _may_soon_join(self, replica_id: int, progress: FollowerProgress, end_offset: int) -> bool:
        """Whether the watermark waits for an out-of-sync follower, which could never catch up otherwise."""
        around = self._around
        return progress.is_caught_up(end_offset, around.now_ms(), around.lag_max_ms) and self._is_eligible(
            replica_id, progress
        )

    def low_watermark(self, log_start_offset: int) -> int:
        """The smallest log start offset of the leader and of the live followers."""
        brokers = self._around.brokers
        for replica_id, progress in self.followers.items():
            status = brokers.get(replica_id)
            if status is not None and not status.fenced and progress.log_start_offset < log_start_offset:
                log_start_offset = progress.log_start_offset
        return log_start_offset

    # In-sync replicas

    def _is_eligible(self, replica_id: int, progress: FollowerProgress) -> bool:
        """Whether the controller would accept it: alive, not shutting down, and with the epoch that we
        know."""
        status = self._around.brokers.get(replica_id)
        return (
            status is not None
            and not status.fenced
            and not status.in_controlled_shutdown
            and progress.broker_epoch in (UNKNOWN_BROKER_EPOCH, status.epoch)
        )

    def expansion(self, replica_id: int, high_watermark: int) -> Proposal | None:
        """A proposal to add a follower, if it has caught up and no other change is in flight."""
        progress = self.followers.get(replica_id)
        if (
            progress is None
            or self.pending is not None
            or replica_id in self.isr
            or progress.log_end_offset < high_watermark
            or progress.log_end_offset < self.epoch_start_offset
            or not self._is_eligible(replica_id, progress)
        ):
            return None
        # It counts as in sync from now on. That is stricter, so a rejected proposal does no harm.
        self.maximal_isr = self.isr | {replica_id}
        self.pending = self._proposal(self.maximal_isr, added=replica_id)
        return self.pending

    def lagging(self, end_offset: int) -> frozenset[int]:
        """The in-sync replicas that have lagged for too long."""
        around = self._around
        now_ms, lag_max_ms = around.now_ms(), around.lag_max_ms
        return frozenset(
            replica_id
            for replica_id in self.isr
            if replica_id != around.node_id
            and (
                (progress := self.followers.get(replica_id)) is None
                or not progress.is_caught_up(end_offset, now_ms, lag_max_ms)
            )
        )

    def shrinkage(self, end_offset: int) -> Proposal | None:
        """A proposal to remove lagging replicas, if there are any and no other change is in flight."""
        if self.pending is not None:
            return None
        lagging = self.lagging(end_offset)
        if not lagging and rarely("a follower in sync is put out"):
            lagging = frozenset(sorted(self.isr - {self._around.node_id})[:1])
        if not lagging:
            return None
        # They count until the controller accepts: it may reject the proposal and elect one of them.
        self.pending = self._proposal(self.isr - lagging, removed=lagging)
        return self.pending

    def _proposal(
        self, isr: frozenset[int], *, added: int | None = None, removed: frozenset[int] = frozenset()
    ) -> Proposal:
        return Proposal(
            isr=tuple((replica_id, self._epoch_of(replica_id)) for replica_id in sorted(isr)),
            leader_epoch=self.leader_epoch,
            partition_epoch=self.partition_epoch,
            added=added,
            removed=removed,
        )

    def _epoch_of(self, replica_id: int) -> int:
        if replica_id == self._around.node_id:
            return self._around.broker_epoch
        progress = self.followers.get(replica_id)
        # A member that has not fetched yet. If it had died, the controller would have removed it itself.
        return UNKNOWN_BROKER_EPOCH if progress is None else _known(progress.broker_epoch)

    def accepted(self, proposal: Proposal, answer: AcceptedChange) -> bool:
        """Apply an accepted proposal; return whether that changed the ISR's state."""
        if proposal is not self.pending:
            return False
        if answer.leader_epoch != self.leader_epoch or answer.partition_epoch < self.partition_epoch:
            return False  # newer metadata has arrived or will arrive
        self._commit(frozenset(answer.isr), answer.partition_epoch)
        return True

    def rejected(self, proposal: Proposal, code: ErrorCode) -> bool:
        """Handle a rejected proposal; return whether to send it again."""
        if proposal is not self.pending:
            return False
        if code in _NOT_CHANGED:
            # The partition epoch is current and nothing has changed: return to the accepted ISR.
            self._commit(self.isr, self.partition_epoch)
            return False
        # The controller's state is unknown until metadata arrives: keep the proposal, and its strictness.
        return code not in _WAIT_FOR_METADATA

    # Consumers

    def readable(self, offset: int) -> list[ReadableReplica]:
        """The in-sync followers that have the record at `offset`, or whose logs end there."""
        return [
            ReadableReplica(progress.log_end_offset, progress.caught_up_ms, replica_id)
            for replica_id, progress in self.followers.items()
            if replica_id in self.isr and progress.log_start_offset <= offset <= progress.log_end_offset
        ]


def _known(epoch: int | None) -> int:
    return UNKNOWN_BROKER_EPOCH if epoch is None else epoch
