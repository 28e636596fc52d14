"""Decides what a follower fetches from its leader, and what it does with the response.

A `Following` holds the fetch position of each partition that is fetched from one leader. It takes a
partition's part of a response and returns a step for the log: append, truncate, look up the leader's offsets,
pause or give up. Rules:

- A log is truncated where the leader epochs diverge, never at the high watermark: a follower learns the
  watermark late, and records between it and the log end may be committed.
- A response counts only if the partition is still in the state of the request: same leader epoch and offset.
- A failed step is retried after a pause; after the end of a leader epoch the partition waits until metadata
  brings the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from ottla.wire.errors import ErrorCode, for_code

UNKNOWN = -1
EPOCH_INITIAL = 0
_EPOCH_MAX = 0x7FFFFFFF

Key = tuple[bytes, int]
"""Topic id and partition."""


class Epochs(Protocol):
    @property
    def latest_epoch(self) -> int: ...


class ReplicaLog(Protocol):
    """The parts of its own log that a follower needs."""

    @property
    def log_start_offset(self) -> int: ...

    @property
    def log_end_offset(self) -> int: ...

    @property
    def high_watermark(self) -> int: ...

    @property
    def epochs(self) -> Epochs: ...

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]: ...


def truncation(log: ReplicaLog, leader_epoch: int, leader_end_offset: int) -> int:
    """The offset to truncate to if `leader_end_offset` is the leader's end of the largest epoch that both
    logs share."""
    end_offset = log.log_end_offset
    epoch, epoch_end_offset = log.end_offset_for_epoch(leader_epoch)
    if epoch < 0:
        # This log has no record of that epoch or an older one: the leader's records from there on may follow.
        return min(leader_end_offset, end_offset)
    if epoch != leader_epoch:
        # This log has no record of the leader's epoch: truncate to the end of our epoch before it. The logs
        # may still differ below that offset; the next fetch checks again.
        return min(epoch_end_offset, end_offset)
    return min(epoch_end_offset, leader_end_offset, end_offset)


# Steps


@dataclass(frozen=True, slots=True)
class Append:
    """Append the records (possibly none), then take over the leader's watermarks."""

    leader_epoch: int
    high_watermark: int
    log_start_offset: int


@dataclass(frozen=True, slots=True)
class Truncate:
    offset: int


@dataclass(frozen=True, slots=True)
class FindOffsets:
    """The offset is not in the leader's log: look up its start and end, then call `out_of_range`."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Do nothing now; the partition is retried later."""

    code: ErrorCode


@dataclass(frozen=True, slots=True)
class GiveUp:
    """The leader epoch has ended: do nothing until metadata names another one."""


Step = Append | Truncate | FindOffsets | Pause | GiveUp


class Position:
    """The fetch position of one partition."""

    __slots__ = (
        "index",
        "key",
        "lag",
        "last_fetch",
        "last_fetched_epoch",
        "leader_epoch",
        "needs_epoch",
        "offset",
        "resume_ms",
        "topic",
        "topic_id",
    )

    def __init__(self, topic: str, topic_id: bytes, index: int, leader_epoch: int, log: ReplicaLog) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.key: Key = (topic_id, index)
        self.leader_epoch = leader_epoch
        self.last_fetch: PartitionFetch | None = None  # the last fetch of this partition
        self.lag: int | None = None  # behind the leader's high watermark; None if unknown
        self.resume_ms = 0
        self.offset = 0
        self.last_fetched_epoch = UNKNOWN
        self.restart(log)
        # Records in formats older than leader epochs: only they are truncated at the high watermark.
        self.needs_epoch = self.last_fetched_epoch < 0 and log.log_end_offset > log.log_start_offset

    def restart(self, log: ReplicaLog) -> None:
        """Continue at the end of the log."""
        self.offset = log.log_end_offset
        self.last_fetched_epoch = log.epochs.latest_epoch
        self.needs_epoch = False

    def next_fetch(self, log_start_offset: int) -> PartitionFetch:
        """The fetch for this position: the previous object if nothing has changed."""
        fetch = self.last_fetch
        if (
            fetch is None
            or fetch.offset != self.offset
            or fetch.last_fetched_epoch != self.last_fetched_epoch
            or fetch.log_start_offset != log_start_offset
        ):
            fetch = self.last_fetch = PartitionFetch(
                self.topic_id,
                self.index,
                self.offset,
                self.leader_epoch,
                self.last_fetched_epoch,
                log_start_offset,
            )
        return fetch

    @property
    def is_in_sync(self) -> bool:
        """Whether it has everything that the leader had committed, as far as the follower knows."""
        return self.lag is not None and self.lag <= 0


@dataclass(slots=True)
class PartitionFetch:
    """The fetch of one partition. Not frozen, since that takes thrice as long; nothing changes one."""

    topic_id: bytes
    index: int
    offset: int
    leader_epoch: int
    last_fetched_epoch: int
    log_start_offset: int

    @property
    def key(self) -> Key:
        return self.topic_id, self.index


@dataclass(frozen=True, slots=True)
class Plan:
    """A fetch request: within a session, only changed partitions are sent."""

    session_id: int
    session_epoch: int
    sent: list[PartitionFetch]
    forgotten: list[Key]
    fetches: Mapping[Key, PartitionFetch]
    """All partitions of the session, since the response may contain any of them."""


