"""Builds record batches for target partitions from rows, before it is known which task sends them.

A task with rows of many partitions builds complete, compressed batches, so that a shuffle moves a few large
cells instead of every row. Rule: rows with a key go to the partition that Java's clients choose, rows of one
input partition and one target partition keep their order, and no Python runs per row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

import pyarrow as pa
import pyarrow.compute as pc

from ottla.client.producer.arrow import BATCH_BYTES
from ottla.records.arrow import rows_of
from ottla.records.batch import Codec
from ottla.records.builder import BatchBuilder, next_ratio
from ottla.spark.sink.columns import Columns, value_maker
from ottla.spark.sink.options import SinkOptions

if TYPE_CHECKING:
    from ottla.records.rows import Rows

_OPEN_BYTES = 64 << 20
"""The approximate limit for all open batches of a topic together."""
_BATCH_BYTES_MIN = 32 << 10
_LEVELS = ("gzip", "lz4", "zstd")


class BuiltBatch(NamedTuple):
    """A complete record batch for one partition."""

    topic: str
    partition: int
    records: int
    data: bytearray


def slot_of(topic: str, partition: int, slots: int) -> int:
    """The writer task that sends to a partition."""
    return (crc32(topic.encode()) + partition) % slots


class _TopicBuilder:
    """The open batches of one topic."""

    def __init__(self, topic: str, partition_count: int, codec: int, level: int | None, first: int) -> None:
        self._topic = topic
        self._count = partition_count
        self._codec = codec
        self._level = level
        self._size = max(_BATCH_BYTES_MIN, min(BATCH_BYTES, _OPEN_BYTES // (partition_count + 1)))
        self._ratio = 1.0
        self._open: dict[int, BatchBuilder] = {}
        self._keyless = first % partition_count
        """The partition of the next batch of rows that have neither key nor partition."""

    def add(self, rows: Rows) -> Iterator[BuiltBatch]:
        starts = rows.arrange(self._count)
        for place in range(len(starts) - 1):
            position, end = starts[place], starts[place + 1]
            while position < end:
                builder = self._open.get(place)
                if builder is None:
                    builder = self._open[place] = BatchBuilder(
                        codec=self._codec, level=self._level, batch_size=self._size, ratio=self._ratio
                    )
                position = builder.append_rows(rows, position, end)
                if position < end:
                    del self._open[place]
                    yield self._close(place, builder)

    def finish(self) -> Iterator[BuiltBatch]:
        for place, builder in sorted(self._open.items()):
            yield self._close(place, builder)
        self._open.clear()

    def _close(self, place: int, builder: BatchBuilder) -> BuiltBatch:
        data = builder.build()
        if self._codec:
            self._ratio = next_ratio(self._ratio, builder.ratio)
        partition = place - 1
        if not place:
            partition = self._keyless
            self._keyless = (self._keyless + 1) % self._count
        return BuiltBatch(self._topic, partition, builder.count, data)


class RowBuilder:
    """Builds the batches of one task. `first` is the task's number, so that tasks start at different
    partitions."""

    def __init__(
        self,
        options: SinkOptions,
        columns: Columns,
        count_of: Callable[[str], int],
        now_ms: Callable[[], int],
        first: int,
    ) -> None:
        self._options = options
        self._columns = columns
        self._count_of = count_of
        self._now_ms = now_ms
        self._first = first
        self._with_value = value_maker(columns, options)
        name = options.client.get("compression.type", "none")
        self._codec = int(Codec.from_name(name))
        level = options.client.get(f"compression.{name}.level") if name in _LEVELS else None
        self._level = None if level is None else int(level)
        self._topics: dict[str, _TopicBuilder] = {}

    def add(self, batch: pa.RecordBatch) -> Iterator[BuiltBatch]:
        """Add rows; yield the batches that are full."""
        if not batch.num_rows:
            return
        if self._columns.topic is None:
            assert self._options.topic is not None
            yield from self._add(self._options.topic, batch)
            return
        names = batch.column(self._columns.topic)
        for name in pc.unique(names).to_pylist():
            if not name:
                raise ValueError("A row has no topic: its column topic is null or empty.")
            yield from self._add(name, batch.filter(pc.equal(names, name)))

    def finish(self) -> Iterator[BuiltBatch]:
        """Yield the remaining batches."""
        for topic in self._topics.values():
            yield from topic.finish()

    def _add(self, topic: str, batch: pa.RecordBatch) -> Iterator[BuiltBatch]:
        builder = self._topics.get(topic)
        if builder is None:
            count = self._count_of(topic)
            builder = self._topics[topic] = _TopicBuilder(topic, count, self._codec, self._level, self._first)
        columns = self._columns
        rows = rows_of(
            self._with_value(batch),
            key=columns.key,
            value=columns.value,
            headers=columns.headers,
            partition=columns.partition,
            timestamp=columns.timestamp,
            now_ms=self._now_ms(),
        )
        yield from builder.add(rows)
