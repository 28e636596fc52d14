"""Offsets of groups: commit, commit in a transaction, fetch, delete, and the replay of their records.

The first commit creates a group without members: a consumer that assigns partitions itself only has its
offsets here. Rule: an error of the request (wrong member, wrong generation) rejects it as a whole before any
decision; an error of one partition (metadata too long) concerns that partition alone.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

from ottla.coordinator.groups.classic.group import ClassicGroup, ClassicState
from ottla.coordinator.groups.group import CommitCheck
from ottla.coordinator.groups.offsets.records import (
    NO_EXPIRY,
    OffsetRecord,
    bytes_of,
    key_bytes,
    key_prefix,
    read_value,
    tombstone,
    value_bytes,
)
from ottla.coordinator.groups.offsets.store import OffsetStore, Partitions
from ottla.coordinator.result import Caller, Record, Result, StartTimer, TransactionalWrite
from ottla.wire.error_codes import ErrorCode
from ottla.wire.errors import GroupIdNotFound, IllegalGeneration, StaleMemberEpoch
from ottla.wire.messages.group_records import (
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from ottla.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from ottla.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from ottla.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from ottla.wire.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from ottla.wire.uuid import ZERO

if TYPE_CHECKING:
    from ottla.coordinator.groups.shard import GroupShard

NO_OFFSET = -1
NO_LEADER_EPOCH = -1
RETENTION_OF_THE_NODE = -1
_TIMESTAMP_MAX = (1 << 63) - 1

_STATES_WITH_SESSIONS = (ClassicState.STABLE, ClassicState.PREPARING)
_GROUP_NOT_FOUND_SINCE = 9
"""Older clients of OffsetCommit get ILLEGAL_GENERATION instead."""

_CommitTopic = OffsetCommitResponse.OffsetCommitResponseTopic
_CommitPartition = OffsetCommitResponse.OffsetCommitResponsePartition
_TxnCommitTopic = TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic
_TxnCommitPartition = TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition
_FetchTopic = OffsetFetchResponse.OffsetFetchResponseTopics
_FetchPartition = OffsetFetchResponse.OffsetFetchResponsePartitions
AskedGroup = OffsetFetchRequest.OffsetFetchRequestGroup
FetchedGroup = OffsetFetchResponse.OffsetFetchResponseGroup

_NO_PARTITIONS: Partitions = {}


class Offsets:
    """See the module. `store` is the state: only `replay` and `end_transaction` change it."""

    def __init__(self, shard: GroupShard) -> None:
        self._shard = shard
        self.store = OffsetStore()

    # Committing

    def commit(self, request: OffsetCommitRequest, caller: Caller) -> Result[OffsetCommitResponse]:
        """Commit the offsets of partitions that exist. Topics come with name and id."""
        result: Result[OffsetCommitResponse] = Result()
        group_id = request.group_id
        check, session = self.admit(
            group_id,
            request.member_id,
            request.group_instance_id,
            request.generation_id_or_member_epoch,
            caller.version,
        )
        if session is not None:
            result.timers.append(session)
        now_ms = self._shard.clock.now_ms()
        expire_timestamp = NO_EXPIRY
        if request.retention_time_ms != RETENTION_OF_THE_NODE:
            expire_timestamp = min(now_ms + request.retention_time_ms, _TIMESTAMP_MAX)
        records = result.records
        topics = []
        for topic in request.topics:
            name, topic_id = topic.name, topic.topic_id
            prefix = key_prefix(group_id, name)
            partitions = []
            for asked in topic.partitions:
                index = asked.partition_index
                metadata = asked.committed_metadata
                if metadata and self._is_too_long(metadata):
                    partitions.append(
                        _CommitPartition(
                            partition_index=index, error_code=ErrorCode.OFFSET_METADATA_TOO_LARGE
                        )
                    )
                    continue
                if check is not None:
                    check(name, topic_id, index)
                partitions.append(_CommitPartition(partition_index=index))
                value = value_bytes(
                    asked.committed_offset,
                    asked.committed_leader_epoch,
                    metadata,
                    now_ms,
                    topic_id,
                    expire_timestamp,
                )
                records.append(OffsetRecord(group_id, name, index, key_bytes(prefix, index), value))
            topics.append(_CommitTopic(name=name, topic_id=topic_id, partitions=partitions))
        result.response = OffsetCommitResponse(topics=topics)
        return result

    def admit(
        self, group_id: str, member_id: str, instance_id: str | None, epoch: int, version: int
    ) -> tuple[CommitCheck | None, StartTimer | None]:
        """The check of each partition, and the timer to restart, since a member that commits is alive; or the
        error, if this client may not commit."""
        group = self._shard.groups.get(group_id)
        if group is None:
            if epoch < 0:
                return None, None  # not a member: the commit creates the group
            if version >= _GROUP_NOT_FOUND_SINCE:
                raise GroupIdNotFound(f"Group {group_id} not found.")
            raise IllegalGeneration(f"Group {group_id} not found.")
        check = group.check_offset_commit(
            member_id, instance_id, epoch, is_transactional=False, version=version
        )
        if isinstance(group, ClassicGroup) and group.state in _STATES_WITH_SESSIONS:
            return check, self._shard.classic.session_of(group, member_id)
        return check, None

    def commit_in_transaction(
        self, request: TxnOffsetCommitRequest, caller: Caller, write: TransactionalWrite
    ) -> Result[TxnOffsetCommitResponse]:
        """Commit offsets that take effect with the producer's transaction."""
        result: Result[TxnOffsetCommitResponse] = Result(transaction=write)
        check = self._check_commit_in_transaction(request, caller)
        group_id = request.group_id
        now_ms = self._shard.clock.now_ms()
        topics = []
        for topic in request.topics:
            name = topic.name
            prefix = key_prefix(group_id, name)
            known = self._shard.image.topics_by_name.get(name)
            if known is None and check is not None:
                raise IllegalGeneration(f"Topic {name} does not exist, so no member can own it.")
            partitions = []
            for asked in topic.partitions:
                index = asked.partition_index
                metadata = asked.committed_metadata
                if metadata and self._is_too_long(metadata):
                    partitions.append(
                        _TxnCommitPartition(
                            partition_index=index, error_code=ErrorCode.OFFSET_METADATA_TOO_LARGE
                        )
                    )
                    continue
                if check is not None and known is not None:
                    _check_owner(check, name, known.id, index)
                partitions.append(_TxnCommitPartition(partition_index=index))
                value = value_bytes(
                    asked.committed_offset, asked.committed_leader_epoch, metadata, now_ms, ZERO
                )
                result.records.append(OffsetRecord(group_id, name, index, key_bytes(prefix, index), value))
            topics.append(_TxnCommitTopic(name=name, partitions=partitions))
        result.response = TxnOffsetCommitResponse(topics=topics)
        return result

    def _check_commit_in_transaction(
        self, request: TxnOffsetCommitRequest, caller: Caller
    ) -> CommitCheck | None:
        group = self._shard.groups.get(request.group_id)
        if group is None:
            if request.generation_id < 0:
                return None
            raise IllegalGeneration(f"Group {request.group_id} not found.")
        try:
            return group.check_offset_commit(
                request.member_id,
                request.group_instance_id,
                request.generation_id,
                is_transactional=True,
                version=caller.version,
            )
        except StaleMemberEpoch as error:
            raise IllegalGeneration(error.message) from error  # producers have no member epochs

    def _is_too_long(self, metadata: str) -> bool:
        """The limit counts UTF-16 units, as Java's strings do."""
        most = self._shard.settings.offsets.metadata_bytes_max
        count = len(metadata)
        return count > most or (2 * count > most and len(metadata.encode("utf-16-le")) > 2 * most)

    # Fetching

    def find(self, request: AskedGroup, *, require_stable: bool) -> FoundOffsets:
        """The offsets of some partitions, each named once, or of all partitions of a group (no topics named).

        `require_stable`: UNSTABLE_OFFSET_COMMIT if an open transaction may change the offset.
        """
        group_id = request.group_id
        committed = self.store.committed.get(group_id, {})
        try:
            group = self._shard.group(group_id)
            group.check_offset_fetch(request.member_id, request.member_epoch)
        except GroupIdNotFound:
            committed = {}
        unstable = set(self.store.pending_of(group_id)) if require_stable else set()
        found = FoundOffsets(group_id, unstable)
        if request.topics is None:
            for name, partitions in committed.items():
                found.topics.append((name, ZERO, list(partitions), list(partitions.values())))
        else:
            for topic in request.topics:
                stored = committed.get(topic.name, _NO_PARTITIONS)
                values = list(map(stored.get, topic.partition_indexes))
                found.topics.append((topic.name, topic.topic_id, topic.partition_indexes, values))
        return found

    # Deleting

    def delete(self, request: OffsetDeleteRequest) -> Result[OffsetDeleteResponse]:
        """Delete offsets of topics that no member of the group subscribes to."""
        group_id = request.group_id
        group = self._shard.group(group_id)
        group.check_offset_delete()
        result: Result[OffsetDeleteResponse] = Result()
        topics = []
        for topic in request.topics:
            indexes = [asked.partition_index for asked in topic.partitions]
            error = ErrorCode.NONE
            if group.is_subscribed_to(topic.name):
                error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
            else:
                result.records += [
                    tombstone(group_id, topic.name, index)
                    for index in indexes
                    if self.store.get(group_id, topic.name, index) is not None
                    or self.store.is_pending(group_id, topic.name, index)
                ]
            partitions = [
                OffsetDeleteResponse.OffsetDeleteResponsePartition(partition_index=index, error_code=error)
                for index in indexes
            ]
            topics.append(
                OffsetDeleteResponse.OffsetDeleteResponseTopic(name=topic.name, partitions=partitions)
            )
        result.response = OffsetDeleteResponse(topics=topics)
        return result

    def tombstones_of(self, group_id: str) -> list[Record]:
        """The records that delete all offsets of a group, also pending ones."""
        records: list[Record] = [
            tombstone(group_id, topic, partition)
            for topic, partitions in self.store.committed.get(group_id, {}).items()
            for partition in partitions
        ]
        records += [
            tombstone(group_id, topic, partition)
            for topic, partition in self.store.pending_of(group_id)
            if self.store.get(group_id, topic, partition) is None
        ]
        return records

    # Replay

    def replay(
        self, group_id: str, topic: str, partition: int, value: bytes | None, producer_id: int
    ) -> None:
        """Replay the record of a commit, or its tombstone."""
        if value is None:
            self.store.remove(group_id, topic, partition)
            return
        if group_id not in self._shard.groups:
            self._shard.add_simple_group(group_id)
        if producer_id < 0:
            self.store.put(group_id, topic, partition, value)
        else:
            self.store.put_pending(producer_id, group_id, topic, partition, value)

    def replay_message(self, record: Record, producer_id: int) -> None:
        """The same for a decoded record, of this type or the one before it."""
        key, value = record.key, record.value
        assert isinstance(key, (OffsetCommitKey, LegacyOffsetCommitKey))
        packed = None
        if isinstance(value, OffsetCommitValue):
            packed = bytes_of(value, record.version)
        elif isinstance(value, LegacyOffsetCommitValue):
            current = OffsetCommitValue(
                offset=value.offset, metadata=value.metadata, commit_timestamp=value.commit_timestamp
            )
            packed = bytes_of(current, 0)
        self.replay(key.group, key.topic, key.partition, packed, producer_id)


