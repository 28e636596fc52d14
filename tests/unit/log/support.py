"""Shared by tests of the log: a clock to set, batches, logs on real files, a disk that fails on demand."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ottla.host import HostDisk, HostFile
from ottla.log.config import LogConfig
from ottla.log.log import Appended, Log
from ottla.ports import Buffer
from ottla.records.batch import Codec, iterate_headers
from ottla.records.control import end_txn_marker
from ottla.records.record import Record, build_batch, read_records
from ottla.records.validate import Origin

START_MS = 1_700_000_000_000
TOPIC_ID = bytes(range(16))


class FakeClock:
    """A clock that only a test advances."""

    def __init__(self, now_ms: int = START_MS) -> None:
        self.time_ms = now_ms

    def now_ms(self) -> int:
        return self.time_ms

    def monotonic(self) -> float:
        return self.time_ms / 1000


class FaultyDisk(HostDisk):
    """A real disk whose operations fail when `fault(operation, path)` returns an errno."""

    def __init__(self) -> None:
        super().__init__(threads=1)
        self.fault: Callable[[str, str], int] = lambda operation, path: 0
        self.operations: list[tuple[str, str]] = []

    def check(self, operation: str, path: str) -> None:
        self.operations.append((operation, os.path.basename(path)))
        code = self.fault(operation, path)
        if code:
            raise OSError(code, os.strerror(code), path)

    def open(self, path: str, *, create: bool = False, exclusive: bool = False) -> HostFile:
        self.check("create" if create and not os.path.exists(path) else "open", path)
        flags = os.O_RDWR | (os.O_CREAT if create else 0) | (os.O_EXCL if exclusive else 0)
        return FaultyFile(self, path, os.open(path, flags, 0o644))

    def replace(self, path: str, content: Buffer, *, sync: bool = True) -> None:
        self.check("replace", path)
        super().replace(path, content, sync=sync)

    def rename(self, old: str, new: str) -> None:
        self.check("rename", old)
        super().rename(old, new)

    def sync_directory(self, path: str) -> None:
        self.check("sync_directory", path)
        super().sync_directory(path)

    def fail_on(self, operation: str, suffix: str, code: int = errno.ENOSPC) -> None:
        self.fault = lambda asked, path: code if asked == operation and path.endswith(suffix) else 0

    def heal(self) -> None:
        self.fault = lambda operation, path: 0


class FaultyFile(HostFile):
    """A file that writes half of the bytes before it raises an error."""

    __slots__ = ("_disk",)

    def __init__(self, disk: FaultyDisk, path: str, descriptor: int) -> None:
        super().__init__(path, descriptor)
        self._disk = disk

    def pwrite(self, buffers: Sequence[Buffer], position: int) -> int:
        try:
            self._disk.check("write", self.path)
        except OSError:
            whole = b"".join(buffers)
            super().pwrite([whole[: len(whole) // 2]], position)
            raise
        return super().pwrite(buffers, position)

    def pread(self, count: int, position: int) -> bytes:
        self._disk.check("pread", self.path)
        return super().pread(count, position)

    def fsync(self) -> None:
        self._disk.check("fsync", self.path)
        super().fsync()

    def truncate(self, size: int) -> None:
        self._disk.check("truncate", self.path)
        super().truncate(size)


def records_of(
    count: int, *, timestamp: int = START_MS, value: bytes = b"value", step_ms: int = 0
) -> list[Record]:
    return [Record(index, timestamp + index * step_ms, b"key%d" % index, value) for index in range(count)]


def batch(
    count: int = 1, *, codec: Codec = Codec.NONE, timestamp: int = START_MS, **options: Any
) -> memoryview:
    """A produced batch of `count` records."""
    value = options.pop("value", b"value")
    step_ms = options.pop("step_ms", 0)
    records = records_of(count, timestamp=timestamp, value=value, step_ms=step_ms)
    return memoryview(build_batch(records, codec=codec, **options))


def produced(
    producer_id: int,
    sequence: int,
    count: int = 1,
    *,
    epoch: int = 0,
    transactional: bool = False,
    **options: Any,
) -> memoryview:
    """A batch of an idempotent or transactional producer."""
    return batch(
        count,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=transactional,
        **options,
    )


def marker(
    producer_id: int, *, commit: bool, epoch: int = 0, coordinator_epoch: int = 0, timestamp: int = START_MS
) -> memoryview:
    """A transaction marker as a coordinator writes it."""
    return memoryview(
        end_txn_marker(
            commit=commit,
            producer_id=producer_id,
            producer_epoch=epoch,
            coordinator_epoch=coordinator_epoch,
            timestamp=timestamp,
        )
    )


class Bench:
    """One log in a temporary directory, which a test opens, closes and reopens."""

    def __init__(self, path: Path, config: LogConfig | None = None, disk: HostDisk | None = None) -> None:
        self.disk = disk or HostDisk(threads=1)
        self.clock = FakeClock()
        self.config = config or LogConfig()
        self.directory = str(path / "topic-0")
        self.logs: list[Log] = []

    def open(self, **options: Any) -> Log:
        options.setdefault("topic", "topic")
        options.setdefault("partition", 0)
        options.setdefault("topic_id", TOPIC_ID)
        config = options.pop("config", self.config)
        log = Log.open(self.disk, self.clock, self.directory, config, **options)
        self.logs.append(log)
        return log

    def reopen(self, log: Log, *, clean: bool = True, **options: Any) -> Log:
        """Stop the log, cleanly or as kill -9 does, and open it again."""
        recovery_point, log_start_offset = log.recovery_point, log.log_start_offset
        if clean:
            log.flush()
            recovery_point = log.log_end_offset
        log.close(clean=clean)
        options.setdefault("recovery_point", recovery_point)
        options.setdefault("log_start_offset", log_start_offset)
        return self.open(clean=clean, **options)

    def close(self) -> None:
        for log in self.logs:
            log.close(clean=False)
        self.disk.close()

    def names(self, suffix: str = "") -> list[str]:
        return [name for name in self.disk.list(self.directory) if name.endswith(suffix)]

    def path(self, name: str) -> Path:
        return Path(self.directory) / name


def append(log: Log, records: memoryview, *, origin: Origin = Origin.CLIENT, **options: Any) -> Appended:
    """Append and let the high watermark follow, as a single replica does."""
    options.setdefault("leader_epoch", max(log.epochs.latest_epoch, 0))
    options.setdefault("now_ms", START_MS)
    appended = log.append(records, origin=origin, **options)
    log.advance_high_watermark(log.log_end_offset)
    return appended


def end_transaction(log: Log, producer_id: int, *, commit: bool, **options: Any) -> Appended:
    return append(log, marker(producer_id, commit=commit, **options), origin=Origin.COORDINATOR)


def read_all(log: Log, first_offset: int | None = None, *, max_bytes: int = 1 << 20) -> list[Record]:
    """Every record from `first_offset` to the end, as a consumer would read them."""
    offset = log.log_start_offset if first_offset is None else first_offset
    found: list[Record] = []
    while offset < log.log_end_offset:
        data = log.read(offset, max_bytes, limit_offset=log.log_end_offset).records
        headers = [header for _, header in iterate_headers(data)]
        if not headers:
            break
        found.extend(record for record in read_records(data) if record.offset >= offset)
        offset = headers[-1].next_offset
    return found
