"""DescribeProducers (61), version 0.

Answers which producers a replica remembers: their epoch, last sequence and timestamp, the coordinator's epoch
and where their open transaction began (-1: none is open). Followers answer too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.controller.names import why_invalid
from ottla.server.dispatch import Api, RequestContext
from ottla.server.handlers.common import hosted_partition
from ottla.wire.errors import InvalidTopicException, KafkaError, KafkaStorageError, UnknownTopicOrPartition
from ottla.wire.messages.describe_producers import DescribeProducersRequest, DescribeProducersResponse

if TYPE_CHECKING:
    from ottla.log.log import Log
    from ottla.server.broker import Broker

KEY = 61

_PartitionResponse = DescribeProducersResponse.PartitionResponse


def handle(
    broker: Broker, request: DescribeProducersRequest, context: RequestContext
) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        topics=[
            DescribeProducersResponse.TopicResponse(
                name=topic.name,
                partitions=[_describe(broker, topic.name, index) for index in topic.partition_indexes],
            )
            for topic in request.topics
        ]
    )


def _describe(broker: Broker, topic: str, index: int) -> _PartitionResponse:
    try:
        log = _log(broker, topic, index)
    except KafkaError as error:
        return _PartitionResponse(partition_index=index, error_code=error.code, error_message=error.message)
    return _PartitionResponse(partition_index=index, active_producers=_producers(log))


def _log(broker: Broker, topic: str, index: int) -> Log:
    reason = why_invalid(topic)
    if reason is not None:
        raise InvalidTopicException(f"Topic name is invalid: {reason}")
    if topic not in broker.image.topics_by_name:
        raise UnknownTopicOrPartition(f"There is no topic {topic}.")
    log = hosted_partition(broker, topic, index).log
    if log is None:
        raise KafkaStorageError(f"The log directory of {topic}-{index} is offline; see the log of this node.")
    return log


def _producers(log: Log) -> list[DescribeProducersResponse.ProducerState]:
    return [
        DescribeProducersResponse.ProducerState(
            producer_id=entry.producer_id,
            producer_epoch=entry.epoch,
            last_sequence=entry.last_sequence,
            last_timestamp=entry.last_timestamp,
            coordinator_epoch=entry.coordinator_epoch,
            current_txn_start_offset=-1
            if entry.transaction_first_offset is None
            else entry.transaction_first_offset,
        )
        for entry in log.producers.entries.values()
    ]


API = Api(KEY, handle)
