"""OffsetForLeaderEpoch (23), versions 2 to 4.

Returns the end of an epoch in this leader's log: the largest epoch up to the requested one, and the offset
after its last record. A follower or a consumer uses it to find where its log and the leader's diverge. Epoch
and offset are -1 if the log has no such epoch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.server.net.dispatch import Api, RequestContext
from ottla.server.net.long_requests import Steps
from ottla.server.replicas.partition import hosted_partition
from ottla.wire.errors import KafkaError
from ottla.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)

if TYPE_CHECKING:
    from ottla.server.replicas.partition import HostedParts

KEY = 23

_Answer = OffsetForLeaderEpochResponse.EpochEndOffset


def handle(
    parts: HostedParts, request: OffsetForLeaderEpochRequest, context: RequestContext
) -> Steps[OffsetForLeaderEpochResponse]:
    response = OffsetForLeaderEpochResponse()
    for topic in request.topics:
        found = OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult(topic=topic.topic)
        response.topics.append(found)
        for asked in topic.partitions:
            found.partitions.append(_answer(parts, topic.topic, asked))
            yield
        yield
    return response


def _answer(
    parts: HostedParts, topic: str, asked: OffsetForLeaderEpochRequest.OffsetForLeaderPartition
) -> _Answer:
    try:
        log = hosted_partition(parts, topic, asked.partition).leader_log(asked.current_leader_epoch)
    except KafkaError as error:
        return _Answer(error_code=error.code, partition=asked.partition)
    epoch, end_offset = log.end_offset_for_epoch(asked.leader_epoch)
    return _Answer(partition=asked.partition, leader_epoch=epoch, end_offset=end_offset)


API = Api(KEY, handle)
