"""DescribeLogDirs (35), versions 1 to 5.

Returns every log directory of this node with the size and lag of its replicas (of the named ones, or of all
if the list is null), including replicas that are being moved to it. An offline directory is
KAFKA_STORAGE_ERROR. v3 adds an error code for the whole; v4 total and usable bytes of the file system; v5
whether it is cordoned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.server.net.dispatch import Api, RequestContext
from ottla.server.net.long_requests import Steps, distinct
from ottla.wire.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse

if TYPE_CHECKING:
    from ottla.log.directories.description import DirectoryReport
    from ottla.server.parts import HasDirectories

KEY = 35

_Result = DescribeLogDirsResponse.DescribeLogDirsResult
_Topic = DescribeLogDirsResponse.DescribeLogDirsTopic
_Partition = DescribeLogDirsResponse.DescribeLogDirsPartition


def handle(
    parts: HasDirectories, request: DescribeLogDirsRequest, context: RequestContext
) -> Steps[DescribeLogDirsResponse]:
    asked: dict[str, set[int]] | None = None
    if request.topics is not None:
        asked = {}
        for topic in request.topics:
            asked.setdefault(topic.topic, set()).update((yield from distinct(topic.partitions)))
    response = DescribeLogDirsResponse()
    for report in parts.directories.describe():
        response.results.append((yield from _described(report, asked)))
    return response


def _described(report: DirectoryReport, asked: dict[str, set[int]] | None) -> Steps[_Result]:
    if report.error_code:
        return _Result(error_code=report.error_code, log_dir=report.path)
    topics: dict[str, list[_Partition]] = {}
    for replica in report.replicas:
        yield
        if asked is None or replica.partition in asked.get(replica.topic, ()):
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
