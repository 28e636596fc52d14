"""DescribeProducers (61), version 0.

Returns the producers in a replica's producer state: their epoch, last sequence and timestamp, the
coordinator's epoch and the start of their open transaction (-1: none is open). Followers answer too. If many
partitions are named more than once, each is described once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.controller.topic_names import why_invalid
from ottla.server.net.dispatch import Api, RequestContext
from ottla.server.net.long_requests import REPEATS_MAX, Steps, distinct
from ottla.server.replicas.partition import hosted_partition
from ottla.wire.errors import InvalidTopicException, KafkaError, KafkaStorageError, UnknownTopicOrPartition
from ottla.wire.messages.describe_producers import DescribeProducersRequest, DescribeProducersResponse

if TYPE_CHECKING:
    from ottla.log.log import Log
    from ottla.server.replicas.partition import HostedParts

KEY = 61

_PartitionResponse = DescribeProducersResponse.PartitionResponse


def handle(
    parts: HostedParts, request: DescribeProducersRequest, context: RequestContext
) -> Steps[DescribeProducersResponse]:
    asked = yield from _asked(request)
    response = DescribeProducersResponse()
    for name, indexes in asked:
        topic = DescribeProducersResponse.TopicResponse(name=name)
        response.topics.append(topic)
        for index in indexes:
            topic.partitions.append((yield from _describe(parts, name, index)))
            yield
    return response


def _asked(request: DescribeProducersRequest) -> Steps[list[tuple[str, list[int]]]]:
    """The topics with their partitions; each once, if many are named more than once."""
    once: dict[str, dict[int, None]] = {}
    repeats = 0
    for topic in request.topics:
        indexes = once.setdefault(topic.name, {})
        before = len(indexes)
        indexes.update((yield from distinct(topic.partition_indexes)))
        repeats += len(topic.partition_indexes) - (len(indexes) - before)
        yield
    if repeats <= REPEATS_MAX:
        return [(topic.name, topic.partition_indexes) for topic in request.topics]
    return [(name, list(indexes)) for name, indexes in once.items()]


def _describe(parts: HostedParts, topic: str, index: int) -> Steps[_PartitionResponse]:
    try:
        log = _log(parts, topic, index)
    except KafkaError as error:
        return _PartitionResponse(partition_index=index, error_code=error.code, error_message=error.message)
    return _PartitionResponse(partition_index=index, active_producers=(yield from _producers(log)))


def _log(parts: HostedParts, topic: str, index: int) -> Log:
    reason = why_invalid(topic)
    if reason is not None:
        raise InvalidTopicException(f"Topic name is invalid: {reason}")
    if topic not in parts.image.topics_by_name:
        raise UnknownTopicOrPartition(f"Topic {topic} does not exist.")
    log = hosted_partition(parts, topic, index).log
    if log is None:
        raise KafkaStorageError(f"The log directory of {topic}-{index} is offline; see the log of this node.")
    return log


def _producers(log: Log) -> Steps[list[DescribeProducersResponse.ProducerState]]:
    found = []
    for entry in list(log.producers.entries.values()):
        first_offset = entry.transaction_first_offset
        found.append(
            DescribeProducersResponse.ProducerState(
                producer_id=entry.producer_id,
                producer_epoch=entry.epoch,
                last_sequence=entry.last_sequence,
                last_timestamp=entry.last_timestamp,
                coordinator_epoch=entry.coordinator_epoch,
                current_txn_start_offset=-1 if first_offset is None else first_offset,
            )
        )
        yield
    return found


API = Api(KEY, handle)
