"""Leader elections: by request, when brokers come and go, and back to the preferred replicas."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from ottla.controller.partition_change import Election, PartitionChange
from ottla.controller.records import DIRECTORY_ASSIGNMENT_LEVEL
from ottla.controller.registrations import NO_LEADER, PartitionRegistration, Topic
from ottla.controller.result import Result, Steps, standing
from ottla.controller.state import ControllerState
from ottla.wire import uuid
from ottla.wire.errors import (
    ElectionNotNeeded,
    EligibleLeadersNotAvailable,
    InvalidRequest,
    KafkaError,
    PreferredLeaderNotAvailable,
    UnknownTopicOrPartition,
)
from ottla.wire.message import Message
from ottla.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from ottla.wire.messages.metadata_records import PartitionChangeRecord

PREFERRED = 0
UNCLEAN = 1

ELECTIONS_PER_ROUND_MAX = 1_000

Located = tuple[Topic, int, PartitionRegistration]


def all_partitions(state: ControllerState) -> Iterator[Located]:
    for topic in state.image.topics.values():
        for index, partition in topic.partitions.items():
            yield topic, index, partition


def partitions_with_isr(state: ControllerState, broker_id: int) -> Iterator[Located]:
    return (located for located in all_partitions(state) if broker_id in located[2].isr)


def partitions_with_elr(state: ControllerState, broker_id: int) -> Iterator[Located]:
    return (located for located in all_partitions(state) if broker_id in located[2].elr)


def partitions_in_directories(
    state: ControllerState, broker_id: int, directories: Collection[bytes]
) -> Iterator[Located]:
    """The partitions in some log directories of a broker."""
    return (
        located
        for located in all_partitions(state)
        if broker_id in located[2].replicas and located[2].directory_of(broker_id) in directories
    )


def partitions_without_leader(state: ControllerState) -> Iterator[Located]:
    return (located for located in all_partitions(state) if located[2].leader == NO_LEADER)


def leads_something(state: ControllerState, broker_id: int) -> bool:
    return any(partition.leader == broker_id for _, _, partition in all_partitions(state))


def default_directory(state: ControllerState) -> Callable[[int], bytes]:
    """The directory to store for a replica that a broker is about to get."""
    brokers = state.image.brokers

    def of(broker_id: int) -> bytes:
        if state.image.metadata_version < DIRECTORY_ASSIGNMENT_LEVEL:
            return uuid.DIRECTORY_MIGRATING
        broker = brokers.get(broker_id)
        return uuid.DIRECTORY_UNASSIGNED if broker is None else broker.default_directory

    return of


def change_of(
    state: ControllerState,
    topic: Topic,
    index: int,
    *,
    is_acceptable: Callable[[int], bool] | None = None,
    election: Election = Election.ONLINE,
    found: Mapping[int, bytes] | None = None,
) -> PartitionChange:
    """A change of one partition, to be filled in. A leader must also have its directory online.

    `found`: newly reported directories of replicas, which the partition does not contain yet.
    """
    partition = topic.partitions[index]
    is_alive = is_acceptable or state.is_active
    directories = {**dict(zip(partition.replicas, partition.directories, strict=True)), **(found or {})}

    def is_acceptable_leader(broker_id: int) -> bool:
        if broker_id not in partition.replicas or not is_alive(broker_id):
            return False
        return state.has_online_directory(broker_id, directories[broker_id])

    return PartitionChange(
        partition,
        topic.id,
        index,
        is_acceptable_leader=is_acceptable_leader,
        default_directory=default_directory(state),
        metadata_version=state.image.metadata_version,
        min_isr=state.min_insync_replicas(topic),
        is_elr_enabled=state.image.is_elr_enabled,
        election=election,
    )


def leader_and_isr_changes(
    state: ControllerState,
    partitions: Iterable[Located],
    *,
    leaving: int = NO_LEADER,
    coming: int = NO_LEADER,
    shut_down_uncleanly: int = NO_LEADER,
) -> Steps[list[Message]]:
    """The changes of `partitions` when a broker leaves, arrives, or has lost records."""

    def is_acceptable(broker_id: int) -> bool:
        if broker_id in (leaving, shut_down_uncleanly):
            return False
        return broker_id == coming or state.is_active(broker_id)

    records: list[Message] = []
    for topic, index, partition in partitions:
        change = change_of(state, topic, index, is_acceptable=is_acceptable)
        if state.is_unclean_election_enabled(topic):
            change.election = Election.UNCLEAN
        if shut_down_uncleanly != NO_LEADER:
            change.unclean_shutdowns = (shut_down_uncleanly,)
        change.isr = [r for r in partition.isr if r not in (leaving, shut_down_uncleanly)]
        record = change.record()
        if record is not None:
            records.append(record)
        yield
    return records


def elect_leaders(
    state: ControllerState, request: ElectLeadersRequest
) -> Steps[Result[ElectLeadersResponse]]:
    """Elect preferred or (unclean) any leaders, of the given partitions or of all."""
    if request.election_type not in (PREFERRED, UNCLEAN):
        raise InvalidRequest(f"Unknown election type {request.election_type}")
    response = ElectLeadersResponse()
    records: list[Message] = []
    is_for_all = request.topic_partitions is None
    if request.topic_partitions is None:
        wanted = [(topic.name, list(topic.partitions)) for topic in state.image.topics.values()]
    else:
        wanted = [(entry.topic, entry.partitions) for entry in request.topic_partitions]
    for name, indexes in wanted:
        results = ElectLeadersResponse.ReplicaElectionResult(topic=name)
        response.replica_election_results.append(results)
        yield
        for index in indexes:
            yield
            code, message = 0, None
            try:
                records.append(_elected(state, name, index, request.election_type))
            except KafkaError as error:
                if is_for_all and isinstance(error, ElectionNotNeeded):
                    continue
                code, message = error.code, error.message
            results.partition_result.append(
                ElectLeadersResponse.PartitionResult(
                    partition_id=index, error_code=code, error_message=message
                )
            )
    return Result(response, records, is_atomic=False)


def _elected(state: ControllerState, name: str, index: int, election_type: int) -> PartitionChangeRecord:
    topic = state.image.topics_by_name.get(name)
    if topic is None:
        raise UnknownTopicOrPartition(f"No such topic as {name}")
    partition = topic.partitions.get(index)
    if partition is None:
        raise UnknownTopicOrPartition(f"No such partition as {name}-{index}")
    is_preferred = election_type == PREFERRED
    if partition.leader == partition.preferred_leader if is_preferred else partition.leader != NO_LEADER:
        raise standing(ElectionNotNeeded)
    election = Election.PREFERRED if is_preferred else Election.UNCLEAN
    record = change_of(state, topic, index, election=election).record()
    if record is None:
        raise standing(PreferredLeaderNotAvailable if is_preferred else EligibleLeadersNotAvailable)
    return record


def balance_leaders(
    state: ControllerState, elections_max: int = ELECTIONS_PER_ROUND_MAX
) -> Steps[Result[bool]]:
    """Return leadership to preferred replicas that are in sync again. True: there may be more to do."""
    records: list[Message] = []
    for topic, index, partition in all_partitions(state):
        if partition.leader == partition.preferred_leader:
            continue
        yield
        record = change_of(state, topic, index, election=Election.PREFERRED).record()
        if record is not None:
            records.append(record)
            if len(records) == elections_max:
                return Result(True, records, is_atomic=False)
    return Result(False, records, is_atomic=False)


def elect_unclean_leaders(
    state: ControllerState, elections_max: int = ELECTIONS_PER_ROUND_MAX
) -> Steps[Result[bool]]:
    """Elect any live replica as leader of leaderless partitions whose topic allows that. True: maybe more."""
    records: list[Message] = []
    for topic, index, _ in partitions_without_leader(state):
        yield
        if not state.is_unclean_election_enabled(topic):
            continue
        record = change_of(state, topic, index, election=Election.UNCLEAN).record()
        if record is not None:
            records.append(record)
            if len(records) == elections_max:
                return Result(True, records, is_atomic=False)
    return Result(False, records, is_atomic=False)
