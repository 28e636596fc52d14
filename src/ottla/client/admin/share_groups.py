"""Share groups and streams groups (if a broker serves them), and the offsets of share groups."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from ottla.client.admin.engine import Engine, Outcome
from ottla.client.admin.group_offsets import PartitionErrors, of_partitions
from ottla.client.admin.groups import GroupState, take
from ottla.client.admin.lookups import GROUP, coordinators
from ottla.client.admin.offsets import by_topic
from ottla.client.admin.permissions import AclOperation, operations_of
from ottla.client.admin.results import Results, failure
from ottla.client.values import TopicPartition
from ottla.wire.messages.share_group_describe import ShareGroupDescribeRequest, ShareGroupDescribeResponse
from ottla.wire.messages.streams_group_describe import (
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)


@dataclass(frozen=True, slots=True)
class ShareMember:
    """A member of a share group."""

    member_id: str
    client_id: str
    host: str
    assignment: frozenset[TopicPartition]
    member_epoch: int
    rack: str | None = None
    subscribed_topics: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ShareGroupDescription:
    """A share group."""

    group_id: str
    members: tuple[ShareMember, ...]
    state: GroupState
    coordinator_id: int
    group_epoch: int
    target_assignment_epoch: int
    assignor: str = ""
    authorized_operations: frozenset[AclOperation] | None = None


@dataclass(frozen=True, slots=True)
class SharePartitionOffset:
    """The start offset of a share group in a partition; `lag` is None if the broker does not report it."""

    start_offset: int
    leader_epoch: int | None
    lag: int | None


@dataclass(frozen=True, slots=True)
class StreamsTask:
    """A task of a topology: a subtopology and partitions."""

    subtopology_id: str
    partition: int


@dataclass(frozen=True, slots=True)
class StreamsMember:
    """A member of a streams group with its tasks."""

    member_id: str
    member_epoch: int
    group_instance_id: str | None
    client_id: str
    host: str
    topology_epoch: int
    process_id: str
    active: frozenset[StreamsTask]
    standby: frozenset[StreamsTask]
    warmup: frozenset[StreamsTask]
    target_active: frozenset[StreamsTask]
    target_standby: frozenset[StreamsTask]
    target_warmup: frozenset[StreamsTask]
    is_classic: bool
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class Subtopology:
    """A part of a topology, with the topics that it reads and writes."""

    id: str
    source_topics: tuple[str, ...]
    repartition_sink_topics: tuple[str, ...]
    changelog_topics: tuple[str, ...]
    repartition_source_topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StreamsGroupDescription:
    """A streams group."""

    group_id: str
    members: tuple[StreamsMember, ...]
    subtopologies: tuple[Subtopology, ...]
    topology_epoch: int | None
    state: GroupState
    coordinator_id: int
    group_epoch: int
    target_assignment_epoch: int
    authorized_operations: frozenset[AclOperation] | None = None


async def describe_share_groups(
    engine: Engine,
    group_ids: Iterable[str],
    *,
    include_authorized_operations: bool = False,
    timeout_ms: int | None = None,
) -> Results[str, ShareGroupDescription]:
    """Describe share groups with their members."""
    return await engine.spread(
        "describe_share_groups",
        group_ids,
        coordinators(GROUP),
        lambda node, keys, timeout_ms: ShareGroupDescribeRequest(
            group_ids=keys, include_authorized_operations=include_authorized_operations
        ),
        read_share_groups,
        deadline=engine.deadline(timeout_ms),
    )


def read_share_groups(
    node: int, keys: Collection[str], answer: ShareGroupDescribeResponse
) -> Outcome[str, ShareGroupDescription]:
    """Read the share groups in a response; pure."""
    outcome: Outcome[str, ShareGroupDescription] = Outcome()
    for told in answer.groups:
        if told.error_code:
            take(outcome, told.group_id, told.error_code, told.error_message)
            continue
        members = tuple(
            ShareMember(
                one.member_id,
                one.client_id,
                one.client_host,
                frozenset(
                    TopicPartition(topic.topic_name, index)
                    for topic in one.assignment.topic_partitions
                    for index in topic.partitions
                ),
                one.member_epoch,
                one.rack_id,
                frozenset(one.subscribed_topic_names),
            )
            for one in told.members
        )
        outcome.done[told.group_id] = ShareGroupDescription(
            told.group_id,
            members,
            GroupState(told.group_state),
            node,
            told.group_epoch,
            told.assignment_epoch,
            told.assignor_name,
            operations_of(told.authorized_operations),
        )
    return outcome


async def list_share_group_offsets(
    engine: Engine,
    groups: Mapping[str, Iterable[TopicPartition] | None],
    *,
    timeout_ms: int | None = None,
) -> Results[str, dict[TopicPartition, SharePartitionOffset | None]]:
    """List the start offsets of share groups: group -> partitions (None: all)."""
    from ottla.wire.messages.describe_share_group_offsets import (
        DescribeShareGroupOffsetsRequest,
        DescribeShareGroupOffsetsResponse,
    )

    wanted = {group: None if of_group is None else list(of_group) for group, of_group in groups.items()}

    def build(node: int, keys: list[str], timeout_ms: int) -> DescribeShareGroupOffsetsRequest:
        request = DescribeShareGroupOffsetsRequest
        return request(
            groups=[
                request.DescribeShareGroupOffsetsRequestGroup(
                    group_id=key,
                    topics=None
                    if partitions is None
                    else [
                        request.DescribeShareGroupOffsetsRequestTopic(
                            topic_name=topic, partitions=[one.partition for one in of_topic]
                        )
                        for topic, of_topic in by_topic(partitions).items()
                    ],
                )
                for key in keys
                for partitions in [wanted[key]]
            ]
        )

    def read(
        node: int, keys: Collection[str], answer: DescribeShareGroupOffsetsResponse
    ) -> Outcome[str, dict[TopicPartition, SharePartitionOffset | None]]:
        outcome: Outcome[str, dict[TopicPartition, SharePartitionOffset | None]] = Outcome()
        for told in answer.groups:
            if told.error_code:
                take(outcome, told.group_id, told.error_code, told.error_message)
                continue
            outcome.done[told.group_id] = {
                TopicPartition(topic.topic_name, one.partition_index): None
                if one.start_offset < 0
                else SharePartitionOffset(
                    one.start_offset,
                    None if one.leader_epoch < 0 else one.leader_epoch,
                    None if one.lag < 0 else one.lag,
                )
                for topic in told.topics
                for one in topic.partitions
                if not one.error_code
            }
        return outcome

    return await engine.spread(
        "list_share_group_offsets",
        wanted,
        coordinators(GROUP),
        build,
        read,
        deadline=engine.deadline(timeout_ms),
    )


async def alter_share_group_offsets(
    engine: Engine, group_id: str, offsets: Mapping[TopicPartition, int], *, timeout_ms: int | None = None
) -> Results[TopicPartition, None]:
    """Change the start offsets of an empty share group."""
    from ottla.wire.messages.alter_share_group_offsets import (
        AlterShareGroupOffsetsRequest,
        AlterShareGroupOffsetsResponse,
    )

    def build(node: int, keys: list[str], timeout_ms: int) -> AlterShareGroupOffsetsRequest:
        request = AlterShareGroupOffsetsRequest
        return request(
            group_id=group_id,
            topics=[
                request.AlterShareGroupOffsetsRequestTopic(
                    topic_name=topic,
                    partitions=[
                        request.AlterShareGroupOffsetsRequestPartition(
                            partition_index=key.partition, start_offset=offsets[key]
                        )
                        for key in of_topic
                    ],
                )
                for topic, of_topic in by_topic(offsets).items()
            ],
        )

    def read(
        node: int, keys: Collection[str], answer: AlterShareGroupOffsetsResponse
    ) -> Outcome[str, PartitionErrors]:
        outcome: Outcome[str, PartitionErrors] = Outcome()
        if answer.error_code:
            take(outcome, group_id, answer.error_code, answer.error_message)
        else:
            outcome.done[group_id] = {
                TopicPartition(topic.topic_name, one.partition_index): failure(
                    one.error_code, one.error_message
                )
                if one.error_code
                else None
                for topic in answer.responses
                for one in topic.partitions
            }
        return outcome

    results = await engine.spread(
        "alter_share_group_offsets",
        [group_id],
        coordinators(GROUP),
        build,
        read,
        deadline=engine.deadline(timeout_ms),
    )
    return of_partitions(results, group_id, offsets)


async def delete_share_group_offsets(
    engine: Engine, group_id: str, topics: Iterable[str], *, timeout_ms: int | None = None
) -> Results[str, None]:
    """Delete the start offsets of an empty share group, by topic."""
    from ottla.wire.messages.delete_share_group_offsets import (
        DeleteShareGroupOffsetsRequest,
        DeleteShareGroupOffsetsResponse,
    )

    names = list(dict.fromkeys(topics))
    request = DeleteShareGroupOffsetsRequest(
        group_id=group_id,
        topics=[
            DeleteShareGroupOffsetsRequest.DeleteShareGroupOffsetsRequestTopic(topic_name=name)
            for name in names
        ],
    )

    def read(
        node: int, keys: Collection[str], answer: DeleteShareGroupOffsetsResponse
    ) -> Outcome[str, dict[str, Exception | None]]:
        outcome: Outcome[str, dict[str, Exception | None]] = Outcome()
        if answer.error_code:
            take(outcome, group_id, answer.error_code, answer.error_message)
        else:
            outcome.done[group_id] = {
                one.topic_name: failure(one.error_code, one.error_message) if one.error_code else None
                for one in answer.responses
            }
        return outcome

    results = await engine.spread(
        "delete_share_group_offsets",
        [group_id],
        coordinators(GROUP),
        lambda node, keys, timeout_ms: request,
        read,
        deadline=engine.deadline(timeout_ms),
    )
    outcome = results[group_id]
    return Results(dict.fromkeys(names, outcome) if isinstance(outcome, Exception) else outcome)


async def describe_streams_groups(
    engine: Engine,
    group_ids: Iterable[str],
    *,
    include_authorized_operations: bool = False,
    timeout_ms: int | None = None,
) -> Results[str, StreamsGroupDescription]:
    """Describe streams groups with their members, tasks and topology."""
    return await engine.spread(
        "describe_streams_groups",
        group_ids,
        coordinators(GROUP),
        lambda node, keys, timeout_ms: StreamsGroupDescribeRequest(
            group_ids=keys, include_authorized_operations=include_authorized_operations
        ),
        read_streams_groups,
        deadline=engine.deadline(timeout_ms),
    )


def read_streams_groups(
    node: int, keys: Collection[str], answer: StreamsGroupDescribeResponse
) -> Outcome[str, StreamsGroupDescription]:
    """Read the streams groups in a response; pure."""
    outcome: Outcome[str, StreamsGroupDescription] = Outcome()
    for told in answer.groups:
        if told.error_code:
            take(outcome, told.group_id, told.error_code, told.error_message)
            continue
        subtopologies = (told.topology.subtopologies or []) if told.topology is not None else []
        outcome.done[told.group_id] = StreamsGroupDescription(
            told.group_id,
            tuple(_streams_member(one) for one in told.members),
            tuple(
                Subtopology(
                    one.subtopology_id,
                    tuple(one.source_topics),
                    tuple(one.repartition_sink_topics),
                    tuple(topic.name for topic in one.state_changelog_topics),
                    tuple(topic.name for topic in one.repartition_source_topics),
                )
                for one in subtopologies
            ),
            None if told.topology is None else told.topology.epoch,
            GroupState(told.group_state),
            node,
            told.group_epoch,
            told.assignment_epoch,
            operations_of(told.authorized_operations),
        )
    return outcome


def _streams_member(told: StreamsGroupDescribeResponse.Member) -> StreamsMember:
    return StreamsMember(
        told.member_id,
        told.member_epoch,
        told.instance_id,
        told.client_id,
        told.client_host,
        told.topology_epoch,
        told.process_id,
        _tasks(told.assignment.active_tasks),
        _tasks(told.assignment.standby_tasks),
        _tasks(told.assignment.warmup_tasks),
        _tasks(told.target_assignment.active_tasks),
        _tasks(told.target_assignment.standby_tasks),
        _tasks(told.target_assignment.warmup_tasks),
        told.is_classic,
        told.rack_id,
    )


def _tasks(told: Iterable[StreamsGroupDescribeResponse.TaskIds]) -> frozenset[StreamsTask]:
    return frozenset(StreamsTask(one.subtopology_id, index) for one in told for index in one.partitions)
