"""Decides which partitions to fetch from which broker, and what a response means for them.

Rule: a broker is asked for all partitions that it serves or for none. A partition with enough buffered
records holds back the others of its broker until the user catches up, so a long poll for quiet partitions
never delays a busy one, and sessions stay as they are.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ottla.client.core.fetch_buffer import Buffer, CompletedFetch, whole_batches
from ottla.client.core.fetch_session import FetchLimits, FetchSession, Wanted
from ottla.client.core.metadata import ClusterView, Node
from ottla.client.core.positions import PartitionState, Phase, Positions
from ottla.client.values import TopicPartition
from ottla.wire.errors import ErrorCode, KafkaError, for_code
from ottla.wire.messages.fetch import FetchRequest, FetchResponse
from ottla.wire.uuid import ZERO

PIECES_MAX = 4  # of a partition: one that the user goes through, the next ones ready behind it

_MOVED = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)
_WAIT = frozenset(
    {ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.BROKER_NOT_AVAILABLE}
)


@dataclass(slots=True)
class Outcome:
    """What the shell must do after a fetch response."""

    fetches: int = 0
    bytes: int = 0
    useful: int = 0  # partitions that came with records or an error
    useless: int = 0  # partitions that came with nothing that can be used, or that were not asked for
    refresh: bool = False
    leaders: list[tuple[str, int, int, int, Node | None]] = field(default_factory=list)
    errors: list[KafkaError] = field(default_factory=list)

    @property
    def is_plain(self) -> bool:
        """Whether there were records, and nothing else that anything depends on."""
        return 0 < self.fetches == self.useful and not self.useless and not self.refresh and not self.errors


class FetchPlanner:
    """All fetches of one consumer."""

    def __init__(
        self,
        positions: Positions,
        buffer: Buffer,
        limits: FetchLimits,
        *,
        retry_backoff_ms: int,
        metadata_max_age_ms: int,
    ) -> None:
        self._positions = positions
        self._buffer = buffer
        self._limits = limits
        self._retry_backoff_ms = retry_backoff_ms
        self._metadata_max_age_ms = metadata_max_age_ms
        self.sessions: dict[int, FetchSession] = {}
        self.is_holding = False  # a node was not asked, since enough of it is buffered

    def node_of(self, state: PartitionState, view: ClusterView, now_ms: int) -> int:
        """The node to fetch from: the replica that the leader has named, for a while, or the leader."""
        preferred = state.preferred_replica
        if preferred >= 0:
            known = view.partition(state.topic, state.partition.partition)
            if (
                now_ms < state.preferred_until_ms
                and preferred in view.brokers
                and (known is None or preferred not in known.offline)
            ):
                return preferred
            state.preferred_replica = -1
        return state.leader if state.leader in view.brokers else -1

    def wanted(self, view: ClusterView, now_ms: int) -> dict[int, dict[TopicPartition, Wanted]]:
        """The partitions to fetch, for each node that may be asked now."""
        plans: dict[int, dict[TopicPartition, Wanted]] = {}
        held: set[int] = set()
        self.is_holding = self._buffer.bytes_ready >= self._limits.max_bytes
        if self.is_holding:
            return plans
        is_fetchable = self._positions.is_fetchable
        for partition, state in self._positions.states.items():
            if not is_fetchable(state, now_ms):
                continue
            node = self.node_of(state, view, now_ms)
            if node < 0 or node in held:
                continue
            if state.buffered >= PIECES_MAX:
                held.add(node)
                self.is_holding = True
                plans.pop(node, None)
                continue
            topic = view.topics.get(state.topic)
            item = Wanted(
                topic.topic_id if topic is not None else ZERO,
                state.fetch_offset,
                state.leader_epoch,
                self._limits.partition_max_bytes,
                state.stamp,
            )
            plans.setdefault(node, {})[partition] = item
        return plans

    def without_leader(self, view: ClusterView, now_ms: int) -> bool:
        """Whether a fetchable partition has no known leader."""
        return any(
            self.node_of(state, view, now_ms) < 0
            for state in self._positions.states.values()
            if not state.paused
        )

    def next_retry_ms(self, now_ms: int) -> int | None:
        """When a partition that waits after an error may be retried."""
        waits = [s.retry_at_ms for s in self._positions.states.values() if s.retry_at_ms > now_ms]
        return min(waits) if waits else None

    def request(self, node: int, wanted: dict[TopicPartition, Wanted]) -> tuple[FetchRequest, int | None]:
        """The request, and the highest version that it can use."""
        session = self.sessions.get(node)
        if session is None:
            session = self.sessions[node] = FetchSession(self._limits)
        request = session.build(wanted)
        return request, None if session.has_topic_ids else 12

    def failed(self, node: int, now_ms: int) -> None:
        """No response came. For now, fetch from leaders instead of their replicas."""
        session = self.sessions[node]
        session.lost()
        for partition in session.sent:
            state = self._positions.states.get(partition)
            if state is not None:
                state.retry_at_ms = now_ms + self._retry_backoff_ms
                if state.preferred_replica == node:
                    state.preferred_replica = -1

    def answered(self, node: int, answer: FetchResponse, now_ms: int) -> Outcome:
        """Add records to the buffer, and pass errors to the positions."""
        session = self.sessions[node]
        outcome = Outcome()
        code = answer.error_code
        if code:
            session.refused(unknown=code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
            if code in _MOVED:
                outcome.refresh = True
            if code not in (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH):
                for partition in session.sent:
                    self._wait(partition, now_ms)
            return outcome
        session.answered(answer.session_id)
        endpoints = {
            one.node_id: Node(one.node_id, one.host, one.port, one.rack) for one in answer.node_endpoints
        }
        for topic in answer.responses:
            name = session.topic_of(topic.topic, topic.topic_id)
            if name is None:
                outcome.useless += 1
                continue
            for data in topic.partitions:
                partition = TopicPartition(name, data.partition_index)
                asked = session.sent.get(partition)
                state = self._positions.states.get(partition)
                if asked is None:
                    outcome.useless += 1
                    continue
                if state is None or state.stamp != asked.stamp:
                    continue
                if state.fetch_offset != asked.offset or state.phase is not Phase.FETCH:
                    continue  # sought, or to be validated first: it is asked for again then
                if data.error_code:
                    outcome.useful += 1
                    self._refused(node, state, data, endpoints, outcome, now_ms)
                else:
                    self._accept(state, data, outcome, now_ms)
        if not outcome.useful and not answer.throttle_time_ms:
            self._all_quiet(session)
        if outcome.useless and not outcome.fetches:
            # A broker brings a whole batch of some partition, at least: this one would be asked without end.
            for partition in session.sent:
                self._wait(partition, now_ms)
        return outcome

    def _all_quiet(self, session: FetchSession) -> None:
        """Nothing came for any partition, and not because of a limit: each was read to the end of its log."""
        for partition, asked in session.sent.items():
            state = self._positions.states.get(partition)
            if state is not None and state.stamp == asked.stamp and state.fetch_offset == asked.offset:
                state.quiet_at = asked.offset

    def _accept(
        self, state: PartitionState, data: FetchResponse.PartitionData, outcome: Outcome, now_ms: int
    ) -> None:
        state.high_watermark = data.high_watermark
        state.last_stable_offset = data.last_stable_offset
        state.log_start_offset = data.log_start_offset
        if data.preferred_read_replica >= 0:
            state.preferred_replica = data.preferred_read_replica
            state.preferred_until_ms = now_ms + self._metadata_max_age_ms
        records = data.records
        if not records:
            return
        outcome.useful += 1
        size, next_offset, epoch = whole_batches(records, state.stop_offset)
        if next_offset <= state.fetch_offset:
            outcome.useless += 1  # only part of a batch: the broker sends a whole one when asked again
            return
        aborted = tuple((one.producer_id, one.first_offset) for one in data.aborted_transactions or ())
        self._buffer.put(CompletedFetch(state, records[:size], next_offset, epoch, aborted))
        state.fetch_offset = next_offset
        state.fetch_epoch = epoch
        outcome.fetches += 1
        outcome.bytes += size

    def _refused(
        self,
        node: int,
        state: PartitionState,
        data: FetchResponse.PartitionData,
        endpoints: dict[int, Node],
        outcome: Outcome,
        now_ms: int,
    ) -> None:
        code = data.error_code
        from_follower = node == state.preferred_replica
        state.preferred_replica = -1
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            if not from_follower:  # a follower may lag behind, or have deleted more: the leader decides
                offset = state.fetch_offset
                self._positions.out_of_range(state.partition, state.stamp, offset)
                if state.phase is Phase.RESET and state.reset_offset == offset:
                    state.retry_at_ms = now_ms + self._retry_backoff_ms  # where a reset had gone just now
            return
        state.retry_at_ms = now_ms + self._retry_backoff_ms
        if code in _MOVED:
            leader = data.current_leader
            if leader.leader_id >= 0 and leader.leader_epoch > state.leader_epoch:
                hint = (state.topic, state.partition.partition, leader.leader_id, leader.leader_epoch)
                outcome.leaders.append((*hint, endpoints.get(leader.leader_id)))
                state.retry_at_ms = 0
            outcome.refresh = True
        elif code not in _WAIT:
            outcome.errors.append(for_code(code)(f"Cannot fetch {state.partition}: {ErrorCode(code).name}"))

    def _wait(self, partition: TopicPartition, now_ms: int) -> None:
        state = self._positions.states.get(partition)
        if state is not None:
            state.retry_at_ms = now_ms + self._retry_backoff_ms
