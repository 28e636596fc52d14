"""How a follower follows: what it asks its leader for, and what it does with the answer.

A `Following` holds where each partition that one leader leads is to be fetched from. It takes a partition's
part of an answer and returns a step to do on the log: append, truncate, ask for the leader's offsets, or
nothing. The rules that keep it right:

- A log is cut where the leader's epochs say that the logs part, never at the high watermark: a follower
  learns of the watermark late, and records between it and the end may be committed.
- An answer counts only if the partition is where it was when it was asked for: same leader epoch and offset.
- What failed is tried again after a pause; a leader epoch that is over is given up until metadata brings
  the next one.
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
    """What a follower must know of its own log."""

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
    """The offset to truncate to, when the leader says that the largest epoch it shares with us ended at
    `leader_end_offset`."""
    end_offset = log.log_end_offset
    epoch, epoch_end_offset = log.end_offset_for_epoch(leader_epoch)
    if epoch < 0:
        # Nothing of ours is of that epoch or older: all that the leader has may come.
        return min(leader_end_offset, end_offset)
    if epoch != leader_epoch:
        # The leader names an epoch that we have nothing of: what is ours after the one before it must go.
        # The logs may still differ below that offset; the next fetch asks again.
        return min(epoch_end_offset, end_offset)
    return min(epoch_end_offset, leader_end_offset, end_offset)


# Steps


@dataclass(frozen=True, slots=True)
class Append:
    """Append the records (there may be none), then take over the leader's watermarks."""

    leader_epoch: int
    high_watermark: int
    log_start_offset: int


@dataclass(frozen=True, slots=True)
class Truncate:
    offset: int


@dataclass(frozen=True, slots=True)
class FindOffsets:
    """The offset is not in the leader's log: ask where that starts and ends, then `out_of_range`."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Nothing now; the partition is tried again later."""

    code: ErrorCode


@dataclass(frozen=True, slots=True)
class GiveUp:
    """The leader epoch is over: nothing until metadata names another."""


Step = Append | Truncate | FindOffsets | Pause | GiveUp


