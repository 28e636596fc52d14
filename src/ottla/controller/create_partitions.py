"""CreatePartitions: adds partitions to existing topics."""

from __future__ import annotations

from ottla.controller.registrations import PartitionRegistration
from ottla.controller.result import RECORDS_PER_REQUEST_MAX, TOO_LARGE, Result, Steps
from ottla.controller.state import ControllerState
from ottla.controller.topics import (
    check_assignment,
    new_assigned_partition,
    new_partition,
    partition_records,
    placed,
)
from ottla.wire.errors import (
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidRequest,
    KafkaError,
    PolicyViolation,
    UnknownTopicOrPartition,
)
from ottla.wire.message import Message
from ottla.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse

WantedTopic = CreatePartitionsRequest.CreatePartitionsTopic
TopicResult = CreatePartitionsResponse.CreatePartitionsTopicResult


def create_partitions(
    state: ControllerState, request: CreatePartitionsRequest
) -> Steps[Result[CreatePartitionsResponse]]:
    """Increase the number of partitions of topics."""
    response = CreatePartitionsResponse()
    records: list[Message] = []
    wanted: dict[str, WantedTopic | None] = {}
    for topic in request.topics:
        wanted[topic.name] = None if topic.name in wanted else topic
    if sum(found is not None for found in wanted.values()) > RECORDS_PER_REQUEST_MAX:
        raise PolicyViolation(TOO_LARGE)  # Kafka bounds the answers as it bounds the records
    for name, found in wanted.items():
        yield
        error: KafkaError | None = None
        try:
            if found is None:
                raise InvalidRequest("Duplicate topic name.")
            made = yield from _create(state, found)
            if len(records) + len(made) > RECORDS_PER_REQUEST_MAX:
                raise PolicyViolation("Excessively large number of partitions per request.")
            records += made
        except KafkaError as raised:
            error = raised.with_traceback(None)  # which would make it garbage in a cycle
        response.results.append(
            TopicResult(
                name=name,
                error_code=0 if error is None else error.code,
                error_message=None if error is None else error.message,
            )
        )
    return Result(response, () if request.validate_only else records)


def _create(state: ControllerState, wanted: WantedTopic) -> Steps[list[Message]]:
    topic = state.image.topics_by_name.get(wanted.name)
    if topic is None:
        raise UnknownTopicOrPartition
    present = len(topic.partitions)
    if wanted.count == present:
        raise InvalidPartitions(f"Topic already has {present} partition(s).")
    if wanted.count < present:
        raise InvalidPartitions(
            f"The topic {wanted.name} currently has {present} partition(s); {wanted.count} would not be an "
            "increase."
        )
    additional = wanted.count - present
    if additional > RECORDS_PER_REQUEST_MAX:
        raise PolicyViolation("Excessively large number of partitions per request.")
    if wanted.assignments is not None and len(wanted.assignments) != additional:
        raise InvalidReplicaAssignment(
            f"Attempted to add {additional} additional partition(s), but only {len(wanted.assignments)} "
            "assignment(s) were specified."
        )
    replicas = len(topic.partitions[0].replicas)
    made: list[PartitionRegistration] = []
    if wanted.assignments is not None:
        for index, assignment in enumerate(wanted.assignments, present):
            check_assignment(state, assignment.broker_ids, replicas)
            made.append(new_assigned_partition(state, index, assignment.broker_ids))
            yield
    else:
        for assigned in (yield from placed(state, additional, replicas)):
            try:
                made.append(new_partition(state, assigned))
            except InvalidReplicationFactor as error:
                text = f"Unable to replicate the partition {replicas} time(s): {error.message}"
                raise InvalidReplicationFactor(text) from None
            yield
    return (yield from partition_records(state, topic.id, made, present))
