"""The markers of an ended transaction: what is to be written, and what the outcome in each partition means.

Rule: a decided end is written everywhere. Every error is retried, except where the partition has seen a newer
epoch of the producer or of the coordinator: then somebody else ends the transaction, or has ended it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ottla.coordinator.transactions.states import TopicPartition, by_topic
from ottla.rare_paths import rarely
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse

RETRY_MS = 50
RETRY_MS_MAX = 1_000

WritableMarker = WriteTxnMarkersRequest.WritableTxnMarker
Outcomes = Mapping[TopicPartition, int]  # error codes

_FENCED = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED})
_NOT_NEEDED = frozenset({ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, ErrorCode.UNSUPPORTED_VERSION})
_TRANSIENT = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SendMarkers:
    """An effect: write the end of a transaction into each of its partitions.

    The decision is committed: this is retried until it is done, and `TransactionShard.markers_written` gets
    the partitions that have their marker. A later effect for the same transactional id replaces it.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    is_commit: bool
    partitions: frozenset[TopicPartition]
    transaction_version: int

    def marker(self, partitions: Iterable[TopicPartition]) -> WritableMarker:
        """The part of a WriteTxnMarkers request for some of the partitions."""
        return WritableMarker(
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            transaction_result=self.is_commit,
            topics=[
                WriteTxnMarkersRequest.WritableTxnMarkerTopic(name=topic, partition_indexes=indexes)
                for topic, indexes in by_topic(set(partitions)).items()
            ],
            coordinator_epoch=self.coordinator_epoch,
            transaction_version=self.transaction_version,
        )


@dataclass(slots=True)
class Verdict:
    """What some outcomes mean. With `fenced`, a partition and its error, nothing else counts."""

    written: set[TopicPartition] = field(default_factory=set)
    retried: set[TopicPartition] = field(default_factory=set)
    unexpected: list[tuple[TopicPartition, int]] = field(default_factory=list)  # errors among the retried
    fenced: tuple[TopicPartition, ErrorCode] | None = None


def judge(partitions: Iterable[TopicPartition], outcomes: Outcomes) -> Verdict:
    """Sort the partitions of a marker by their outcome. One without an outcome is retried."""
    verdict = Verdict()
    for partition in sorted(partitions):
        code = outcomes.get(partition, ErrorCode.REQUEST_TIMED_OUT)
        if rarely("markers are written again"):
            verdict.retried.add(partition)
        elif code == ErrorCode.NONE or code in _NOT_NEEDED:
            verdict.written.add(partition)
        elif code in _FENCED:
            verdict.fenced = partition, ErrorCode(code)
            break
        else:
            if code not in _TRANSIENT:
                verdict.unexpected.append((partition, code))
            verdict.retried.add(partition)
    return verdict


def retry_delay_ms(attempts: int) -> int:
    return min(RETRY_MS << min(attempts, 10), RETRY_MS_MAX)


def outcomes_of(response: WriteTxnMarkersResponse) -> dict[int, dict[TopicPartition, int]]:
    """Producer id -> partition -> error code."""
    outcomes: dict[int, dict[TopicPartition, int]] = {}
    for marker in response.markers:
        of_producer = outcomes.setdefault(marker.producer_id, {})
        for topic in marker.topics:
            for partition in topic.partitions:
                of_producer[topic.name, partition.partition_index] = partition.error_code
    return outcomes