def _check_owner(check: CommitCheck, topic: str, topic_id: bytes, partition: int) -> None:
    try:
        check(topic, topic_id, partition)
    except StaleMemberEpoch as error:
        raise IllegalGeneration(error.message) from error


class FoundOffsets:
    """A snapshot of a group's offsets. The rows of the response are made later, in steps."""

    __slots__ = ("group_id", "topics", "unstable")

    def __init__(self, group_id: str, unstable: set[tuple[str, int]]) -> None:
        self.group_id = group_id
        self.unstable = unstable
        self.topics: list[tuple[str, bytes, list[int], list[bytes | None]]] = []
        """Name, id, partitions, and the values of their commit records."""

    def rows(self) -> Generator[None, None, FetchedGroup]:
        """The rows of the response; -1 for a partition without an offset."""
        fetched = FetchedGroup(group_id=self.group_id)
        for name, topic_id, indexes, values in self.topics:
            topic = _FetchTopic(name=name, topic_id=topic_id)
            fetched.topics.append(topic)
            for index, value in zip(indexes, values, strict=True):
                topic.partitions.append(_fetched(index, value, topic_id, (name, index) in self.unstable))
                yield
            yield
        return fetched


def _fetched(index: int, value: bytes | None, topic_id: bytes, is_unstable: bool) -> _FetchPartition:
    if is_unstable:
        return _FetchPartition(
            partition_index=index,
            committed_offset=NO_OFFSET,
            metadata="",
            error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT,
        )
    if value is not None:
        stored = read_value(value)
        if topic_id == ZERO or stored.topic_id in (topic_id, ZERO):  # else of an older topic of this name
            return _FetchPartition(
                partition_index=index,
                committed_offset=stored.offset,
                committed_leader_epoch=stored.leader_epoch,
                metadata=stored.metadata,
            )
    return _FetchPartition(partition_index=index, committed_offset=NO_OFFSET, metadata="")
