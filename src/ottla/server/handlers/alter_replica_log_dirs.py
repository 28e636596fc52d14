"""AlterReplicaLogDirs (34), versions 1 to 2.

Starts to move replicas to other log directories of this node; DescribeLogDirs shows the progress. A replica
that this node does not host yet is REPLICA_NOT_AVAILABLE, and is created in the requested directory later. A
directory that is not in `log.dirs` is LOG_DIR_NOT_FOUND, an offline one KAFKA_STORAGE_ERROR, a cordoned one
INVALID_REPLICA_ASSIGNMENT.
"""

from __future__ import annotations

import logging
from typing import Protocol

from ottla.server.net.dispatch import Api, RequestContext
from ottla.server.net.long_requests import Steps
from ottla.server.parts import HasDirectories, HasImage
from ottla.wire.errors import ErrorCode, InvalidTopicException, KafkaError, ReplicaNotAvailable
from ottla.wire.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse

KEY = 34

FILE_NAME_LENGTH_MAX = 255
REFUSALS_TOLD_MAX = 10
"""Of one request, in the log of the node."""

_SUFFIX_LENGTH = len(".0123456789abcdef0123456789abcdef-future")

_Partition = AlterReplicaLogDirsResponse.AlterReplicaLogDirPartitionResult

logger = logging.getLogger("ottla.server.log_directories")


class Parts(HasImage, HasDirectories, Protocol):
    """The parts of a node that AlterReplicaLogDirs needs."""


def handle(
    parts: Parts, request: AlterReplicaLogDirsRequest, context: RequestContext
) -> Steps[AlterReplicaLogDirsResponse]:
    results: dict[str, dict[int, ErrorCode]] = {}
    refused = 0
    for directory in request.dirs:
        for topic in directory.topics:
            for index in topic.partitions:
                code = _move(parts, topic.name, index, directory.path, is_told=refused < REFUSALS_TOLD_MAX)
                results.setdefault(topic.name, {})[index] = code
                refused += code is not ErrorCode.NONE
                yield
    if refused > REFUSALS_TOLD_MAX:
        logger.warning("Could not move %d other partitions of this request.", refused - REFUSALS_TOLD_MAX)
    response = AlterReplicaLogDirsResponse()
    for name, codes in results.items():
        found = AlterReplicaLogDirsResponse.AlterReplicaLogDirTopicResult(topic_name=name)
        response.results.append(found)
        for index, code in codes.items():
            found.partitions.append(_Partition(partition_index=index, error_code=code))
            yield
    return response


def _move(parts: Parts, topic: str, index: int, path: str, *, is_told: bool) -> ErrorCode:
    try:
        if len(f"{topic}-{index}") + _SUFFIX_LENGTH > FILE_NAME_LENGTH_MAX:
            raise InvalidTopicException(f"The topic name is too long for a move: {topic}")
        parts.directories.move(topic, index, path)
    except KafkaError as error:
        if is_told:
            logger.warning("Failed to move %s-%d to %s: %s", topic, index, path, error)
        if isinstance(error, ReplicaNotAvailable) and parts.image.partition(topic, index) is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return error.code
    return ErrorCode.NONE


API = Api(KEY, handle)
