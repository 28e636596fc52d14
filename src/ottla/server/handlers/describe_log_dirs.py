"""DescribeLogDirs (35), versions 1 to 5.

Answers with every log directory of this node: the size and the lag of the replicas in it (of those that are
named, or of all where the list is null), also of copies on their way from another directory. An offline
directory is KAFKA_STORAGE_ERROR.

v3 an error code for the whole; v4 total and usable bytes of the file system; v5 whether it is cordoned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.server.dispatch import Api, RequestContext
from ottla.wire.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse

if TYPE_CHECKING:
    from ottla.log.directories import DirectoryReport
    from ottla.server.broker import Broker

KEY = 35

_Result = DescribeLogDirsResponse.DescribeLogDirsResult
_Topic = DescribeLogDirsResponse.DescribeLogDirsTopic
_Partition = DescribeLogDirsResponse.DescribeLogDirsPartition


def handle(
    broker: Broker, request: DescribeLogDirsRequest, context: RequestContext
) -> DescribeLogDirsResponse:
    asked = None
    if request.topics is not None:
        asked = {(topic.topic, index) for topic in request.topics for index in topic.partitions}
    return DescribeLogDirsResponse(
        results=[_described(report, asked) for report in broker.directories.describe()]
    )


def _described(report: DirectoryReport, asked: set[tuple[str, int]] | None) -> _Result:
    if report.error_code:
        return _Result(error_code=report.error_code, log_dir=report.path)
    topics: dict[str, list[_Partition]] = {}
    for replica in report.replicas:
        if asked is None or (replica.topic, replica.partition) in asked:
            topics.setdefault(replica.topic, []).append(
                _Partition(
                    partition_index=replica.partition,
                    partition_size=replica.size_bytes,
                    offset_lag=replica.offset_lag,
                    is_future_key=replica.is_future,
                )
            )
    return _Result(
        log_dir=report.path,
        topics=[_Topic(name=name, partitions=partitions) for name, partitions in topics.items()],
        total_bytes=report.total_bytes,
        usable_bytes=report.usable_bytes,
        is_cordoned=report.is_cordoned,
    )


API = Api(KEY, handle)