class Position:
    """Where one partition is to be fetched from."""

    __slots__ = (
        "asked",
        "index",
        "key",
        "lag",
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
        self.asked: Asked | None = None  # by the last fetch
        self.lag: int | None = None  # behind the leader's high watermark; None: not known yet
        self.resume_ms = 0
        self.offset = 0
        self.last_fetched_epoch = UNKNOWN
        self.restart(log)
        # Records of formats from before there were epochs: only for them the high watermark must do.
        self.needs_epoch = self.last_fetched_epoch < 0 and log.log_end_offset > log.log_start_offset

    def restart(self, log: ReplicaLog) -> None:
        """Go on from where the log ends."""
        self.offset = log.log_end_offset
        self.last_fetched_epoch = log.epochs.latest_epoch
        self.needs_epoch = False

    def ask(self, log_start_offset: int) -> Asked:
        """What to ask for now: what was asked before, where nothing has changed."""
        asked = self.asked
        if (
            asked is None
            or asked.offset != self.offset
            or asked.last_fetched_epoch != self.last_fetched_epoch
            or asked.log_start_offset != log_start_offset
        ):
            asked = self.asked = Asked(
                self.topic_id,
                self.index,
                self.offset,
                self.leader_epoch,
                self.last_fetched_epoch,
                log_start_offset,
            )
        return asked

    @property
    def is_in_sync(self) -> bool:
        """As far as this side can tell: it has what the leader called committed."""
        return self.lag is not None and self.lag <= 0


@dataclass(frozen=True, slots=True)
class Asked:
    """What one fetch asks of one partition."""

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
    """One fetch: in a session only what is new to the leader is sent."""

    session_id: int
    session_epoch: int
    sent: list[Asked]
    forgotten: list[Key]
    asked: Mapping[Key, Asked]
    """All partitions of the session: the answer may be about any of them."""


class Session:
    """The follower's end of a fetch session."""

    __slots__ = ("_epoch", "_id", "_known")

    def __init__(self) -> None:
        self._id = 0
        self._epoch = EPOCH_INITIAL
        self._known: dict[Key, Asked] = {}

    def plan(self, wanted: dict[Key, Asked]) -> Plan:
        known = self._known
        self._known = wanted
        if self._epoch == EPOCH_INITIAL:
            return Plan(self._id, EPOCH_INITIAL, list(wanted.values()), [], wanted)
        sent = [
            asked
            for key, asked in wanted.items()
            if (before := known.get(key)) is not asked and before != asked  # mostly the very same
        ]
        forgotten = [key for key in known if key not in wanted]
        return Plan(self._id, self._epoch, sent, forgotten, wanted)

    def answered(self, code: int, session_id: int) -> bool:
        """Take the session's part of an answer; whether the partitions' parts are to be used."""
        if code:
            if code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
                self._id = 0
            self._epoch = EPOCH_INITIAL
            return False
        if session_id == 0:
            self._id, self._epoch = 0, EPOCH_INITIAL
        else:
            self._id = session_id
            self._epoch = 1 if self._epoch in (EPOCH_INITIAL, _EPOCH_MAX) else self._epoch + 1
        return True

    def lost(self) -> None:
        """Nobody knows what the leader has heard: begin again, and close what there was."""
        self._epoch = EPOCH_INITIAL


@dataclass(slots=True)
class Following:
    """The partitions that are fetched from one leader by one loop."""

    positions: dict[Key, Position] = field(default_factory=dict)
    session: Session = field(default_factory=Session)

    def follow(self, position: Position) -> None:
        """Fetch a partition, unless that is under way in the same leader epoch."""
        known = self.positions.get(position.key)
        if known is None or known.leader_epoch != position.leader_epoch:
            self.positions[position.key] = position

    def forget(self, key: Key) -> bool:
        return self.positions.pop(key, None) is not None

    def plan(
        self,
        now_ms: int,
        log_start_of: Callable[[Key], int | None],
        is_held_back: Callable[[Position], bool] | None,
    ) -> Plan | None:
        """The next fetch; None where there is nothing to ask for now."""
        wanted: dict[Key, Asked] = {}
        for key, position in self.positions.items():
            if position.resume_ms > now_ms or position.needs_epoch:
                continue
            if is_held_back is not None and is_held_back(position):
                continue
            log_start_offset = log_start_of(key)
            if log_start_offset is not None:
                wanted[key] = position.ask(log_start_offset)
        return self.session.plan(wanted) if wanted else None

    def without_epochs(self, now_ms: int) -> list[Position]:
        """Partitions whose logs know no epochs: they have records of formats from before there were any."""
        return [
            position
            for position in self.positions.values()
            if position.needs_epoch and position.resume_ms <= now_ms
        ]

    def next_resume_ms(self, now_ms: int) -> int | None:
        """When the first paused partition may go on; None: none is paused."""
        paused = [one.resume_ms for one in self.positions.values() if one.resume_ms > now_ms]
        return min(paused, default=None)

    def pause(self, keys: Collection[Key], until_ms: int) -> None:
        for key in keys:
            position = self.positions.get(key)
            if position is not None:
                position.resume_ms = max(position.resume_ms, until_ms)

    def current(self, asked: Asked | None) -> Position | None:
        """The position that an answer is about; None where it has moved on since it was asked."""
        if asked is None:
            return None
        position = self.positions.get(asked.key)
        if position is None or position.offset != asked.offset or position.leader_epoch != asked.leader_epoch:
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
        """What a partition's part of an answer asks for."""
        if code == ErrorCode.NONE:
            if diverging_epoch >= 0:
                # The watermarks of this answer wait for the next one, after the cut.
                return Truncate(truncation(log, diverging_epoch, diverging_end_offset))
            return Append(leader_epoch, high_watermark, log_start_offset)
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            return FindOffsets()
        if code == ErrorCode.FENCED_LEADER_EPOCH:
            return GiveUp()
        return Pause(for_code(code).code)

    def appended(self, position: Position, log: ReplicaLog, leader_high_watermark: int) -> None:
        """The log took what the leader sent."""
        position.restart(log)
        position.lag = max(0, leader_high_watermark - position.offset)
        # Who got something waits behind the others, so that nobody starves.
        if len(self.positions) > 1 and self.positions.get(position.key) is position:
            self.positions[position.key] = self.positions.pop(position.key)


class Restart(NamedTuple):
    """Where to go on after OFFSET_OUT_OF_RANGE."""

    truncate_to: int | None = None
    start_over_at: int | None = None


def out_of_range(log: ReplicaLog, leader_start_offset: int, leader_end_offset: int) -> Restart:
    """What to do with a log whose end lies outside of the leader's.

    Beyond its end: the leader was elected though it lacked records, and what it lacks goes. Before its start:
    it has deleted what we would need, so we begin where it begins.
    """
    if leader_end_offset < log.log_end_offset:
        return Restart(truncate_to=leader_end_offset)
    if leader_start_offset > log.log_end_offset:
        return Restart(start_over_at=leader_start_offset)
    return Restart()
