"""How much a batch reads, and how its ranges become tasks. Pure: numbers in, numbers out.

Rules: a plan covers each range exactly once, tasks are in the order of topics, partitions and offsets, and a
limit is kept as long as it allows one record. Sizes in bytes are estimates, from the size of the logs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from ottla.client.values import Range, TopicPartition
from ottla.wire.uuid import ZERO

Offsets = Mapping[TopicPartition, int]


class Shape(NamedTuple):
    """What tasks should be like."""

    tasks_min: int | None = None
    records_max: int = 1_000_000
    records_min: int = 10_000
    bytes_max: int | None = None


def spans_between(start: Offsets, end: Offsets, ids: Mapping[str, bytes] | None = None) -> list[Range]:
    """What lies between two offsets of a stream, partition by partition."""
    return [
        Range(key.topic, key.partition, start[key], end[key], (ids or {}).get(key.topic, ZERO))
        for key in sorted(end)
        if key in start and start[key] < end[key]
    ]


def available(start: Offsets, latest: Offsets) -> int:
    """How many offsets are there to be read."""
    return sum(max(latest[key] - start[key], 0) for key in latest if key in start)


def limited(start: Offsets, latest: Offsets, records_max: int) -> dict[TopicPartition, int]:
    """Where to end when at most so many offsets are read: each partition gives by what it has waiting."""
    waiting = {key: max(latest[key] - start[key], 0) for key in sorted(latest) if key in start}
    shares = _shares(waiting, records_max)
    return {key: start[key] + share for key, share in shares.items()}


def limited_bytes(
    start: Offsets, latest: Offsets, bytes_max: int, sizes: Mapping[TopicPartition, float]
) -> dict[TopicPartition, int]:
    """The same for bytes; `sizes` has the bytes of an offset, about."""
    waiting = {key: max(latest[key] - start[key], 0) for key in latest if key in start}
    total = sum(count * sizes.get(key, 0.0) for key, count in waiting.items())
    if total <= bytes_max:
        return {key: start[key] + count for key, count in waiting.items()}
    records = sum(waiting.values())
    return limited(start, latest, max(int(records * bytes_max / total), 1))


def _shares(waiting: Mapping[TopicPartition, int], most: int) -> dict[TopicPartition, int]:
    """`most` divided in proportion to what waits, without losing one to rounding."""
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
    """The ranges of each task: large ones are split, small ones share a task."""
    wanted = sorted(span for span in spans if span.records > 0)
    total = sum(span.records for span in wanted)
    pieces: list[list[Range]] = []
    records_min = shape.records_min
    if shape.tasks_min is not None and total:
        records_min = min(records_min, total // shape.tasks_min)
    joined: list[Range] = []
    for span in wanted:
        parts = _parts(span, shape, total, sizes or {})
        if parts == 1 and span.records < records_min:
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
    """A range in parts that differ by one record at most."""
    edges = [span.start + span.records * index // parts for index in range(parts + 1)]
    return [span._replace(start=low, end=high) for low, high in pairwise(edges) if low < high]
