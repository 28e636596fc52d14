"""The reading side of `ottla record consume`: from a start offset to the end or forever, alone or in a group.

Rule: the end is the end offset at the start of the command; later records are shown only when following. A
group commits exactly the records that were shown.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from ottla.cli.errors import Problem
from ottla.cli.records.positions import At, Position
from ottla.cli.records.values import BadValue
from ottla.client.values import TopicPartition
from ottla.records.consumer_record import ConsumerRecord

if TYPE_CHECKING:
    from ottla.client.consumer.consumer import Consumer

Record: TypeAlias = ConsumerRecord[bytes | None, bytes | None]
Write: TypeAlias = Callable[[bytes], object]

BEGINNING = Position(At.BEGINNING)
_POLL_RECORDS = 500
_POLL_SECONDS = 0.25
_JOIN_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What to read."""

    topics: tuple[str, ...]
    partitions: tuple[int, ...] = ()
    """All partitions if empty."""
    group: str | None = None
    start: Position = BEGINNING
    stop_ms: int | None = None
    last: int | None = None
    """Start with this many of the newest records, over all partitions and in order of time."""
    follows: bool = False
    count_max: int | None = None


class Reading:
    """Prints the records of a consumer, and counts the shown and the undecodable ones."""

    def __init__(
        self,
        consumer: Consumer[bytes | None, bytes | None],
        wanted: Wanted,
        show: Callable[[Record], bytes],
        *,
        write: Write,
        flush: Callable[[], object],
        matches: Callable[[Record], bool] | None = None,
    ) -> None:
        self.shown = 0
        self.unreadable = 0
        self._consumer = consumer
        self._wanted = wanted
        self._show = show
        self._write = write
        self._flush = flush
        self._matches = matches
        self._rest: list[Record] = []

    def run(self) -> None:
        """Print records until everything requested was shown."""
        wanted = self._wanted
        if wanted.count_max == 0:
            return
        if wanted.group is not None:
            self._consumer.subscribe(list(wanted.topics))
            self._print_group()
            return
        partitions = partitions_of(self._consumer, wanted)
        ends = self._consumer.end_offsets(partitions)
        starts = start_offsets(self._consumer, wanted, partitions, ends)
        stops = self._stops(partitions, ends)
        self._consumer.assign(partitions)
        for partition in partitions:
            self._consumer.seek(partition, starts[partition])
        if wanted.last is not None:
            self._print_last(wanted.last, starts, ends)
        if stops is None:
            while not self._is_enough():
                self._print(self._consumer.poll(_POLL_SECONDS, _POLL_RECORDS))
        elif wanted.last is None:
            self._print_up_to(starts, stops)

    def close(self) -> None:
        """Seek back to the first record not shown, so that it is not committed, and close."""
        first = {(record.topic, record.partition): record.offset for record in self._rest}
        if first and self._wanted.group is not None:
            for partition in self._consumer.assignment:
                if (partition.topic, partition.partition) in first:
                    self._consumer.seek(partition, first[partition.topic, partition.partition])
        self._consumer.close()

    def _stops(
        self, partitions: Collection[TopicPartition], ends: dict[TopicPartition, int]
    ) -> dict[TopicPartition, int] | None:
        """The stop offset of each partition; None for no stop."""
        if self._wanted.stop_ms is None:
            return None if self._wanted.follows else dict(ends)
        found = self._consumer.offsets_for_times(dict.fromkeys(partitions, self._wanted.stop_ms))
        return {
            partition: ends[partition] if (at := found[partition]) is None else at.offset
            for partition in partitions
        }

    def _print_group(self) -> None:
        """Print the partitions that the group assigns to this member; unless following, up to their ends."""
        ends: dict[TopicPartition, int] = {}
        began = time.monotonic()
        while not self._is_enough():
            records = self._consumer.poll(_POLL_SECONDS, self._poll_max())
            self._print(records)
            if self._wanted.follows or records:
                continue
            if not self._consumer.assignment:
                if time.monotonic() - began > _JOIN_SECONDS:
                    raise Problem(
                        f"Group {self._wanted.group} assigned no partition to this member: other members "
                        f"have them all. List them with: ottla group describe {self._wanted.group} "
                        "--members"
                    )
                continue
            new = [one for one in self._consumer.assignment if one not in ends]
            if new:
                ends |= self._consumer.end_offsets(new)
            if all(self._consumer.position(one) >= ends[one] for one in self._consumer.assignment):
                return

    def _poll_max(self) -> int:
        if self._wanted.count_max is None or self._matches is not None:
            return _POLL_RECORDS
        return min(_POLL_RECORDS, self._wanted.count_max - self.shown)

    def _print_up_to(self, starts: dict[TopicPartition, int], stops: dict[TopicPartition, int]) -> None:
        self._each_up_to(starts, stops, self._print)

    def _print_last(
        self, count: int, starts: dict[TopicPartition, int], ends: dict[TopicPartition, int]
    ) -> None:
        newest: list[Record] = []
        self._each_up_to(starts, ends, newest.extend)
        newest.sort(key=lambda record: (record.timestamp, record.partition, record.offset))
        self._print(newest[-count:] if count else [])

    def _each_up_to(
        self,
        starts: dict[TopicPartition, int],
        stops: dict[TopicPartition, int],
        take: Callable[[list[Record]], object],
    ) -> None:
        """Yield the records between starts and stops; a log may end with control records."""
        open_partitions = {one for one, stop in stops.items() if starts[one] < stop}
        while open_partitions and not self._is_enough():
            polled = self._consumer.poll(_POLL_SECONDS, _POLL_RECORDS)
            before: list[Record] = []
            beyond: dict[TopicPartition, int] = {}
            for record in polled:
                partition = TopicPartition(record.topic, record.partition)
                if record.offset < stops[partition]:
                    before.append(record)
                else:
                    beyond.setdefault(partition, record.offset)
                if record.offset + 1 >= stops[partition]:
                    open_partitions.discard(partition)
            take(before)
            for partition, offset in beyond.items():
                self._consumer.seek(partition, offset)
            if not polled:
                open_partitions -= {
                    one for one in open_partitions if self._consumer.position(one) >= stops[one]
                }

    def _is_enough(self) -> bool:
        return self._wanted.count_max is not None and self.shown >= self._wanted.count_max

    def _print(self, records: Iterable[Record]) -> None:
        self._rest = [*records][::-1]
        while self._rest and not self._is_enough():
            record = self._rest.pop()
            if self._matches is not None and not self._matches(record):
                continue
            try:
                shown = self._show(record)
            except BadValue as error:
                self.unreadable += 1
                print(
                    f"ottla: {record.topic}-{record.partition} offset {record.offset}: {error}.",
                    file=sys.stderr,
                )
                continue
            self._write(shown)
            self.shown += 1
        self._flush()


