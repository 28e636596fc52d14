"""AlterPartition: a leader proposes an ISR; the controller accepts it or rejects it with an error."""

from __future__ import annotations

from ottla.controller.elections import change_of
from ottla.controller.partition_change import Election
from ottla.controller.registrations import NO_LEADER_CHANGE, RECOVERED, RECOVERING, PartitionRegistration
from ottla.controller.result import Result, Steps
from ottla.controller.state import ControllerState
from ottla.wire.errors import ErrorCode
from ottla.wire.message import Message
from ottla.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse

PartitionData = AlterPartitionRequest.PartitionData
PartitionAnswer = AlterPartitionResponse.PartitionData
UNKNOWN_BROKER_EPOCH = -1


def alter_partition(
    state: ControllerState, request: AlterPartitionRequest, version: int
) -> Steps[Result[AlterPartitionResponse]]:
    """Change ISRs as the leaders propose."""
    state.check_broker_epoch(request.broker_id, request.broker_epoch)
    response = AlterPartitionResponse()
    records: list[Message] = []
    for asked in request.topics:
        answers: list[PartitionAnswer] = []
        response.topics.append(AlterPartitionResponse.TopicData(topic_id=asked.topic_id, partitions=answers))
        topic = state.image.topics.get(asked.topic_id)
        yield
        for data in asked.partitions:
            yield
            index = data.partition_index
            if topic is None:
                answers.append(_refusal(index, ErrorCode.UNKNOWN_TOPIC_ID))
                continue
            partition = topic.partitions.get(index)
            new_isr = _new_isr(data, version)
            code = _why_not(state, request.broker_id, partition, data, new_isr)
            if partition is None or code != ErrorCode.NONE:
                answers.append(_refusal(index, code))
                continue
            change = change_of(state, topic, index)
            if state.is_unclean_election_enabled(topic):
                change.election = Election.UNCLEAN
            change.isr = [replica for replica, _ in new_isr]
            change.recovery_state = data.leader_recovery_state
            record = change.record()
            if record is not None:
                records.append(record)
                partition = partition.merge(record)
                if record.leader not in (request.broker_id, NO_LEADER_CHANGE):
                    answers.append(_refusal(index, ErrorCode.NEW_LEADER_ELECTED))
                    continue
            answers.append(
                PartitionAnswer(
                    partition_index=index,
                    leader_id=partition.leader,
                    leader_epoch=partition.leader_epoch,
                    isr=list(partition.isr),
                    leader_recovery_state=partition.leader_recovery_state,
                    partition_epoch=partition.partition_epoch,
                )
            )
    return Result(response, records, is_atomic=False)


def _refusal(index: int, code: ErrorCode) -> PartitionAnswer:
    return PartitionAnswer(partition_index=index, error_code=code)


def _new_isr(data: PartitionData, version: int) -> list[tuple[int, int]]:
    """The proposed ISR, each replica with the broker epoch that the leader knows."""
    if version < 3:
        return [(replica, UNKNOWN_BROKER_EPOCH) for replica in data.new_isr]
    return [(broker.broker_id, broker.broker_epoch) for broker in data.new_isr_with_epochs]


def _why_not(
    state: ControllerState,
    broker_id: int,
    partition: PartitionRegistration | None,
    data: PartitionData,
    new_isr: list[tuple[int, int]],
) -> ErrorCode:
    """The error of a proposal, NONE if it is valid."""
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if data.leader_epoch > partition.leader_epoch or data.partition_epoch > partition.partition_epoch:
        return ErrorCode.NOT_CONTROLLER  # the broker knows more than this controller, so there is a newer one
    if data.leader_epoch < partition.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if broker_id != partition.leader:
        return ErrorCode.INVALID_REQUEST
    if data.partition_epoch < partition.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    replicas = {replica for replica, _ in new_isr}
    if len(replicas) != len(new_isr) or not replicas <= set(partition.replicas):
        return ErrorCode.INVALID_REQUEST
    if partition.leader not in replicas:
        return ErrorCode.INVALID_REQUEST
    if data.leader_recovery_state not in (RECOVERED, RECOVERING):
        return ErrorCode.INVALID_REQUEST
    is_recovering = data.leader_recovery_state == RECOVERING
    if is_recovering and (len(new_isr) > 1 or partition.leader_recovery_state == RECOVERED):
        return ErrorCode.INVALID_REQUEST
    if not all(_is_eligible(state, broker, epoch) for broker, epoch in new_isr):
        return ErrorCode.INELIGIBLE_REPLICA
    return ErrorCode.NONE


def _is_eligible(state: ControllerState, broker_id: int, epoch: int) -> bool:
    broker = state.image.brokers.get(broker_id)
    return broker is not None and broker.is_active and epoch in (UNKNOWN_BROKER_EPOCH, broker.epoch)
