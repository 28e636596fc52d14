"""The position of a consumer in each partition, and what must be looked up before it can fetch.

Each partition has two offsets. `position` is the next record for the user: only taking records and seeking
change it. `fetch_offset` is the next record to fetch: it is ahead by the buffered records.

Rule: a position that a broker or a policy decides (reset, truncation) is set only while nothing is buffered,
so that no record is skipped or returned twice; `stamp` separates buffers and responses from before such a
change from those after it. Counters that two threads use have one writer each (`arrived` and `taken`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Protocol

from ottla.client.errors import LogTruncated, NoOffset
from ottla.client.values import OffsetAndMetadata, TopicPartition
from ottla.wire.errors import OffsetOutOfRange
from ottla.wire.uuid import ZERO

if TYPE_CHECKING:
    from ottla.client.core.metadata import ClusterView

EARLIEST_TIMESTAMP = -2
LATEST_TIMESTAMP = -1

_DURATION = re.compile(
    r"P(?=.)(?:(?P<days>\d+)D)?"
    r"(?:T(?=.)(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+)(?:[.,](?P<fraction>\d{0,9}))?S)?)?",
    re.IGNORECASE | re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Reset:
    """The value of `auto.offset.reset`: none, earliest, latest, or a duration."""

    kind: str
    duration_ms: int = 0

    @classmethod
    def parse(cls, text: str) -> Reset:
        """Parse the setting, or raise ValueError."""
        kind, _, duration = text.partition(":")
        kind = kind.lower()
        if kind in ("none", "earliest", "latest") and not duration:
            return cls(kind)
        match = _DURATION.fullmatch(duration) if kind == "by_duration" else None
        if match is None:
            raise ValueError(
                f"auto.offset.reset={text} is invalid. Use earliest, latest, none or "
                "by_duration:PnDTnHnMn.nS."
            )
        parts = {name: int(value or 0) for name, value in match.groupdict().items() if name != "fraction"}
        minutes = (parts["days"] * 24 + parts["hours"]) * 60 + parts["minutes"]
        fraction_ms = int(f"{match['fraction'] or '':0<3}"[:3])
        return cls("by_duration", (minutes * 60 + parts["seconds"]) * 1000 + fraction_ms)

    def timestamp(self, now_ms: int) -> int | None:
        """The timestamp to look up at the partition's leader; None if there is no policy."""
        match self.kind:
            case "earliest":
                return EARLIEST_TIMESTAMP
            case "latest":
                return LATEST_TIMESTAMP
            case "by_duration":
                return max(0, now_ms - self.duration_ms)
        return None


class Phase(Enum):
    """What a partition needs before it can be fetched."""

    COMMITTED = "the group's committed offset"
    RESET = "an offset from its leader"
    VALIDATE = "the leader's confirmation that the log still has what was read"
    FETCH = "nothing: it is fetched"
    FAILED = "a seek by the user"


class PartitionState:
    """One assigned partition."""

    __slots__ = (
        "arrived",
        "error",
        "fetch_epoch",
        "fetch_offset",
        "high_watermark",
        "is_asked_for",
        "last_stable_offset",
        "leader",
        "leader_epoch",
        "log_start_offset",
        "partition",
        "paused",
        "pending",
        "phase",
        "position",
        "position_epoch",
        "preferred_replica",
        "preferred_until_ms",
        "quiet_at",
        "reset",
        "reset_offset",
        "retry_at_ms",
        "stamp",
        "stop_offset",
        "taken",
        "topic",
        "topic_id",
    )

    def __init__(self, partition: TopicPartition, *, pending: bool = False) -> None:
        self.partition = partition
        self.topic = partition.topic
        self.topic_id = ZERO
        self.stamp = 0
        self.phase = Phase.COMMITTED
        self.position = -1
        self.position_epoch: int | None = None  # the leader epoch of the record before the position
        self.fetch_offset = -1
        self.fetch_epoch: int | None = None
        self.leader = -1
        self.leader_epoch = -1
        self.preferred_replica = -1
        self.preferred_until_ms = 0
        self.paused = False
        self.pending = pending  # the user was not notified of it yet
        self.is_asked_for = False  # a listener that is notified of it asks for its position
        self.reset: Reset | None = None
        self.reset_offset = -1  # where the last reset went
        self.error: Exception | None = None
        self.retry_at_ms = 0
        self.arrived = 0  # pieces put into the buffer
        self.taken = 0  # pieces that the user has gone through
        self.high_watermark = -1
        self.last_stable_offset = -1
        self.log_start_offset = -1
        self.stop_offset: int | None = None  # what lies behind it is not asked for
        self.quiet_at = -1  # where the log was last seen to have nothing more

    @property
    def buffered(self) -> int:
        """The number of pieces fetched and not yet processed."""
        return self.arrived - self.taken

    def place(self, offset: int, epoch: int | None) -> None:
        """Continue at `offset`; whatever is buffered or in flight is obsolete."""
        self.stamp += 1
        self.position = self.fetch_offset = offset
        self.position_epoch = self.fetch_epoch = epoch
        self.arrived = self.taken = 0
        self.preferred_replica = -1
        self.retry_at_ms = 0
        self.reset = None
        self.error = None
        self.phase = Phase.FETCH

    def validate(self) -> None:
        """Before fetching, ask the leader whether its log has the records that were read."""
        if self.fetch_epoch is not None:
            self.phase = Phase.VALIDATE
            self.retry_at_ms = 0

    def ask_reset(self, reset: Reset) -> None:
        """Continue where `reset` says, once the leader has returned the offset."""
        self.stamp += 1
        self.arrived = self.taken = 0
        self.position = self.fetch_offset = -1
        self.position_epoch = self.fetch_epoch = None
        self.reset = reset
        self.error = None
        self.retry_at_ms = 0
        self.phase = Phase.RESET

    def fail(self, error: Exception) -> None:
        self.phase = Phase.FAILED
        self.error = error


