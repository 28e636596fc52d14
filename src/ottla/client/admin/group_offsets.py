"""Committed offsets of consumer groups: list, set, delete; also those of share groups.

Requests contain topic names, not ids, so that offsets of deleted topics are included.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from ottla.client.admin.engine import Engine, Outcome
from ottla.client.admin.groups import take
from ottla.client.admin.lookups import GROUP, MOVED_COORDINATOR, coordinators
from ottla.client.admin.offsets import by_topic
from ottla.client.admin.results import Results, failure
from ottla.client.values import OffsetAndMetadata, TopicPartition
from ottla.wire.errors import ErrorCode, UnsupportedVersion
from ottla.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from ottla.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from ottla.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse

_BY_NAME_TO = 9
_ONE_GROUP_TO = 7

Offsets = dict[TopicPartition, OffsetAndMetadata | None]
"""Partition -> offset; None if the group has committed none."""


async def list_consumer_group_offsets(
    engine: Engine,
    groups: Mapping[str, Iterable[TopicPartition] | None] | Iterable[str] | str,
    *,
    require_stable: bool = False,
    timeout_ms: int | None = None,
) -> Results[str, Offsets]:
    """List committed offsets of groups: group -> partitions (None: all), or just the groups.

    `require_stable` waits for transactions that are about to commit offsets.
    """
    wanted = _wanted(groups)
    deadline = engine.deadline(timeout_ms)

    def build(node: int, keys: list[str], timeout_ms: int) -> OffsetFetchRequest:
        return OffsetFetchRequest(
            groups=[
                OffsetFetchRequest.OffsetFetchRequestGroup(group_id=key, topics=_topics(wanted[key]))
                for key in keys
            ],
            require_stable=require_stable,
        )

    results = await engine.spread(
        "list_consumer_group_offsets",
        wanted,
        coordinators(GROUP),
        build,
        read_offsets,
        deadline=deadline,
        version_max=_BY_NAME_TO,
    )
    old = [group for group, outcome in results.items() if isinstance(outcome, UnsupportedVersion)]
    if not old:
        return results
    return Results({**results, **await _list_one_by_one(engine, old, wanted, require_stable, timeout_ms)})


def _wanted(
    groups: Mapping[str, Iterable[TopicPartition] | None] | Iterable[str] | str,
) -> dict[str, list[TopicPartition] | None]:
    if isinstance(groups, str):
        return {groups: None}
    if isinstance(groups, Mapping):
        return {group: None if of_group is None else list(of_group) for group, of_group in groups.items()}
    return dict.fromkeys(groups)


def _topics(
    partitions: list[TopicPartition] | None,
) -> list[OffsetFetchRequest.OffsetFetchRequestTopics] | None:
    if partitions is None:
        return None
    return [
        OffsetFetchRequest.OffsetFetchRequestTopics(
            name=topic, partition_indexes=[key.partition for key in of_topic]
        )
        for topic, of_topic in by_topic(partitions).items()
    ]


def read_offsets(node: int, keys: Collection[str], answer: OffsetFetchResponse) -> Outcome[str, Offsets]:
    """Read the committed offsets in a response; omits partitions with an error. Pure."""
    outcome: Outcome[str, Offsets] = Outcome()
    for told in answer.groups:
        if told.error_code:
            take(outcome, told.group_id, told.error_code)
            continue
        outcome.done[told.group_id] = {
            TopicPartition(topic.name, one.partition_index): _committed(
                one.committed_offset, one.committed_leader_epoch, one.metadata
            )
            for topic in told.topics
            for one in topic.partitions
            if not one.error_code
        }
    return outcome


def _committed(offset: int, leader_epoch: int, metadata: str | None) -> OffsetAndMetadata | None:
    if offset < 0:
        return None
    return OffsetAndMetadata(offset, None if leader_epoch < 0 else leader_epoch, metadata or "")


async def _list_one_by_one(
    engine: Engine,
    groups: Collection[str],
    wanted: Mapping[str, list[TopicPartition] | None],
    require_stable: bool,
    timeout_ms: int | None,
) -> Results[str, Offsets]:
    """For brokers before version 3.0, which take one group per request."""

    def build(node: int, keys: list[str], timeout_ms: int) -> OffsetFetchRequest:
        partitions = wanted[keys[0]]
        topics = None
        if partitions is not None:
            topics = [
                OffsetFetchRequest.OffsetFetchRequestTopic(
                    name=topic, partition_indexes=[key.partition for key in of_topic]
                )
                for topic, of_topic in by_topic(partitions).items()
            ]
        return OffsetFetchRequest(group_id=keys[0], topics=topics, require_stable=require_stable)

    def read(node: int, keys: Collection[str], answer: OffsetFetchResponse) -> Outcome[str, Offsets]:
        outcome: Outcome[str, Offsets] = Outcome()
        for group in keys:
            if answer.error_code:
                take(outcome, group, answer.error_code)
                continue
            outcome.done[group] = {
                TopicPartition(topic.name, one.partition_index): _committed(
                    one.committed_offset, one.committed_leader_epoch, one.metadata
                )
                for topic in answer.topics
                for one in topic.partitions
                if not one.error_code
            }
        return outcome

    return await engine.spread(
        "list_consumer_group_offsets",
        groups,
        coordinators(GROUP),
        build,
        read,
        deadline=engine.deadline(timeout_ms),
        version_max=_ONE_GROUP_TO,
        batched=False,
    )


async def alter_consumer_group_offsets(
    engine: Engine,
    group_id: str,
    offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
    *,
    timeout_ms: int | None = None,
) -> Results[TopicPartition, None]:
    """Set a group's offsets. Fails with UnknownMemberId if the group has active members."""
    wanted = {
        key: OffsetAndMetadata(offset) if isinstance(offset, int) else offset
        for key, offset in offsets.items()
    }
    if not wanted:
        return Results({})

    def build(node: int, keys: list[str], timeout_ms: int) -> OffsetCommitRequest:
        return OffsetCommitRequest(
            group_id=group_id,
            topics=[
                OffsetCommitRequest.OffsetCommitRequestTopic(
                    name=topic, partitions=[_commit(key.partition, wanted[key]) for key in of_topic]
                )
                for topic, of_topic in by_topic(wanted).items()
            ],
        )

    results = await engine.spread(
        "alter_consumer_group_offsets",
        [group_id],
        coordinators(GROUP),
        build,
        read_altered,
        deadline=engine.deadline(timeout_ms),
        version_max=_BY_NAME_TO,
    )
    return of_partitions(results, group_id, wanted)


