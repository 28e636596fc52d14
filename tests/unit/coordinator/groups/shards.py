"""A shard for tests: decisions are replayed at once and kept in a log, from which it can be loaded again."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeVar

from ottla.config import development_config
from ottla.controller.image import ClusterImage
from ottla.controller.image_delta import ImageDelta
from ottla.coordinator import records
from ottla.coordinator.groups.settings import GroupSettings
from ottla.coordinator.groups.shard import GroupFilter, GroupShard
from ottla.coordinator.result import Caller, Record, Result, StartTimer, TransactionalWrite
from ottla.wire import codec
from ottla.wire.messages import group_records
from ottla.wire.messages.metadata_records import PartitionRecord, RemoveTopicRecord, TopicRecord
from ottla.wire.messages.offset_commit import OffsetCommitRequest
from ottla.wire.messages.offset_delete import OffsetDeleteRequest
from ottla.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from ottla.wire.messages.protocol_data import ConsumerProtocolSubscription
from ottla.wire.messages.txn_offset_commit import TxnOffsetCommitRequest

KINDS = records.kinds_of(group_records)
START_MS = 1_700_000_000_000
MINUTE_MS = 60_000

T = TypeVar("T")


class FakeClock:
    def __init__(self) -> None:
        self.value_ms = START_MS

    def now_ms(self) -> int:
        return self.value_ms

    def monotonic(self) -> float:
        return self.value_ms / 1000


class CountingRandom:
    """Numbers one after the other."""

    def __init__(self) -> None:
        self._count = 0

    def bytes(self, count: int) -> bytes:
        self._count += 1
        return self._count.to_bytes(count, "big")

    def below(self, bound: int) -> int:
        self._count += 1
        return self._count % bound

    def fraction(self) -> float:
        return 0.5


def topic_id_of(name: str, life: int = 0) -> bytes:
    return f"{name}{life}".encode().ljust(16, b"_")[:16]


class ShardOfTests:
    """One shard, the log that its decisions made, and the timers that it started."""

    def __init__(self, settings: dict[str, str] | None = None, **topics: int) -> None:
        self.clock = FakeClock()
        self.image = ClusterImage()
        for name, partitions in topics.items():
            self.add_topic(name, partitions)
        config = development_config(
            data_directory="/data", port=19092, controller_port=19093, overrides=settings or {}
        )
        self.settings = GroupSettings(config, {})
        self.log: list[Any] = []
        self.timers: dict[Any, StartTimer] = {}
        self.shard = self._new()
        self.take(self.shard.on_loaded())

    def _new(self) -> GroupShard:
        return GroupShard(
            index=0, image=self.image, clock=self.clock, random=CountingRandom(), settings=self.settings
        )

    def add_topic(self, name: str, partitions: int = 1, life: int = 0) -> None:
        self.image.replay(TopicRecord(name=name, topic_id=topic_id_of(name, life)))
        for index in range(partitions):
            self.image.replay(
                PartitionRecord(
                    partition_id=index,
                    topic_id=topic_id_of(name, life),
                    replicas=[1],
                    isr=[1],
                    leader=1,
                    directories=[bytes(16)],
                )
            )

    def delete_topic(self, name: str, life: int = 0) -> None:
        delta = ImageDelta()
        self.image.replay(RemoveTopicRecord(topic_id=topic_id_of(name, life)), delta)
        self.take(self.shard.on_metadata(self.image, delta))

    # As the runtime does it

    def take(self, result: Result[Any]) -> Any:
        """Carry out a decision; its response."""
        write = result.transaction
        producer_id = -1 if write is None else write.producer_id
        for record in result.records:
            self.log.append((producer_id, *records.encode(record)))
            self.shard.replay(record, producer_id=producer_id)
        for timer in result.timers:
            if isinstance(timer, StartTimer):
                self.timers[timer.key] = timer
            else:
                self.timers.pop(timer.key, None)
        return result.response

    def fire(self, key: Any) -> None:
        self.take(self.timers.pop(key).decision())

    def sweep(self) -> None:
        """A whole sweep, whatever number of slices it takes."""
        self.fire("offset-expiry")
        while self.timers["offset-expiry"].delay_ms == 0:
            self.fire("offset-expiry")

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        self.log.append((producer_id, is_commit))
        self.shard.replay_end_transaction(producer_id, 0, is_commit)

    def reload(self, *, fast: bool) -> ShardOfTests:
        """Another node takes over: all that it has is the log. `fast`: as bytes, where that is possible."""
        other = ShardOfTests.__new__(ShardOfTests)
        other.clock, other.image, other.settings, other.log = self.clock, self.image, self.settings, self.log
        other.timers = {}
        other.shard = self._new()
        for entry in self.log:
            if len(entry) == 2:
                other.shard.replay_end_transaction(entry[0], 0, entry[1])
                continue
            producer_id, key, value = entry
            rest: list[tuple[bytes | None, bytes | None]] = [(key, value)]
            if fast and producer_id < 0:
                rest = other.shard.load(rest)
            for left in rest:
                record = records.decode(KINDS, *left)
                assert record is not None
                other.shard.replay(record, producer_id=producer_id)
        other.take(other.shard.on_loaded())
        return other

    @property
    def records(self) -> list[Record]:
        """What was written, as messages."""
        decoded = [records.decode(KINDS, entry[1], entry[2]) for entry in self.log if len(entry) == 3]
        return [record for record in decoded if record is not None]

    def replay(self, record: Record) -> None:
        """A record that another decision wrote."""
        self.take(Result(records=[record]))

    def add_members(self, group_id: str, *members: str, topics: list[str], generation: int = 3) -> None:
        """A stable group of the classic protocol, as its record says."""
        subscription = (0).to_bytes(2, "big") + codec.encode(ConsumerProtocolSubscription(topics=topics), 0)
        value = group_records.GroupMetadataValue(
            protocol_type="consumer",
            generation=generation,
            protocol="range",
            leader=members[0] if members else None,
            current_state_timestamp=self.clock.now_ms(),
            members=[
                group_records.GroupMetadataValue.MemberMetadata(
                    member_id=member,
                    client_id="client",
                    client_host="/127.0.0.1",
                    rebalance_timeout=60_000,
                    session_timeout=10_000,
                    subscription=subscription,
                    assignment=b"assigned",
                )
                for member in members
            ],
        )
        if not members:
            value.protocol = None
        self.replay(Record(group_records.GroupMetadataKey(group=group_id), value, 3))

    # Requests

    def commit(
        self,
        group_id: str,
        offsets: dict[tuple[str, int], int],
        *,
        version: int = 9,
        life: int = 0,
        member_id: str = "",
        epoch: int = -1,
        instance_id: str | None = None,
        retention_ms: int = -1,
        **fields: Any,
    ) -> dict[tuple[str, int], int]:
        """Error codes by topic and partition."""
        request = OffsetCommitRequest(
            group_id=group_id,
            member_id=member_id,
            generation_id_or_member_epoch=epoch,
            group_instance_id=instance_id,
            retention_time_ms=retention_ms,
            topics=[
                OffsetCommitRequest.OffsetCommitRequestTopic(
                    name=topic,
                    topic_id=topic_id_of(topic, life),
                    partitions=[
                        OffsetCommitRequest.OffsetCommitRequestPartition(
                            partition_index=partition, committed_offset=offset, **fields
                        )
                    ],
                )
                for (topic, partition), offset in offsets.items()
            ],
        )
        return codes(self.take(self.shard.offsets.commit(request, Caller(version))))

    def commit_in_transaction(
        self,
        producer_id: int,
        group_id: str,
        offsets: dict[tuple[str, int], int],
        *,
        member_id: str = "",
        generation: int = -1,
        **fields: Any,
    ) -> dict[tuple[str, int], int]:
        request = TxnOffsetCommitRequest(
            transactional_id="t",
            group_id=group_id,
            producer_id=producer_id,
            generation_id=generation,
            member_id=member_id,
            topics=[
                TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(
                            partition_index=partition, committed_offset=offset, **fields
                        )
                    ],
                )
                for (topic, partition), offset in offsets.items()
            ],
        )
        write = TransactionalWrite(producer_id, 0)
        return codes(self.take(self.shard.offsets.commit_in_transaction(request, Caller(5), write)))

    def fetch_partitions(
        self,
        group_id: str,
        *places: tuple[str, int],
        stable: bool = False,
        topic_id: bytes = bytes(16),
        member_id: str | None = None,
        epoch: int = -1,
    ) -> dict[tuple[str, int], OffsetFetchResponse.OffsetFetchResponsePartitions]:
        """What OffsetFetch says of partitions; of all that have offsets if none is named."""
        topics = [
            OffsetFetchRequest.OffsetFetchRequestTopics(
                name=topic, topic_id=topic_id, partition_indexes=[partition]
            )
            for topic, partition in places
        ]
        request = OffsetFetchRequest.OffsetFetchRequestGroup(
            group_id=group_id, member_id=member_id, member_epoch=epoch, topics=topics or None
        )
        fetched = outcome_of(self.shard.offsets.find(request, require_stable=stable).rows())
        return {
            (topic.name, partition.partition_index): partition
            for topic in fetched.topics
            for partition in topic.partitions
        }

    def fetch(self, group_id: str, *places: tuple[str, int], stable: bool = False) -> dict[Any, int]:
        """Offsets, or the error code where there is one."""
        return {
            place: found.committed_offset if not found.error_code else found.error_code
            for place, found in self.fetch_partitions(group_id, *places, stable=stable).items()
        }

    def delete_offsets(self, group_id: str, *places: tuple[str, int]) -> dict[tuple[str, int], int]:
        request = OffsetDeleteRequest(
            group_id=group_id,
            topics=[
                OffsetDeleteRequest.OffsetDeleteRequestTopic(
                    name=topic,
                    partitions=[OffsetDeleteRequest.OffsetDeleteRequestPartition(partition_index=partition)],
                )
                for topic, partition in places
            ],
        )
        return codes(self.take(self.shard.offsets.delete(request)))

    def delete_groups(self, *group_ids: str) -> dict[str, int]:
        answers = self.take(self.shard.delete_groups(group_ids))
        return {answer.group_id: answer.error_code for answer in answers}

    def listed(self, states: list[str] | None = None, types: list[str] | None = None) -> list[str]:
        groups = self.shard.list_groups(self.shard.groups, GroupFilter(states or (), types or ()))
        return sorted(group.group_id for group in groups)


def outcome_of(steps: Generator[None, None, T]) -> T:
    """What steps come to."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            outcome: T = end.value
            return outcome


def codes(response: Any) -> dict[tuple[str, int], int]:
    return {
        (topic.name, partition.partition_index): partition.error_code
        for topic in response.topics
        for partition in topic.partitions
    }
