"""What DescribeLogDirs reports of the log directories."""

from __future__ import annotations

from typing import NamedTuple

from ottla.log.directories.disk_errors import DiskErrors
from ottla.log.directories.hosted_logs import HostedLogs
from ottla.log.directories.log_directory import LogDirectory
from ottla.ports import Disk
from ottla.wire.errors import ErrorCode


class ReplicaReport(NamedTuple):
    topic: str
    partition: int
    size_bytes: int
    offset_lag: int
    is_future: bool


class DirectoryReport(NamedTuple):
    path: str
    id: bytes
    error_code: ErrorCode
    total_bytes: int
    usable_bytes: int
    is_cordoned: bool
    replicas: list[ReplicaReport]


def describe(disk: Disk, hosted: HostedLogs, errors: DiskErrors) -> list[DirectoryReport]:
    """Every directory with its replicas, as DescribeLogDirs shows them."""
    return [_describe(directory, disk, hosted, errors) for directory in hosted.directories]


def _describe(directory: LogDirectory, disk: Disk, hosted: HostedLogs, errors: DiskErrors) -> DirectoryReport:
    total = usable = -1
    if directory.online:
        try:
            total, usable = disk.space(directory.path)
        except OSError as error:
            errors.note_failure(directory, error)
    code = ErrorCode.NONE if directory.online else ErrorCode.KAFKA_STORAGE_ERROR
    replicas = []
    for log in hosted.logs_in(directory):
        current = hosted.logs.get((log.topic, log.partition))
        is_future = current is not log
        # A copy lags behind its log's end; a log may lag behind a watermark that it has from a leader.
        goal = log.high_watermark if current is None or not is_future else current.log_end_offset
        lag = max(0, goal - log.log_end_offset)
        replicas.append(ReplicaReport(log.topic, log.partition, log.size_bytes, lag, is_future))
    return DirectoryReport(directory.path, directory.id, code, total, usable, directory.cordoned, replicas)