def partitions_of(consumer: Consumer[bytes | None, bytes | None], wanted: Wanted) -> list[TopicPartition]:
    """The partitions to read; a missing topic or partition is a Problem."""
    found: list[TopicPartition] = []
    for topic in wanted.topics:
        there = sorted(consumer.partitions_for(topic))
        if not there:
            raise Problem(f"Unknown topic {topic}. List topics with: ottla topic list")
        numbers = {one.partition for one in there}
        missing = [number for number in wanted.partitions if number not in numbers]
        if missing:
            raise Problem(f"{topic} has no partition {missing[0]}; its last partition is {len(there) - 1}.")
        found += [one for one in there if not wanted.partitions or one.partition in wanted.partitions]
    return found


def start_offsets(
    consumer: Consumer[bytes | None, bytes | None],
    wanted: Wanted,
    partitions: list[TopicPartition],
    ends: dict[TopicPartition, int],
) -> dict[TopicPartition, int]:
    """The first offset to read of each partition."""
    start = Position(At.BEFORE_END, wanted.last) if wanted.last is not None else wanted.start
    if start.at is At.END:
        return dict(ends)
    if start.at is At.TIME:
        found = consumer.offsets_for_times(dict.fromkeys(partitions, start.number))
        return {one: ends[one] if (at := found[one]) is None else at.offset for one in partitions}
    beginnings = consumer.beginning_offsets(partitions)
    if start.at is At.OFFSET:
        return {one: min(max(start.number, beginnings[one]), ends[one]) for one in partitions}
    if start.at is At.BEFORE_END:
        return {one: max(beginnings[one], ends[one] - start.number) for one in partitions}
    return beginnings
