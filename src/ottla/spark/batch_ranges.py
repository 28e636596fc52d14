"""Limits the size of a batch and splits its ranges into tasks. Pure: numbers in, numbers out.

Rules: a plan covers each offset exactly once; tasks are ordered by topic, partition and offset; a batch
exceeds its limit only if the limit is below one record. Sizes in bytes are estimates from the size of the
logs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from ottla.client.values import Range, TopicPartition
from ottla.wire.uuid import ZERO

Offsets = Mapping[TopicPartition, int]


class Shape(NamedTuple):
    """The limits of a task."""

    tasks_min: int | None = None
    records_max: int = 1_000_000
    records_min: int = 10_000
    bytes_max: int | None = None


def spans_between(start: Offsets, end: Offsets, ids: Mapping[str, bytes] | None = None) -> list[Range]:
    """The ranges between two stream offsets, one per partition."""
    return [
        Range(key.topic, key.partition, start[key], end[key], (ids or {}).get(key.topic, ZERO))
        for key in sorted(end)
        if key in start and start[key] < end[key]
    ]


def available(start: Offsets, latest: Offsets) -> int:
    """The number of unread offsets."""
    return sum(max(latest[key] - start[key], 0) for key in latest if key in start)


def limited(start: Offsets, latest: Offsets, records_max: int) -> dict[TopicPartition, int]:
    """The end offsets when a batch reads at most `records_max` offsets, divided by each partition's
    backlog."""
    waiting = {key: max(latest[key] - start[key], 0) for key in sorted(latest) if key in start}
    shares = _shares(waiting, records_max)
    return {key: start[key] + share for key, share in shares.items()}


def limited_bytes(
    start: Offsets, latest: Offsets, bytes_max: int, sizes: Mapping[TopicPartition, float]
) -> dict[TopicPartition, int]:
    """The same for bytes; `sizes` has the approximate bytes per offset."""
    waiting = {key: max(latest[key] - start[key], 0) for key in latest if key in start}
    total = sum(count * sizes.get(key, 0.0) for key, count in waiting.items())
    if total <= bytes_max:
        return {key: start[key] + count for key, count in waiting.items()}
    records = sum(waiting.values())
    return limited(start, latest, max(int(records * bytes_max / total), 1))


def _shares(waiting: Mapping[TopicPartition, int], most: int) -> dict[TopicPartition, int]:
    """Divide `most` in proportion to the backlogs, without losing one to rounding."""
    total = sum(waiting.values())
    if total <= most:
        return dict(waiting)
    shares = {key: count * most // total for key, count in waiting.items()}
    rest = most - sum(shares.values())
    by_remainder = sorted(waiting, key=lambda key: (-(waiting[key] * most % total), key))
    for key in by_remainder[:rest]:
        shares[key] += 1
    return shares


def tasks(
    spans: Iterable[Range], shape: Shape, sizes: Mapping[TopicPartition, float] | None = None
) -> list[list[Range]]:
    """Split large ranges and combine small ones; return the ranges of each task."""
    wanted = sorted(span for span in spans if span.records > 0)
    total = sum(span.records for span in wanted)
    pieces: list[list[Range]] = []
    records_min = shape.records_min
    joined_max = total
    if shape.tasks_min is not None and total:
        # No task may have more than its share of all records, or there would be too few tasks.
        joined_max = total // shape.tasks_min
        records_min = min(records_min, joined_max)
    joined: list[Range] = []
    for span in wanted:
        parts = _parts(span, shape, total, sizes or {})
        if parts == 1 and span.records < records_min:
            if sum(one.records for one in joined) + span.records > joined_max:
                pieces.append(joined)
                joined = []
            joined.append(span)
            if sum(one.records for one in joined) >= records_min:
                pieces.append(joined)
                joined = []
            continue
        pieces.extend([part] for part in split(span, parts))
    if joined:
        pieces.append(joined)
    return sorted(pieces)


def _parts(span: Range, shape: Shape, total: int, sizes: Mapping[TopicPartition, float]) -> int:
    parts = _ceiling(span.records, shape.records_max)
    if shape.bytes_max is not None:
        parts = max(parts, _ceiling(int(span.records * sizes.get(span.key, 0.0)), shape.bytes_max))
    if shape.tasks_min is not None:
        parts = max(parts, _ceiling(span.records * shape.tasks_min, total))
    return min(max(parts, 1), span.records)


def _ceiling(number: int, divisor: int) -> int:
    return -(-number // divisor)


def split(span: Range, parts: int) -> Sequence[Range]:
    """Split a range into parts whose sizes differ by at most one record."""
    edges = [span.start + span.records * index // parts for index in range(parts + 1)]
    return [span._replace(start=low, end=high) for low, high in pairwise(edges) if low < high]
