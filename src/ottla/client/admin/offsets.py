"""Offsets of partitions: list them by kind or time; delete the records before an offset."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeVar

from ottla.client.admin.engine import Engine, Outcome
from ottla.client.admin.lookups import leaders
from ottla.client.admin.results import Results
from ottla.client.values import TopicPartition
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.delete_records import DeleteRecordsRequest, DeleteRecordsResponse
from ottla.wire.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse

T = TypeVar("T")

END = -1
"""As an offset for `delete_records`: everything up to the high watermark."""


class OffsetSpec(IntEnum):
    """Which offset to list. A timestamp in ms instead means the first record at or after it."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    EARLIEST_LOCAL = -4
    LATEST_TIERED = -5
    EARLIEST_PENDING_UPLOAD = -6


class IsolationLevel(IntEnum):
    """Whether offsets beyond the last stable offset are listed."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


_NEEDS_VERSION: dict[int, int] = {
    OffsetSpec.MAX_TIMESTAMP: 7,
    OffsetSpec.EARLIEST_LOCAL: 8,
    OffsetSpec.LATEST_TIERED: 9,
    OffsetSpec.EARLIEST_PENDING_UPLOAD: 11,
}
_READ_COMMITTED_FROM = 2
_LEADER_ASKED_ANEW = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.LEADER_NOT_AVAILABLE})
_METADATA_IS_OLD = _LEADER_ASKED_ANEW | {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.REPLICA_NOT_AVAILABLE,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.INCONSISTENT_TOPIC_ID,
}


@dataclass(frozen=True, slots=True)
class ListedOffset:
    """An offset; -1 if no record is at or after the requested time."""

    offset: int
    timestamp: int
    leader_epoch: int | None = None


async def list_offsets(
    engine: Engine,
    partitions: Mapping[TopicPartition, int | OffsetSpec],
    *,
    isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    timeout_ms: int | None = None,
) -> Results[TopicPartition, ListedOffset]:
    """List offsets: partition -> an `OffsetSpec`, or a timestamp in ms."""

    def build(node: int, keys: list[TopicPartition], timeout_ms: int) -> ListOffsetsRequest:
        return ListOffsetsRequest(
            replica_id=-1,
            isolation_level=isolation_level,
            topics=[
                ListOffsetsRequest.ListOffsetsTopic(
                    name=topic,
                    partitions=[
                        ListOffsetsRequest.ListOffsetsPartition(
                            partition_index=key.partition, timestamp=int(partitions[key])
                        )
                        for key in of_topic
                    ],
                )
                for topic, of_topic in by_topic(keys).items()
            ],
            timeout_ms=timeout_ms,
        )

    def needs(keys: list[TopicPartition]) -> int:
        for_specs = max((_NEEDS_VERSION.get(int(partitions[key]), 0) for key in keys), default=0)
        return max(for_specs, _READ_COMMITTED_FROM if isolation_level else 0)

    return await engine.spread(
        "list_offsets",
        partitions,
        leaders(unknown_topics_may_come=False),
        build,
        read_listed,
        deadline=engine.deadline(timeout_ms),
        version_min=needs,
    )


def read_listed(
    node: int, keys: Collection[TopicPartition], answer: ListOffsetsResponse
) -> Outcome[TopicPartition, ListedOffset]:
    """Read the offsets in a response; pure."""
    outcome: Outcome[TopicPartition, ListedOffset] = Outcome()
    for topic in answer.topics:
        for told in topic.partitions:
            key = TopicPartition(topic.name, told.partition_index)
            if told.error_code:
                outcome.take(key, told.error_code, moved=_LEADER_ASKED_ANEW)
            else:
                epoch = None if told.leader_epoch < 0 else told.leader_epoch
                outcome.done[key] = ListedOffset(told.offset, told.timestamp, epoch)
    return outcome


async def delete_records(
    engine: Engine, before: Mapping[TopicPartition, int], *, timeout_ms: int | None = None
) -> Results[TopicPartition, int]:
    """Delete the records before an offset (-1: all). The results are the new log start offsets."""

    def build(node: int, keys: list[TopicPartition], timeout_ms: int) -> DeleteRecordsRequest:
        return DeleteRecordsRequest(
            topics=[
                DeleteRecordsRequest.DeleteRecordsTopic(
                    name=topic,
                    partitions=[
                        DeleteRecordsRequest.DeleteRecordsPartition(
                            partition_index=key.partition, offset=before[key]
                        )
                        for key in of_topic
                    ],
                )
                for topic, of_topic in by_topic(keys).items()
            ],
            timeout_ms=timeout_ms,
        )

    return await engine.spread(
        "delete_records",
        before,
        leaders(unknown_topics_may_come=True),
        build,
        read_deleted,
        deadline=engine.deadline(timeout_ms),
    )


def read_deleted(
    node: int, keys: Collection[TopicPartition], answer: DeleteRecordsResponse
) -> Outcome[TopicPartition, int]:
    """Read the new log start offsets in a response; pure."""
    outcome: Outcome[TopicPartition, int] = Outcome()
    for topic in answer.topics:
        for told in topic.partitions:
            key = TopicPartition(topic.name, told.partition_index)
            if told.error_code:
                outcome.take(key, told.error_code, moved=_METADATA_IS_OLD)
            else:
                outcome.done[key] = told.low_watermark
    return outcome


def by_topic(keys: Iterable[TopicPartition]) -> dict[str, list[TopicPartition]]:
    """Partitions grouped by topic, in their order."""
    grouped: dict[str, list[TopicPartition]] = {}
    for key in keys:
        grouped.setdefault(key.topic, []).append(key)
    return grouped
