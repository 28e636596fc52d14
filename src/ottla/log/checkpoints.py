"""The offset checkpoints of a log directory: text files that give one offset for each partition.

The first line is the version (0), the second the number of entries, then one line `topic partition offset`
for each. The rule: a damaged file is an error that names file, line and cause, never a shorter list: the
caller decides what follows from a missing entry (a scan, a recovery from zero).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import NoReturn, TypeAlias

from ottla.log.offload import outlast
from ottla.ports import Disk

Partition: TypeAlias = tuple[str, int]
"""(topic, partition)"""

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
CLEANED = "cleaner-offset-checkpoint"

CONTIGUOUS: Partition = ("(contiguous)", 0)
"""An entry among the recovery points that is no partition. It means: above these recovery points every
segment began where the one before it ended. Kafka, whose logs may have gaps there, drops it with its next
write."""

VERSION = 0
_PARTITION_MAX = 2**31 - 1
_OFFSET_MAX = 2**63 - 1


class CheckpointError(ValueError):
    """A damaged checkpoint file; the message names file, line and cause."""


def parse(text: str, path: str) -> dict[Partition, int]:
    """The offsets in a checkpoint; `path` is for error messages. A file of no bytes holds no entry."""
    lines = text.split("\n")
    if lines[-1]:
        _refuse(path, len(lines), "the last line is incomplete")
    lines.pop()
    if not lines:
        return {}
    version = _number(lines[0], path, 1, "the version", -_PARTITION_MAX, _PARTITION_MAX)
    if version != VERSION:
        _refuse(path, 1, f"version {version} is not supported, only {VERSION} is")
    if len(lines) == 1:
        _refuse(path, 2, "the number of entries is missing")
    count = _number(lines[1], path, 2, "the number of entries", 0, _PARTITION_MAX)
    offsets: dict[Partition, int] = {}
    for number, line in enumerate(lines[2:], 3):
        words = line.split()
        if len(words) != 3:
            _refuse(path, number, f"{line[:80]!r} is not `topic partition offset`")
        partition = (words[0], _number(words[1], path, number, "the partition", 0, _PARTITION_MAX))
        if partition in offsets:
            _refuse(path, number, f"partition {words[0]}-{words[1]} occurs twice")
        offsets[partition] = _number(words[2], path, number, "the offset", 0, _OFFSET_MAX)
    if len(offsets) != count:
        _refuse(path, 2, f"the file declares {count} entries but contains {len(offsets)}")
    return offsets


def format(offsets: Mapping[Partition, int]) -> str:
    lines = [f"{VERSION}\n{len(offsets)}\n"]
    lines += [f"{topic} {partition} {offset}\n" for (topic, partition), offset in offsets.items()]
    return "".join(lines)


def read(disk: Disk, path: str) -> dict[Partition, int]:
    """The offsets in the file at `path`; none if it is not there. Blocks."""
    return decode(disk.read(path), path) if disk.exists(path) else {}


def decode(content: bytes, path: str) -> dict[Partition, int]:
    """The offsets in the bytes of a file."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{path} is damaged: byte {error.start} is not UTF-8 text.") from error
    return parse(text, path)


def write(disk: Disk, path: str, offsets: Mapping[Partition, int]) -> None:
    """Replace the file at `path`, all or nothing, down to stable storage. Blocks."""
    disk.replace(path, format(offsets).encode("utf-8"))


class CheckpointFile:
    """A checkpoint file: one writer at a time, and no write if nothing has changed."""

    __slots__ = ("_disk", "_lock", "_path", "_written", "known")

    def __init__(self, disk: Disk, path: str, written: Mapping[Partition, int] | None = None) -> None:
        """`written` are the contents of the file, if they are known."""
        self._disk = disk
        self._path = path
        self._lock = asyncio.Lock()
        self.known: Mapping[Partition, int] = dict(written or {})
        """The contents of the file since the last successful write."""
        self._written = None if written is None else dict(written)

    async def write(self, gather: Callable[[], Mapping[Partition, int]]) -> None:
        """Wait for other writers, then write what `gather` returns. May raise OSError."""
        async with self._lock:
            offsets = dict(gather())
            if offsets == self._written:
                return
            self._written = None
            await outlast(self._disk, write, self._disk, self._path, offsets)
            self._written = self.known = offsets


def _number(text: str, path: str, line: int, what: str, low: int, high: int) -> int:
    digits = text[1:] if text[:1] in ("-", "+") else text
    # No digits but ASCII ones, and a bound on their count: int() would take far more than Kafka does.
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 20 and low <= int(text) <= high):
        _refuse(path, line, f"{what} is {text[:80]!r}, not a number from {low} to {high}")
    return int(text)


def _refuse(path: str, line: int, cause: str) -> NoReturn:
    raise CheckpointError(f"{path} is damaged in line {line}: {cause}.")
