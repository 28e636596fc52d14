"""Creates and deletes topics.

A created topic is a TopicRecord, its ConfigRecords and a PartitionRecord for each partition, in one batch.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ottla.controller.configs import topic_config_records
from ottla.controller.elections import default_directory
from ottla.controller.placement import Placer, UsableBroker
from ottla.controller.registrations import PartitionRegistration
from ottla.controller.result import RECORDS_PER_REQUEST_MAX, TOO_LARGE, Result, Steps, finished, standing
from ottla.controller.state import ControllerState
from ottla.controller.topic_names import METADATA_TOPIC, collision_key, validate_topic_name
from ottla.wire import uuid
from ottla.wire.errors import (
    ErrorCode,
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidRequest,
    InvalidTopicException,
    KafkaError,
    PolicyViolation,
    TopicAlreadyExists,
    TopicDeletionDisabled,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from ottla.wire.message import Message
from ottla.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from ottla.wire.messages.metadata_records import RemoveTopicRecord, TopicRecord

PARTITIONS_PER_REQUEST_MAX = 10_000

CreatableTopic = CreateTopicsRequest.CreatableTopic
TopicResult = CreateTopicsResponse.CreatableTopicResult
CreatedSetting = CreateTopicsResponse.CreatableTopicConfigs
DeletedTopic = DeleteTopicsResponse.DeletableTopicResult


def create_topics(
    state: ControllerState, request: CreateTopicsRequest
) -> Steps[Result[CreateTopicsResponse]]:
    """Create the topics that are valid."""
    counts: dict[str, int] = {}
    for topic in request.topics:
        counts[topic.name] = counts.get(topic.name, 0) + 1
    wanted = [topic for topic in request.topics if counts[topic.name] == 1 and topic.name != METADATA_TOPIC]
    _check_total(wanted, state.settings.default_partitions)
    response = CreateTopicsResponse()
    records: list[Message] = []
    described = _DescribedSettings(state)
    for topic in wanted:
        yield
        try:
            made, result = yield from _create(state, topic, described)
        except KafkaError as error:
            response.topics.append(_refused(topic.name, error))
            continue
        if len(records) + len(made) > RECORDS_PER_REQUEST_MAX:
            raise PolicyViolation(TOO_LARGE)
        records += made
        response.topics.append(result)
    for name, count in counts.items():
        if count > 1:
            response.topics.append(_refused(name, InvalidRequest("Duplicate topic name.")))
        elif name == METADATA_TOPIC:
            text = f"Creation of internal topic {METADATA_TOPIC} is prohibited."
            response.topics.append(_refused(name, InvalidRequest(text)))
    return Result(response, () if request.validate_only else records)


def _refused(name: str, error: KafkaError) -> TopicResult:
    return TopicResult(name=name, error_code=error.code, error_message=error.message)


def _check_total(topics: list[CreatableTopic], default_partitions: int) -> None:
    total = 0
    for topic in topics:
        if topic.assignments:
            total += len(topic.assignments)
        else:
            total += default_partitions if topic.num_partitions == -1 else max(topic.num_partitions, 0)
    if total > PARTITIONS_PER_REQUEST_MAX:
        raise PolicyViolation("Excessively large number of partitions per request.")


class _DescribedSettings:
    """The effective settings of new topics, for the response. Topics with equal settings share a list."""

    def __init__(self, state: ControllerState) -> None:
        self._state = state
        self._lists: dict[frozenset[tuple[str, str]], list[CreatedSetting]] = {}

    def of(self, overrides: dict[str, str]) -> list[CreatedSetting]:
        key = frozenset(overrides.items())
        if key not in self._lists:
            state = self._state
            self._lists[key] = [
                CreatedSetting(
                    name=entry.name,
                    value=None if entry.is_sensitive else entry.value,
                    read_only=entry.read_only,
                    config_source=entry.source,
                    is_sensitive=entry.is_sensitive,
                )
                for entry in state.rules.describe_topic(state.dynamic_configs, overrides)
            ]
        return self._lists[key]


def _create(
    state: ControllerState, topic: CreatableTopic, described: _DescribedSettings
) -> Steps[tuple[list[Message], TopicResult]]:
    """The records of one new topic and its part of the response."""
    _check_name(state, topic.name)
    config_records = topic_config_records(state, topic)
    partitions = yield from _partitions(state, topic)
    topic_id = uuid.random(state.random_bytes)
    overrides = {config.name: config.value for config in topic.configs if config.value is not None}
    result = TopicResult(
        name=topic.name,
        topic_id=topic_id,
        error_message=None,
        num_partitions=len(partitions),
        replication_factor=len(partitions[0].replicas),
        configs=described.of(overrides),
    )
    records: list[Message] = [TopicRecord(name=topic.name, topic_id=topic_id), *config_records]
    records += yield from partition_records(state, topic_id, partitions)
    return records, result


def partition_records(
    state: ControllerState, topic_id: bytes, partitions: Iterable[PartitionRegistration], first: int = 0
) -> Steps[list[Message]]:
    """The records of new partitions of a topic, numbered from `first` on."""
    level = state.image.metadata_version
    records: list[Message] = []
    for index, partition in enumerate(partitions, first):
        records.append(partition.to_record(topic_id, index, level))
        yield
    return records


def _check_name(state: ControllerState, name: str) -> None:
    if name in state.image.topics_by_name:
        raise TopicAlreadyExists(f"Topic '{name}' already exists.")
    validate_topic_name(name)
    key = collision_key(name)
    others = state.image.colliding_names.get(key) if key is not None else None
    if others:
        raise InvalidTopicException(f"Topic '{name}' collides with existing topic: {min(others)}")


def _partitions(state: ControllerState, topic: CreatableTopic) -> Steps[list[PartitionRegistration]]:
    if topic.assignments:
        return (yield from _assigned_partitions(state, topic))
    if topic.replication_factor < -1 or topic.replication_factor == 0:
        raise InvalidReplicationFactor(
            "Replication factor must be larger than 0, or -1 to use the default value."
        )
    if topic.num_partitions < -1 or topic.num_partitions == 0:
        raise InvalidPartitions("Number of partitions was set to an invalid non-positive value.")
    count = state.settings.default_partitions if topic.num_partitions == -1 else topic.num_partitions
    replicas = topic.replication_factor
    if replicas == -1:
        replicas = state.settings.default_replication_factor
    try:
        partitions = []
        for assigned in (yield from placed(state, count, replicas)):
            partitions.append(new_partition(state, assigned))
            yield
        return partitions
    except InvalidReplicationFactor as error:
        cause = f"Unable to replicate the partition {replicas} time(s): {error.message}"
        raise InvalidReplicationFactor(cause) from None


def _assigned_partitions(state: ControllerState, topic: CreatableTopic) -> Steps[list[PartitionRegistration]]:
    if topic.replication_factor != -1:
        raise InvalidRequest(
            "A manual partition assignment was specified, but replication factor was not set to -1."
        )
    if topic.num_partitions != -1:
        raise InvalidRequest(
            "A manual partition assignment was specified, but numPartitions was not set to -1."
        )
    assigned: dict[int, PartitionRegistration] = {}
    replication_factor: int | None = None
    for assignment in topic.assignments:
        index, brokers = assignment.partition_index, assignment.broker_ids
        if index in assigned:
            raise InvalidReplicaAssignment(
                f"Found multiple manual partition assignments for partition {index}"
            )
        check_assignment(state, brokers, replication_factor)
        replication_factor = len(brokers)
        assigned[index] = new_assigned_partition(state, index, brokers)
        yield
    if sorted(assigned) != list(range(len(assigned))):
        raise InvalidReplicaAssignment("partitions should be a consecutive 0-based integer sequence")
    return [assigned[index] for index in range(len(assigned))]


def placed(state: ControllerState, count: int, replicas: int) -> Steps[list[list[int]]]:
    """The brokers of `count` new partitions: only those that are not shutting down and have a directory for
    replicas.
    """
    brokers = state.image.brokers
    placer = Placer(
        [
            UsableBroker(broker_id, brokers[broker_id].rack, entry.fenced)
            for broker_id, entry in state.heartbeats.brokers.items()
            if entry.shutdown_offset < 0 and brokers[broker_id].has_uncordoned_directory
        ],
        state.random_below,
    )
    chosen = []
    for assigned in placer.place(count, replicas):
        chosen.append(assigned)
        yield
    return chosen


def check_assignment(state: ControllerState, brokers: list[int], replication_factor: int | None) -> None:
    """Reject an invalid manual assignment."""
    if not brokers:
        raise InvalidReplicaAssignment("The manual partition assignment includes an empty replica list.")
    previous = None
    for broker_id in sorted(brokers):
        if broker_id not in state.image.brokers:
            raise InvalidReplicaAssignment(
                f"The manual partition assignment includes broker {broker_id}, but no such broker is "
                "registered."
            )
        if broker_id == previous:
            raise InvalidReplicaAssignment(
                f"The manual partition assignment includes the broker {broker_id} more than once."
            )
        previous = broker_id
    if replication_factor is not None and len(brokers) != replication_factor:
        raise InvalidReplicaAssignment(
            f"The manual partition assignment includes a partition with {len(brokers)} replica(s), but this "
            f"is not consistent with previous partitions, which have {replication_factor} replica(s)."
        )


def new_assigned_partition(state: ControllerState, index: int, brokers: list[int]) -> PartitionRegistration:
    """A new partition with a manual assignment."""
    partition = _in_sync(state, brokers)
    if partition is None:
        raise InvalidReplicaAssignment(
            f"All brokers specified in the manual partition assignment for partition {index} are fenced or "
            "in controlled shutdown."
        )
    return partition


def new_partition(state: ControllerState, brokers: list[int]) -> PartitionRegistration:
    """A new partition on the brokers of the placer."""
    partition = _in_sync(state, brokers)
    if partition is None:
        raise InvalidReplicationFactor("All brokers are currently fenced or in controlled shutdown.")
    return partition


def _in_sync(state: ControllerState, brokers: list[int]) -> PartitionRegistration | None:
    isr = tuple(broker_id for broker_id in brokers if state.is_active(broker_id))
    if not isr:
        return None
    directory = default_directory(state)
    return PartitionRegistration(
        replicas=tuple(brokers),
        directories=tuple(directory(broker_id) for broker_id in brokers),
        isr=isr,
        leader=isr[0],
    )


class Deleted(NamedTuple):
    """The result of deleting one topic."""

    name: str | None
    topic_id: bytes
    error: KafkaError | None

    def to_answer(self) -> DeletedTopic:
        error = self.error
        return DeletedTopic(
            name=self.name,
            topic_id=self.topic_id,
            error_code=ErrorCode.NONE if error is None else error.code,
            error_message=None if error is None else error.message,
        )


class Deletable(NamedTuple):
    """The topics to delete, and the results of invalid entries."""

    names: list[str]
    ids: list[bytes]
    answers: list[Deleted]


def delete_topics(
    state: ControllerState, request: DeleteTopicsRequest, version: int
) -> Result[DeleteTopicsResponse]:
    """Delete topics by name or by id, in one step. A large request runs in steps."""
    result = finished(remove_topics(state, finished(read_deletion(request)), version))
    response = DeleteTopicsResponse(responses=[one.to_answer() for one in result.response])
    return Result(response, result.records)


def remove_topics(state: ControllerState, wanted: Deletable, version: int) -> Steps[Result[list[Deleted]]]:
    """Delete the topics that can be deleted; return each result."""
    if not state.settings.is_topic_deletion_enabled:
        if version < 3:
            raise InvalidRequest("This version does not support topic deletion.")
        raise TopicDeletionDisabled
    names, ids, answers = wanted
    unknown_id, unknown_name = standing(UnknownTopicId), standing(UnknownTopicOrPartition)
    chosen: dict[bytes, str] = {}
    for topic_id in ids:
        yield
        topic = state.image.topics.get(topic_id)
        if topic is None:
            answers.append(Deleted(None, topic_id, unknown_id))
        else:
            chosen[topic_id] = topic.name
    for name in names:
        yield
        topic = state.image.topics_by_name.get(name)
        if topic is None:
            answers.append(Deleted(name, uuid.ZERO, unknown_name))
        elif topic.id in chosen:
            del chosen[topic.id]
            text = "The provided topic name maps to an ID that was already supplied."
            answers.append(Deleted(name, topic.id, InvalidRequest(text)))
        else:
            chosen[topic.id] = name
    records = []
    for topic_id, name in chosen.items():
        answers.append(Deleted(name, topic_id, None))
        records.append(RemoveTopicRecord(topic_id=topic_id))
        yield
    return Result(answers, records)


def read_deletion(request: DeleteTopicsRequest) -> Steps[Deletable]:
    """The names and the ids to delete, each of which may occur once."""
    answers: list[Deleted] = []
    names: dict[str, int] = {}
    ids: dict[bytes, int] = {}
    for name in request.topic_names:
        names[name] = names.get(name, 0) + 1
        yield
    for topic in request.topics:
        yield
        if topic.name is None and topic.topic_id == uuid.ZERO:
            error = InvalidRequest("Neither topic name nor id were specified.")
            answers.append(Deleted(None, uuid.ZERO, error))
        elif topic.name is None:
            ids[topic.topic_id] = ids.get(topic.topic_id, 0) + 1
        elif topic.topic_id == uuid.ZERO:
            names[topic.name] = names.get(topic.name, 0) + 1
        else:
            error = InvalidRequest("You may not specify both topic name and topic id.")
            answers.append(Deleted(topic.name, topic.topic_id, error))
    for name, count in names.items():
        if count > 1:
            answers.append(Deleted(name, uuid.ZERO, InvalidRequest("Duplicate topic name.")))
    yield
    for topic_id, count in ids.items():
        if count > 1:
            answers.append(Deleted(None, topic_id, InvalidRequest("Duplicate topic id.")))
    yield
    once = [name for name, count in names.items() if count == 1]
    return Deletable(once, [topic_id for topic_id, count in ids.items() if count == 1], answers)
