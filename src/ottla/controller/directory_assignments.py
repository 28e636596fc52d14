"""AssignReplicasToDirs: a broker reports the log directories of its replicas."""

from __future__ import annotations

from ottla.controller.elections import Located, change_of, leader_and_isr_changes
from ottla.controller.records import DIRECTORY_ASSIGNMENT_LEVEL
from ottla.controller.registrations import NO_LEADER
from ottla.controller.result import Result, Steps
from ottla.controller.state import ControllerState
from ottla.wire.errors import ErrorCode, UnsupportedVersion
from ottla.wire.message import Message
from ottla.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)


def assign_replicas_to_dirs(
    state: ControllerState, request: AssignReplicasToDirsRequest
) -> Steps[Result[AssignReplicasToDirsResponse]]:
    """Store the directories of replicas; a replica in an offline one can neither lead nor be in sync."""
    if state.image.metadata_version < DIRECTORY_ASSIGNMENT_LEVEL:
        raise UnsupportedVersion("Directory assignment is not supported yet.")
    state.check_broker_epoch(request.broker_id, request.broker_epoch)
    broker = state.image.brokers[request.broker_id]
    response = AssignReplicasToDirsResponse()
    records: list[Message] = []
    offline: dict[tuple[bytes, int], Located] = {}
    for directory in request.directories:
        is_offline = not broker.has_online_directory(directory.id)
        answer = AssignReplicasToDirsResponse.DirectoryData(id=directory.id)
        response.directories.append(answer)
        for asked in directory.topics:
            topic_answer = AssignReplicasToDirsResponse.TopicData(topic_id=asked.topic_id)
            answer.topics.append(topic_answer)
            topic = state.image.topics.get(asked.topic_id)
            yield
            for data in asked.partitions:
                yield
                index = data.partition_index
                code = ErrorCode.NONE
                partition = None if topic is None else topic.partitions.get(index)
                if topic is None:
                    code = ErrorCode.UNKNOWN_TOPIC_ID
                elif partition is None:
                    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                elif broker.id not in partition.replicas:
                    code = ErrorCode.NOT_LEADER_OR_FOLLOWER
                else:
                    # One that nobody leads may have waited for this replica.
                    found = {broker.id: directory.id} if partition.leader == NO_LEADER else None
                    change = change_of(state, topic, index, found=found)
                    change.directories[broker.id] = directory.id
                    old = partition.directory_of(broker.id)
                    if old != directory.id and not broker.has_online_directory(old):
                        change.unclean_shutdowns = (broker.id,)  # it begins anew, and is not eligible to lead
                    record = change.record()
                    if record is not None:
                        records.append(record)
                    if is_offline:
                        offline[topic.id, index] = (topic, index, partition)
                topic_answer.partitions.append(
                    AssignReplicasToDirsResponse.PartitionData(partition_index=index, error_code=code)
                )
    records += yield from leader_and_isr_changes(state, offline.values(), leaving=broker.id)
    return Result(response, records, is_atomic=False)
