"""Replicas: elect leaders, reassign partitions, describe and change log directories."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import NamedTuple

from ottla.client.admin.engine import Engine, Place, Role
from ottla.client.admin.offsets import by_topic
from ottla.client.admin.results import Results, check, failure
from ottla.client.values import TopicPartition
from ottla.wire.errors import ClusterAuthorizationFailed, ErrorCode, NotController
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from ottla.wire.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse
from ottla.wire.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from ottla.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from ottla.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)


class ElectionType(IntEnum):
    """PREFERRED elects the first replica; UNCLEAN elects any live replica, and loses the records that it
    lacks.
    """

    PREFERRED = 0
    UNCLEAN = 1


class Replica(NamedTuple):
    """A partition's replica on a broker."""

    topic: str
    partition: int
    broker: int


@dataclass(frozen=True, slots=True)
class Reassignment:
    """A reassignment in progress."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ReplicaInfo:
    """A replica in a log directory. `is_future`: it is being moved to this directory."""

    size_bytes: int
    offset_lag: int
    is_future: bool


@dataclass(frozen=True, slots=True)
class LogDirDescription:
    """A log directory of a broker; sizes are None if the broker does not report them."""

    error: Exception | None
    replicas: Mapping[TopicPartition, ReplicaInfo]
    total_bytes: int | None
    usable_bytes: int | None
    is_cordoned: bool = False


@dataclass(frozen=True, slots=True)
class ReplicaLogDirs:
    """The directory of a replica, and the directory that it is being moved to."""

    current: str | None = None
    current_offset_lag: int = -1
    future: str | None = None
    future_offset_lag: int = -1


# Leaders


async def elect_leaders(
    engine: Engine,
    election: ElectionType,
    partitions: Iterable[TopicPartition] | None = None,
    *,
    timeout_ms: int | None = None,
) -> Results[TopicPartition, None]:
    """Elect leaders; without partitions: of all that need it. ElectionNotNeeded means no change."""
    wanted = None if partitions is None else list(dict.fromkeys(partitions))
    topics = None
    if wanted is not None:
        topics = [
            ElectLeadersRequest.TopicPartitions(topic=topic, partitions=[key.partition for key in of_topic])
            for topic, of_topic in by_topic(wanted).items()
        ]

    def read(answer: ElectLeadersResponse) -> dict[TopicPartition, Exception | None]:
        codes = {
            one.error_code for topic in answer.replica_election_results for one in topic.partition_result
        }
        if ErrorCode.NOT_CONTROLLER in codes | {answer.error_code}:
            raise NotController("The controller has moved.")
        check(answer.error_code)
        return {
            TopicPartition(topic.topic, one.partition_id): failure(one.error_code, one.error_message)
            if one.error_code
            else None
            for topic in answer.replica_election_results
            for one in topic.partition_result
        }

    return Results(
        await engine.call(
            "elect_leaders",
            Role.CONTROLLER,
            lambda timeout_ms: ElectLeadersRequest(
                election_type=election, topic_partitions=topics, timeout_ms=timeout_ms
            ),
            read,
            deadline=engine.deadline(timeout_ms),
        )
    )


# Reassignments


async def alter_partition_reassignments(
    engine: Engine,
    replicas: Mapping[TopicPartition, Sequence[int] | None],
    *,
    allow_replication_factor_change: bool = True,
    timeout_ms: int | None = None,
) -> Results[TopicPartition, None]:
    """Reassign partitions to other replicas; None cancels a reassignment in progress."""

    def build(keys: Collection[TopicPartition], timeout_ms: int) -> AlterPartitionReassignmentsRequest:
        request = AlterPartitionReassignmentsRequest
        return request(
            timeout_ms=timeout_ms,
            allow_replication_factor_change=allow_replication_factor_change,
            topics=[
                request.ReassignableTopic(
                    name=topic,
                    partitions=[
                        request.ReassignablePartition(
                            partition_index=key.partition, replicas=_list(replicas[key])
                        )
                        for key in of_topic
                    ],
                )
                for topic, of_topic in by_topic(keys).items()
            ],
        )

    def read(
        keys: Collection[TopicPartition], answer: AlterPartitionReassignmentsResponse
    ) -> dict[TopicPartition, Exception | None]:
        if answer.error_code == ErrorCode.NOT_CONTROLLER:
            raise NotController("The controller has moved.")
        if answer.error_code:
            return dict.fromkeys(keys, failure(answer.error_code, answer.error_message))
        return {
            TopicPartition(topic.name, one.partition_index): failure(one.error_code, one.error_message)
            if one.error_code
            else None
            for topic in answer.responses
            for one in topic.partitions
        }

    places = dict.fromkeys(replicas, Role.CONTROLLER_EITHER_WAY)
    return await engine.items(
        "alter_partition_reassignments", places, build, read, deadline=engine.deadline(timeout_ms)
    )


def _list(replicas: Sequence[int] | None) -> list[int] | None:
    return None if replicas is None else list(replicas)


async def list_partition_reassignments(
    engine: Engine, partitions: Iterable[TopicPartition] | None = None, *, timeout_ms: int | None = None
) -> dict[TopicPartition, Reassignment]:
    """List the reassignments in progress, of all partitions or of these."""
    topics = None
    if partitions is not None:
        topics = [
            ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics(
                name=topic, partition_indexes=[key.partition for key in of_topic]
            )
            for topic, of_topic in by_topic(partitions).items()
        ]

    def read(answer: ListPartitionReassignmentsResponse) -> dict[TopicPartition, Reassignment]:
        check(answer.error_code, answer.error_message)
        return {
            TopicPartition(topic.name, one.partition_index): Reassignment(
                tuple(one.replicas), tuple(one.adding_replicas), tuple(one.removing_replicas)
            )
            for topic in answer.topics
            for one in topic.partitions
        }

    return await engine.call(
        "list_partition_reassignments",
        Role.CONTROLLER_EITHER_WAY,
        lambda timeout_ms: ListPartitionReassignmentsRequest(timeout_ms=timeout_ms, topics=topics),
        read,
        deadline=engine.deadline(timeout_ms),
    )


# Log directories


async def describe_log_dirs(
    engine: Engine, brokers: Iterable[int], *, timeout_ms: int | None = None
) -> Results[int, dict[str, LogDirDescription]]:
    """Describe log directories: broker -> its directories with their replicas."""

    def read(
        brokers: Collection[int], answer: DescribeLogDirsResponse
    ) -> dict[int, dict[str, LogDirDescription] | Exception]:
        directories = read_log_dirs(answer)
        if directories:
            return dict.fromkeys(brokers, directories)
        # Brokers before version 3.2 have no code for it: they answer with nothing.
        error = failure(answer.error_code) if answer.error_code else ClusterAuthorizationFailed()
        return dict.fromkeys(brokers, error)

    places: dict[int, Place] = {broker: broker for broker in brokers}
    return await engine.items(
        "describe_log_dirs",
        places,
        lambda brokers, timeout_ms: DescribeLogDirsRequest(topics=None),
        read,
        deadline=engine.deadline(timeout_ms),
    )


def read_log_dirs(answer: DescribeLogDirsResponse) -> dict[str, LogDirDescription]:
    """Read the log directories in a response; pure."""
    return {
        told.log_dir: LogDirDescription(
            failure(told.error_code) if told.error_code else None,
            {
                TopicPartition(topic.name, one.partition_index): ReplicaInfo(
                    one.partition_size, one.offset_lag, one.is_future_key
                )
                for topic in told.topics
                for one in topic.partitions
            },
            None if told.total_bytes < 0 else told.total_bytes,
            None if told.usable_bytes < 0 else told.usable_bytes,
            told.is_cordoned,
        )
        for told in answer.results
    }


async def describe_replica_log_dirs(
    engine: Engine, replicas: Iterable[Replica], *, timeout_ms: int | None = None
) -> Results[Replica, ReplicaLogDirs]:
    """Find the directory of each replica; None in it if the broker does not host the replica."""

    def build(of_broker: Collection[Replica], timeout_ms: int) -> DescribeLogDirsRequest:
        keys = [TopicPartition(one.topic, one.partition) for one in of_broker]
        return DescribeLogDirsRequest(
            topics=[
                DescribeLogDirsRequest.DescribableLogDirTopic(
                    topic=topic, partitions=[key.partition for key in of_topic]
                )
                for topic, of_topic in by_topic(keys).items()
            ]
        )

    places: dict[Replica, Place] = {replica: replica.broker for replica in replicas}
    return await engine.items(
        "describe_replica_log_dirs",
        places,
        build,
        read_replica_log_dirs,
        deadline=engine.deadline(timeout_ms),
    )


def read_replica_log_dirs(
    replicas: Collection[Replica], answer: DescribeLogDirsResponse
) -> dict[Replica, ReplicaLogDirs | Exception]:
    """Read the directories of replicas in a response; pure."""
    found = {TopicPartition(one.topic, one.partition): ReplicaLogDirs() for one in replicas}
    for path, directory in read_log_dirs(answer).items():
        for key, info in directory.replicas.items():
            if key not in found:
                continue
            if info.is_future:
                found[key] = replace(found[key], future=path, future_offset_lag=info.offset_lag)
            else:
                found[key] = replace(found[key], current=path, current_offset_lag=info.offset_lag)
    return {one: found[TopicPartition(one.topic, one.partition)] for one in replicas}


async def alter_replica_log_dirs(
    engine: Engine, directories: Mapping[Replica, str], *, timeout_ms: int | None = None
) -> Results[Replica, None]:
    """Move replicas to other log directories of their brokers."""

    def build(of_broker: Collection[Replica], timeout_ms: int) -> AlterReplicaLogDirsRequest:
        request = AlterReplicaLogDirsRequest
        in_path: dict[str, list[TopicPartition]] = {}
        for one in of_broker:
            in_path.setdefault(directories[one], []).append(TopicPartition(one.topic, one.partition))
        return request(
            dirs=[
                request.AlterReplicaLogDir(
                    path=path,
                    topics=[
                        request.AlterReplicaLogDirTopic(
                            name=topic, partitions=[key.partition for key in of_topic]
                        )
                        for topic, of_topic in by_topic(keys).items()
                    ],
                )
                for path, keys in in_path.items()
            ]
        )

    def read(
        of_broker: Collection[Replica], answer: AlterReplicaLogDirsResponse
    ) -> dict[Replica, Exception | None]:
        broker = next(iter(of_broker)).broker
        return {
            Replica(topic.topic_name, one.partition_index, broker): failure(one.error_code)
            if one.error_code
            else None
            for topic in answer.results
            for one in topic.partitions
        }

    places: dict[Replica, Place] = {replica: replica.broker for replica in directories}
    return await engine.items(
        "alter_replica_log_dirs", places, build, read, deadline=engine.deadline(timeout_ms)
    )
