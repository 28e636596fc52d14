"""Reassignments: moves partitions to other brokers, cancels moves, and lists those in progress."""

from __future__ import annotations

from ottla.controller.elections import change_of
from ottla.controller.image import ClusterImage
from ottla.controller.partition_change import Election
from ottla.controller.reassignment_replicas import reverted, started
from ottla.controller.registrations import PartitionRegistration, Topic
from ottla.controller.result import RECORDS_PER_REQUEST_MAX, Result
from ottla.controller.state import ControllerState
from ottla.controller.topics import check_assignment
from ottla.wire.errors import (
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    KafkaError,
    NoReassignmentInProgress,
    PolicyViolation,
    UnknownTopicOrPartition,
)
from ottla.wire.message import Message
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from ottla.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from ottla.wire.messages.metadata_records import PartitionChangeRecord

Wanted = AlterPartitionReassignmentsRequest.ReassignablePartition


def alter_partition_reassignments(
    state: ControllerState, request: AlterPartitionReassignmentsRequest
) -> Result[AlterPartitionReassignmentsResponse]:
    """Start, change or cancel (replicas = null) reassignments."""
    may_resize = request.allow_replication_factor_change
    response = AlterPartitionReassignmentsResponse(
        error_message=None, allow_replication_factor_change=may_resize
    )
    records: list[Message] = []
    for topic in request.topics:
        answers = AlterPartitionReassignmentsResponse.ReassignableTopicResponse(name=topic.name)
        response.responses.append(answers)
        for wanted in topic.partitions:
            error: KafkaError | None = None
            try:
                record = _altered(state, topic.name, wanted, may_resize=may_resize)
                if len(records) == RECORDS_PER_REQUEST_MAX:
                    raise PolicyViolation("Excessively large number of partitions per request.")
                if record is not None:
                    records.append(record)
            except KafkaError as raised:
                error = raised.with_traceback(None)  # which would make it garbage in a cycle
            answers.partitions.append(
                AlterPartitionReassignmentsResponse.ReassignablePartitionResponse(
                    partition_index=wanted.partition_index,
                    error_code=0 if error is None else error.code,
                    error_message=None if error is None else error.message,
                )
            )
    return Result(response, records)


def _altered(
    state: ControllerState, name: str, wanted: Wanted, *, may_resize: bool
) -> PartitionChangeRecord | None:
    topic = state.image.topics_by_name.get(name)
    if topic is None:
        raise UnknownTopicOrPartition(f"Unable to find a topic named {name}.")
    partition = topic.partitions.get(wanted.partition_index)
    if partition is None:
        raise UnknownTopicOrPartition(f"Unable to find partition {name}:{wanted.partition_index}.")
    if wanted.replicas is None:
        return _cancelled(state, topic, wanted.partition_index, partition)
    check_assignment(state, wanted.replicas, None)
    if not may_resize:
        _check_size(partition, len(wanted.replicas))
    change = change_of(state, topic, wanted.partition_index)
    change.replicas, change.removing, change.adding = started(partition, wanted.replicas)
    return change.record()


def _cancelled(
    state: ControllerState, topic: Topic, index: int, partition: PartitionRegistration
) -> PartitionChangeRecord | None:
    if not partition.is_reassigning:
        raise NoReassignmentInProgress
    replicas, isr, is_unclean = reverted(partition)
    may_be_unclean = state.is_unclean_election_enabled(topic)
    if is_unclean and not may_be_unclean:
        raise InvalidReplicaAssignment(
            f"Unable to revert partition assignment for {topic.name}:{index} because it would require an "
            "unclean leader election."
        )
    change = change_of(state, topic, index)
    if may_be_unclean:
        change.election = Election.UNCLEAN
    change.isr, change.replicas = isr, replicas
    change.removing = change.adding = ()
    return change.record()


def _check_size(partition: PartitionRegistration, wanted: int) -> None:
    present = len({*partition.replicas, *partition.adding} - set(partition.removing))
    if present != wanted:
        raise InvalidReplicationFactor(f"The replication factor is changed from {present} to {wanted}")


def list_partition_reassignments(
    image: ClusterImage, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """The reassignments in progress: all, or those of the given partitions."""
    response = ListPartitionReassignmentsResponse(error_message=None)
    wanted: list[tuple[Topic, list[int]]] = []
    if request.topics is None:
        wanted = [(topic, list(topic.partitions)) for topic in image.topics.values()]
    else:
        for asked in request.topics:
            found = image.topics_by_name.get(asked.name)
            if found is not None:
                wanted.append((found, asked.partition_indexes))
    for topic, indexes in wanted:
        ongoing = [
            ListPartitionReassignmentsResponse.OngoingPartitionReassignment(
                partition_index=index,
                replicas=list(partition.replicas),
                adding_replicas=list(partition.adding),
                removing_replicas=list(partition.removing),
            )
            for index in indexes
            if (partition := topic.partitions.get(index)) is not None and partition.is_reassigning
        ]
        if ongoing:
            response.topics.append(
                ListPartitionReassignmentsResponse.OngoingTopicReassignment(
                    name=topic.name, partitions=ongoing
                )
            )
    return response