class Session:
    """The follower's side of a fetch session."""

    __slots__ = ("_epoch", "_id", "_known")

    def __init__(self) -> None:
        self._id = 0
        self._epoch = EPOCH_INITIAL
        self._known: dict[Key, PartitionFetch] = {}

    @property
    def known(self) -> dict[Key, PartitionFetch]:
        """The partitions of the session, as the last request left them."""
        return self._known

    @property
    def epoch_after_answer(self) -> int:
        """The epoch of the request after the next response, if that is sound."""
        return 1 if self._epoch in (EPOCH_INITIAL, _EPOCH_MAX) else self._epoch + 1

    def plan(self, wanted: dict[Key, PartitionFetch]) -> Plan:
        known = self._known
        self._known = wanted
        if self._epoch == EPOCH_INITIAL:
            return Plan(self._id, EPOCH_INITIAL, list(wanted.values()), [], wanted)
        sent = [
            fetch
            for key, fetch in wanted.items()
            if (before := known.get(key)) is not fetch and before != fetch  # usually the same object
        ]
        forgotten = [key for key in known if key not in wanted]
        return Plan(self._id, self._epoch, sent, forgotten, wanted)

    def on_response(self, code: int, session_id: int) -> bool:
        """Process the session fields of a response; return whether its partitions may be used."""
        if code:
            if code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
                self._id = 0
            self._epoch = EPOCH_INITIAL
            return False
        if session_id == 0:
            self._id, self._epoch = 0, EPOCH_INITIAL
        else:
            self._id = session_id
            self._epoch = self.epoch_after_answer
        return True

    def reset(self) -> None:
        """Start a new session and close the old one: it is unknown which requests the leader received."""
        self._epoch = EPOCH_INITIAL


@dataclass(slots=True)
class Following:
    """The partitions that one loop fetches from one leader."""

    positions: dict[Key, Position] = field(default_factory=dict)
    session: Session = field(default_factory=Session)
    changes: int = 0
    """Counts what makes another partition wanted, or none."""

    def follow(self, position: Position) -> None:
        """Fetch a partition, unless it is already fetched in the same leader epoch."""
        known = self.positions.get(position.key)
        if known is None or known.leader_epoch != position.leader_epoch:
            self.positions[position.key] = position
            self.changes += 1

    def forget(self, key: Key) -> bool:
        self.changes += 1
        return self.positions.pop(key, None) is not None

    def plan(
        self,
        now_ms: int,
        log_start_of: Callable[[Key], int | None],
        is_held_back: Callable[[Position], bool] | None,
    ) -> Plan | None:
        """The next fetch; None if there is nothing to fetch now."""
        wanted: dict[Key, PartitionFetch] = {}
        for key, position in self.positions.items():
            if position.resume_ms > now_ms or position.needs_epoch:
                continue
            if is_held_back is not None and is_held_back(position):
                continue
            log_start_offset = log_start_of(key)
            if log_start_offset is not None:
                wanted[key] = position.next_fetch(log_start_offset)
        return self.session.plan(wanted) if wanted else None

    def without_epochs(self, now_ms: int) -> list[Position]:
        """Partitions with records in formats older than leader epochs, so that their logs have no epochs."""
        return [
            position
            for position in self.positions.values()
            if position.needs_epoch and position.resume_ms <= now_ms
        ]

    def next_resume_ms(self, now_ms: int) -> int | None:
        """The time when the first paused partition resumes; None if none is paused."""
        paused = [one.resume_ms for one in self.positions.values() if one.resume_ms > now_ms]
        return min(paused, default=None)

    def pause(self, keys: Collection[Key], until_ms: int) -> None:
        self.changes += 1
        for key in keys:
            position = self.positions.get(key)
            if position is not None:
                position.resume_ms = max(position.resume_ms, until_ms)

    def current(self, fetch: PartitionFetch | None) -> Position | None:
        """The position that a response is about; None if it has changed since the request."""
        if fetch is None:
            return None
        position = self.positions.get(fetch.key)
        if position is None or position.offset != fetch.offset or position.leader_epoch != fetch.leader_epoch:
            return None
        return position

    def step(
        self,
        log: ReplicaLog,
        *,
        leader_epoch: int,
        code: int,
        diverging_epoch: int,
        diverging_end_offset: int,
        high_watermark: int,
        log_start_offset: int,
    ) -> Step:
        """The step that a partition's part of a response requires."""
        if code == ErrorCode.NONE:
            if diverging_epoch >= 0:
                # The watermarks arrive again with the first response after the truncation.
                return Truncate(truncation(log, diverging_epoch, diverging_end_offset))
            return Append(leader_epoch, high_watermark, log_start_offset)
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            return FindOffsets()
        if code == ErrorCode.FENCED_LEADER_EPOCH:
            return GiveUp()
        return Pause(for_code(code).code)

    def appended(self, position: Position, log: ReplicaLog, leader_high_watermark: int) -> None:
        """Update the position after the log appended the leader's records, possibly none."""
        before = position.offset
        position.restart(log)
        position.lag = max(0, leader_high_watermark - position.offset)
        # A partition that received records moves to the end of the queue, so that none starves.
        if (
            position.offset != before
            and len(self.positions) > 1
            and self.positions.get(position.key) is position
        ):
            self.positions[position.key] = self.positions.pop(position.key)


class Restart(NamedTuple):
    """The position after OFFSET_OUT_OF_RANGE."""

    truncate_to: int | None = None
    start_over_at: int | None = None


def out_of_range(log: ReplicaLog, leader_start_offset: int, leader_end_offset: int) -> Restart:
    """The action for a log whose end is outside the leader's log.

    Beyond the leader's end: the leader was elected without some records, so they are truncated here. Before
    its start: the leader has deleted the records that would follow, so the log starts over at the leader's
    start.
    """
    if leader_end_offset < log.log_end_offset:
        return Restart(truncate_to=leader_end_offset)
    if leader_start_offset > log.log_end_offset:
        return Restart(start_over_at=leader_start_offset)
    return Restart()