def _commit(partition: int, offset: OffsetAndMetadata) -> OffsetCommitRequest.OffsetCommitRequestPartition:
    return OffsetCommitRequest.OffsetCommitRequestPartition(
        partition_index=partition,
        committed_offset=offset.offset,
        committed_leader_epoch=-1 if offset.leader_epoch is None else offset.leader_epoch,
        committed_metadata=offset.metadata,
    )


PartitionErrors = dict[TopicPartition, Exception | None]


def read_altered(
    node: int, keys: Collection[str], answer: OffsetCommitResponse
) -> Outcome[str, PartitionErrors]:
    """Read the outcome of a commit; if any part is retriable, all of it is retried. Pure."""
    outcome: Outcome[str, PartitionErrors] = Outcome()
    (group_id,) = keys
    codes = {
        TopicPartition(topic.name, one.partition_index): one.error_code
        for topic in answer.topics
        for one in topic.partitions
    }
    if MOVED_COORDINATOR & set(codes.values()):
        outcome.moved.add(group_id)
    elif _COMMIT_LATER & set(codes.values()):
        outcome.again.add(group_id)
    else:
        outcome.done[group_id] = {key: failure(code) if code else None for key, code in codes.items()}
    return outcome


_COMMIT_LATER = frozenset({ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.REBALANCE_IN_PROGRESS})


async def delete_consumer_group_offsets(
    engine: Engine, group_id: str, partitions: Iterable[TopicPartition], *, timeout_ms: int | None = None
) -> Results[TopicPartition, None]:
    """Delete a group's offsets. A topic that members subscribe to fails with GroupSubscribedToTopic."""
    wanted = list(dict.fromkeys(partitions))
    if not wanted:
        return Results({})

    def build(node: int, keys: list[str], timeout_ms: int) -> OffsetDeleteRequest:
        return OffsetDeleteRequest(
            group_id=group_id,
            topics=[
                OffsetDeleteRequest.OffsetDeleteRequestTopic(
                    name=topic,
                    partitions=[
                        OffsetDeleteRequest.OffsetDeleteRequestPartition(partition_index=key.partition)
                        for key in of_topic
                    ],
                )
                for topic, of_topic in by_topic(wanted).items()
            ],
        )

    results = await engine.spread(
        "delete_consumer_group_offsets",
        [group_id],
        coordinators(GROUP),
        build,
        read_deleted,
        deadline=engine.deadline(timeout_ms),
    )
    return of_partitions(results, group_id, wanted)


def read_deleted(
    node: int, keys: Collection[str], answer: OffsetDeleteResponse
) -> Outcome[str, PartitionErrors]:
    """Read the outcome of a deletion; pure."""
    outcome: Outcome[str, PartitionErrors] = Outcome()
    (group_id,) = keys
    if answer.error_code:
        take(outcome, group_id, answer.error_code)
    else:
        outcome.done[group_id] = {
            TopicPartition(topic.name, one.partition_index): failure(one.error_code)
            if one.error_code
            else None
            for topic in answer.topics
            for one in topic.partitions
        }
    return outcome


def of_partitions(
    results: Results[str, PartitionErrors], group_id: str, wanted: Iterable[TopicPartition]
) -> Results[TopicPartition, None]:
    """Give the group's error to each partition."""
    outcome = results[group_id]
    if isinstance(outcome, Exception):
        return Results(dict.fromkeys(wanted, outcome))
    silence = failure(
        ErrorCode.UNKNOWN_SERVER_ERROR, "The coordinator returned no result for this partition."
    )
    return Results({key: outcome.get(key, silence) for key in wanted})
