"""Verifies log directories: every batch, every index entry, and their consistency.

Rule: anything that a broker cannot read or would truncate at its next start is a problem; an incomplete batch
at the end of the newest segment is a remark, since a broker may be writing it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ottla.cli.logs.contents import (
    Damage,
    Row,
    base_offset_of,
    batches,
    contents_of,
    index_entries,
    is_known,
    time_entries,
)
from ottla.host import map_for_reading
from ottla.ports import Buffer
from ottla.records.batch import BatchHeader
from ottla.records.record import read_batch
from ottla.wire.errors import KafkaError


@dataclass(slots=True)
class Verdict:
    """What was verified, and the findings."""

    directories: int = 0
    files: int = 0
    batches: int = 0
    records: int = 0
    bytes: int = 0
    problems: list[Damage] = field(default_factory=list)
    remarks: list[Damage] = field(default_factory=list)


def verify(path: Path, *, reads_records: bool = False) -> Verdict:
    """Verify a file, a partition directory, or a whole log directory."""
    verdict = Verdict()
    if path.is_file():
        _verify_directory(path.parent, [path.name], verdict, reads_records)
        return verdict
    for directory, _, names in os.walk(path):
        if any(is_known(Path(name)) for name in names):
            verdict.directories += 1
            _verify_directory(Path(directory), sorted(names), verdict, reads_records)
    return verdict


def _verify_directory(directory: Path, names: list[str], verdict: Verdict, reads_records: bool) -> None:
    logs = sorted(directory / name for name in names if name.endswith(".log") and name[:-4].isdecimal())
    next_offset = None
    for path in logs:
        check = _Segment(path, verdict, reads_records, is_newest=path == logs[-1])
        if next_offset is not None and base_offset_of(path) < next_offset:
            check.problem("", f"it overlaps the previous segment, which ends at offset {next_offset}")
        next_offset = check.run()
    for name in names:
        path = directory / name
        if path in logs or not is_known(path):
            continue
        verdict.files += 1
        verdict.bytes += path.stat().st_size
        found = contents_of(path)
        for _ in found.rows:
            pass
        verdict.problems += found.damages


class _Segment:
    """One segment: its log, and its indexes against the log."""

    def __init__(self, path: Path, verdict: Verdict, reads_records: bool, *, is_newest: bool) -> None:
        self._path = path
        self._verdict = verdict
        self._reads_records = reads_records
        self._is_newest = is_newest
        self._base_offset = base_offset_of(path)

    def problem(self, place: str, cause: str, path: Path | None = None) -> None:
        self._verdict.problems.append(Damage(str(path or self._path), place, cause))

    def run(self) -> int:
        """Verify the segment and return its end offset."""
        index_path = self._path.with_suffix(".index")
        indexed = {position: offset for offset, position in self._entries(index_path)}
        damages: list[Damage] = []
        next_offset, time_max = self._base_offset, -1
        verdict = self._verdict
        verdict.files += 1
        buffer = map_for_reading(self._path)
        verdict.bytes += len(buffer)
        for position, header, is_right in batches(self._path, buffer, damages):
            verdict.batches += 1
            verdict.records += max(header.record_count, 0)
            self._check_order(position, header, next_offset)
            expected = indexed.pop(position, None)
            if expected is not None and expected != header.last_offset:
                self.problem(
                    f"offset {expected}",
                    f"offset {header.last_offset} is at its byte {position}",
                    index_path,
                )
            if is_right and self._reads_records:
                self._check_records(buffer, position, header)
            next_offset = max(next_offset, header.next_offset)
            time_max = max(time_max, header.max_timestamp)
        for position, offset in indexed.items():
            self.problem(
                f"offset {offset}",
                f"it points to byte {position}, which is not the start of a batch",
                index_path,
            )
        self._check_times(next_offset, time_max)
        for damage in damages:
            is_unfinished = self._is_newest and "not a complete batch" in damage.cause
            (verdict.remarks if is_unfinished else verdict.problems).append(damage)
        return next_offset

    def _entries(self, path: Path) -> Iterator[tuple[int, int]]:
        return index_entries(path) if path.exists() else iter(())

    def _check_order(self, position: int, header: BatchHeader, next_offset: int) -> None:
        if header.last_offset < next_offset or (header.magic >= 2 and header.base_offset < next_offset):
            self.problem(
                f"byte {position}",
                f"the batch of offset {header.base_offset} follows offset {next_offset - 1}",
            )

    def _check_records(self, buffer: Buffer, position: int, header: BatchHeader) -> None:
        try:
            read_batch(buffer, position, header, verify=False)
        except (KafkaError, ValueError) as error:
            place = f"byte {position} (offset {header.base_offset})"
            self.problem(place, f"its records cannot be read: {error}".rstrip("."))

    def _check_times(self, next_offset: int, time_max: int) -> None:
        path = self._path.with_suffix(".timeindex")
        if not path.exists():
            return
        for timestamp, offset in time_entries(path):
            if offset >= max(next_offset, self._base_offset + 1) or timestamp > time_max:
                self.problem(
                    f"offset {offset}",
                    f"the segment ends at offset {next_offset}, and its largest timestamp is {time_max}",
                    path,
                )
                return


def summary_rows(directory: Path) -> list[Row]:
    """The segments in the directory of a partition, or the partitions in a log directory."""
    logs = sorted(path for path in directory.glob("*.log") if path.stem.isdecimal())
    if logs:
        return [_segment_row(path) for path in logs]
    partitions = [path for path in directory.iterdir() if any(path.glob("*.log"))]
    return [_partition_row(path) for path in sorted(partitions, key=_by_partition)]


def _by_partition(path: Path) -> tuple[str, int]:
    topic, _, number = path.name.rpartition("-")
    return (topic, int(number)) if number.isdecimal() else (path.name, -1)


def _segment_row(path: Path) -> Row:
    damages: list[Damage] = []
    count, records, next_offset, time_max = 0, 0, base_offset_of(path), -1
    buffer = map_for_reading(path)
    size = len(buffer)
    for _, header, _ in batches(path, buffer, damages):
        count += 1
        records += max(header.record_count, 0)
        next_offset = max(next_offset, header.next_offset)
        time_max = max(time_max, header.max_timestamp)
    return {
        "segment": path.name,
        "first_offset": base_offset_of(path),
        "next_offset": next_offset,
        "batches": count,
        "records": records,
        "bytes": size,
        "newest_time": time_max if time_max >= 0 else None,
        "damages": [str(damage) for damage in damages],
    }


def _partition_row(directory: Path) -> Row:
    segments = [path for path in directory.glob("*.log") if path.stem.isdecimal()]
    return {
        "partition": directory.name,
        "segments": len(segments),
        "first_offset": min((base_offset_of(path) for path in segments), default=0),
        "bytes": sum(path.stat().st_size for path in segments),
    }