class Leaders(Protocol):
    """The part of the metadata that positions need."""

    def leader_of(self, partition: TopicPartition) -> tuple[int, int, bytes]:
        """(node id, leader epoch, topic id); -1 and zeros if unknown."""


class ViewLeaders:
    """The leaders in a ClusterView."""

    __slots__ = ("_view",)

    def __init__(self, view: ClusterView) -> None:
        self._view = view

    def leader_of(self, partition: TopicPartition) -> tuple[int, int, bytes]:
        topic = self._view.topics.get(partition.topic)
        if topic is None or not 0 <= partition.partition < len(topic.partitions):
            return -1, -1, ZERO
        found = topic.partitions[partition.partition]
        return found.leader, found.leader_epoch, topic.topic_id


class Positions:
    """All assigned partitions. Owned by the event loop; the user's thread changes only `position` and
    `taken`.
    """

    def __init__(self, reset: Reset) -> None:
        self.reset = reset
        self.states: dict[TopicPartition, PartitionState] = {}

    def add(self, partitions: Iterable[TopicPartition], *, pending: bool = False) -> None:
        for partition in partitions:
            if partition not in self.states:
                self.states[partition] = PartitionState(partition, pending=pending)

    def remove(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            state = self.states.pop(partition, None)
            if state is not None:
                state.stamp += 1  # its buffers are void, also for one who still holds the state

    def announced(self, partitions: Iterable[TopicPartition]) -> None:
        """The user has been notified of these partitions: they may be fetched."""
        for partition in partitions:
            state = self.states.get(partition)
            if state is not None:
                state.pending = False

    def seek(self, partition: TopicPartition, offset: int, epoch: int | None = None) -> None:
        state = self.states[partition]
        state.place(offset, epoch)
        state.validate()

    def seek_by(self, partition: TopicPartition, reset: Reset) -> None:
        self.states[partition].ask_reset(reset)

    # The group's committed offsets.

    def without_committed(self) -> list[TopicPartition]:
        """Partitions whose committed offset must be looked up."""
        return [
            partition
            for partition, state in self.states.items()
            if state.phase is Phase.COMMITTED and (state.is_asked_for or not state.pending)
        ]

    def set_committed(self, found: Mapping[TopicPartition, OffsetAndMetadata | None]) -> None:
        """Start at the committed offset, or by the policy if there is none."""
        for partition, committed in found.items():
            state = self.states.get(partition)
            if state is None or state.phase is not Phase.COMMITTED:
                continue  # given back, or the user has sought meanwhile
            if committed is not None:
                state.place(committed.offset, committed.leader_epoch)
                state.validate()
            else:
                self._reset_or_fail(
                    state,
                    NoOffset(
                        f"{partition} has no committed offset and auto.offset.reset is none. Seek to an "
                        "offset, or set a reset policy."
                    ),
                )

    def _reset_or_fail(self, state: PartitionState, error: Exception) -> None:
        if self.reset.kind == "none":
            state.fail(error)
        else:
            state.ask_reset(self.reset)

    # Resets.

    def wanted_resets(self, now_ms: int, wall_ms: int) -> dict[TopicPartition, int]:
        """Partitions whose offset must be looked up at a leader, with the timestamp."""
        wanted: dict[TopicPartition, int] = {}
        for partition, state in self.states.items():
            if state.phase is Phase.RESET and state.reset is not None and state.retry_at_ms <= now_ms:
                timestamp = state.reset.timestamp(wall_ms)
                assert timestamp is not None
                wanted[partition] = timestamp
        return wanted

    def reset_to(self, partition: TopicPartition, stamp: int, offset: int, epoch: int | None) -> None:
        """Apply the leader's answer to a reset that was requested at `stamp`."""
        state = self.states.get(partition)
        if state is not None and state.stamp == stamp and state.phase is Phase.RESET:
            state.place(offset, epoch)
            state.reset_offset = offset

    # Leaders and their epochs.

    def follow_leaders(self, leaders: Leaders) -> None:
        """Apply new leaders: positions of an older epoch are validated before the next fetch."""
        for partition, state in self.states.items():
            leader, epoch, topic_id = leaders.leader_of(partition)
            if leader < 0 and epoch < 0:
                continue
            if topic_id != state.topic_id:
                if state.topic_id != ZERO:  # the topic was created again: epochs of the old one mean nothing
                    state.leader_epoch, state.fetch_epoch = -1, None
                state.topic_id = topic_id
            if epoch >= 0 and epoch < state.leader_epoch:
                continue  # from a node that lags behind
            if epoch > state.leader_epoch and state.phase is Phase.FETCH and state.error is None:
                state.validate()
            if leader != state.leader:
                state.preferred_replica = -1
            state.leader = leader
            state.leader_epoch = epoch

    def wanted_validations(self, now_ms: int) -> list[PartitionState]:
        """Partitions to send in OffsetForLeaderEpoch: none of their records is buffered any more."""
        wanted = []
        for state in self.states.values():
            if state.phase is not Phase.VALIDATE or state.buffered or state.leader < 0:
                continue
            if state.fetch_epoch is None or state.leader_epoch < 0:
                state.phase = Phase.FETCH  # nothing to compare with
            elif state.retry_at_ms <= now_ms:
                wanted.append(state)
        return wanted

    def validated(
        self, partition: TopicPartition, stamp: int, leader_epoch: int, end_offset: int, end_epoch: int
    ) -> None:
        """Apply the end of our epoch in the log of the leader of `leader_epoch` (-1: it does not know our
        epoch).
        """
        state = self.states.get(partition)
        if state is None or state.stamp != stamp or state.phase is not Phase.VALIDATE:
            return
        if state.leader_epoch != leader_epoch:
            return  # another leader by now: it is asked
        if end_offset < 0 or end_epoch < 0:
            error = LogTruncated(f"The log of {partition} was truncated below offset {state.fetch_offset}.")
            self._reset_or_fail(state, error)
        elif end_offset < state.fetch_offset:
            if self.reset.kind == "none":
                message = (
                    f"The log of {partition} was truncated to offset {end_offset}; the position was "
                    f"{state.fetch_offset}."
                )
                state.fail(LogTruncated(message, end_offset))
            else:
                state.place(end_offset, end_epoch)
        else:
            state.phase = Phase.FETCH

    def out_of_range(self, partition: TopicPartition, stamp: int, offset: int) -> None:
        """A leader has no record at the requested offset."""
        state = self.states.get(partition)
        if state is None or state.stamp != stamp or state.fetch_offset != offset:
            return
        error = OffsetOutOfRange(
            f"Offset {offset} of {partition} is out of range and auto.offset.reset is none. Seek to another "
            "offset."
        )
        if state.buffered:
            state.error = error  # `resolve_failures` decides once the user has had what is here
        else:
            self._reset_or_fail(state, error)

    def resolve_failures(self) -> Exception | None:
        """Apply what waited for empty buffers; return the error for the user, if any."""
        found = None
        for state in self.states.values():
            if state.error is None or state.buffered:
                continue
            if state.phase is not Phase.FAILED:
                self._reset_or_fail(state, state.error)
            found = found or state.error  # a reset has cleared it
        return found

    def wait_for_user(self) -> bool:
        """Whether a decision waits for the user to take what is buffered."""
        return any(
            state.buffered and (state.error is not None or state.phase is Phase.VALIDATE)
            for state in self.states.values()
        )

    def is_fetchable(self, state: PartitionState, now_ms: int) -> bool:
        return (
            state.phase is Phase.FETCH
            and state.error is None
            and not state.paused
            and not state.pending
            and state.retry_at_ms <= now_ms
            and (state.stop_offset is None or state.fetch_offset < state.stop_offset)
        )

    def consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """The position of each partition that has one: what can be committed."""
        return {
            partition: OffsetAndMetadata(state.position, state.position_epoch)
            for partition, state in list(self.states.items())  # the loop may add some meanwhile
            if state.position >= 0
        }
