"""The sink's work in Spark tasks: build batches, send them in the driver's transaction, report.

These small values are pickled to the executors. Rules: only `Send` and `BuildAndSend` reach a broker, and
they refuse to run twice within one transaction, because a partition's sequence numbers start at 0 only once
there; Spark may repeat the building as often as it likes. One task sends to a partition, or, on one machine,
several tasks take turns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from ottla.client.core.transactions import Handle
from ottla.client.errors import AbortableError
from ottla.client.producer.producer import Producer
from ottla.host import HostClock
from ottla.spark.sink.columns import Columns
from ottla.spark.sink.errors import RetryRefused
from ottla.spark.sink.options import SinkOptions
from ottla.spark.sink.row_builder import BuiltBatch, RowBuilder, slot_of
from ottla.spark.sink.turns import Turns, TurnSender

BUILT_SCHEMA = "slot int, topic string, partition int, records int, data binary"
_BUILT = pa.schema(
    [
        ("slot", pa.int32()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("records", pa.int32()),
        ("data", pa.binary()),
    ]
)
REPORT_SCHEMA = (
    "topic string, partition int, records long, bytes long, "
    "producer_id long, producer_epoch int, stage int, task long"
)
_REPORT = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("records", pa.int64()),
        ("bytes", pa.int64()),
        ("producer_id", pa.int64()),
        ("producer_epoch", pa.int32()),
        ("stage", pa.int32()),
        ("task", pa.int64()),
    ]
)
TOO_MUCH = -1
_GROUP_BYTES = 4 << 20
"""The bytes of built batches that are passed to Spark at once."""

QUERY_ID = "sql.streaming.queryId"
"""Spark's local property with the id of the query that a task belongs to."""


def task_number() -> int:
    """The task's number within its stage; 0 outside a task."""
    context = _context()
    return 0 if context is None else context.partitionId()


def local_property(name: str) -> str | None:
    """A property that the driver set for this task."""
    context = _context()
    value: str | None = None if context is None else context.getLocalProperty(name)
    return value


def _context() -> Any:
    from pyspark import TaskContext

    return TaskContext.get()


@contextmanager
def partition_counts(options: SinkOptions, known: Mapping[str, int]) -> Iterator[Callable[[str], int]]:
    """A function that returns the partition count of a topic; it asks the brokers for unknown topics."""
    counts = dict(known)
    asked: list[Producer] = []

    def count_of(topic: str) -> int:
        if topic not in counts:
            if not asked:
                asked.append(Producer(dict(options.client)))
            counts[topic] = asked[0].partitions_for(topic)
        return counts[topic]

    try:
        yield count_of
    finally:
        for producer in asked:
            producer.close(timeout=0)


def built_of(tables: Iterable[pa.RecordBatch]) -> Iterator[BuiltBatch]:
    """Decode the output of `Build` when Spark returns it."""
    for table in tables:
        columns = (table["topic"], table["partition"], table["records"], table["data"])
        for topic, partition, records, data in zip(*columns, strict=True):
            yield BuiltBatch(topic.as_py(), partition.as_py(), records.as_py(), data.as_buffer())


@dataclass(frozen=True, slots=True)
class Build:
    """Builds batches from the rows of an input partition."""

    options: SinkOptions
    columns: Columns
    counts: Mapping[str, int]
    slots: int = 1
    bytes_max: int | None = None
    """The limit, above which `Build` gives up: it yields `TOO_MUCH` as the slot, and the output is
    discarded."""
    first: int | None = None
    """The first partition for rows without a key; None uses the task's number."""

    def built(self, rows: Iterable[pa.RecordBatch]) -> Iterator[BuiltBatch]:
        with partition_counts(self.options, self.counts) as count_of:
            first = task_number() if self.first is None else self.first
            builder = RowBuilder(self.options, self.columns, count_of, HostClock().now_ms, first)
            for batch in rows:
                yield from builder.add(batch)
            yield from builder.finish()

    def __call__(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        group: list[BuiltBatch] = []
        size = total = 0
        for one in self.built(rows):
            group.append(one)
            size += len(one.data)
            total += len(one.data)
            if self.bytes_max is not None and total > self.bytes_max:
                yield self._table([BuiltBatch("", 0, 0, bytearray())]).set_column(
                    0, _BUILT.field("slot"), pa.array([TOO_MUCH], pa.int32())
                )
                return
            if size >= _GROUP_BYTES:
                yield self._table(group)
                group, size = [], 0
        if group:
            yield self._table(group)

    def _table(self, group: list[BuiltBatch]) -> pa.RecordBatch:
        columns = [
            pa.array([slot_of(one.topic, one.partition, self.slots) for one in group], pa.int32()),
            pa.array([one.topic for one in group], pa.string()),
            pa.array([one.partition for one in group], pa.int32()),
            pa.array([one.records for one in group], pa.int32()),
            pa.array([bytes(one.data) for one in group], pa.binary()),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=_BUILT)


@dataclass(frozen=True, slots=True)
class Send:
    """Sends batches to their partitions in the driver's transaction."""

    options: SinkOptions
    handle: Handle
    turns: Turns | None
    """Turns of the tasks at partitions; None if each partition belongs to a single task."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield self.send(built_of(batches))

    def send(self, batches: Iterable[BuiltBatch]) -> pa.RecordBatch:
        """Send all batches and wait for the acknowledgments; return a report of what was written."""
        self._refuse_retry()
        written: dict[tuple[str, int], tuple[int, int]] = {}
        producer: Producer | None = None
        line: TurnSender | None = None
        try:
            for one in batches:
                if producer is None:
                    producer = Producer.join(self.handle, **_keywords(self.options.client))
                    line = None if self.turns is None else TurnSender(self.turns, producer)
                if line is None:
                    producer.send_batches(one.topic, [(one.partition, memoryview(one.data))])
                else:
                    line.send(one)
                key = (one.topic, one.partition)
                records, size = written.get(key, (0, 0))
                written[key] = (records + one.records, size + len(one.data))
            if line is not None:
                line.finish()
        except BaseException:
            if producer is not None:
                with suppress(AbortableError):  # follows from the error that is raised
                    producer.close(timeout=0)
            raise
        if producer is not None:
            producer.close()
        return self._report(written)

    def _refuse_retry(self) -> None:
        context = _context()
        if context is not None and context.attemptNumber():
            raise RetryRefused(
                f"Rejected attempt {context.attemptNumber()} of a task that writes in a transaction: the "
                "sink retries only whole batches. With speculation enabled, this is a copy of a task "
                "that is still running."
            )

    def _report(self, written: Mapping[tuple[str, int], tuple[int, int]]) -> pa.RecordBatch:
        context = _context()
        stage, task = (-1, -1) if context is None else (context.stageId(), context.taskAttemptId())
        count = len(written)
        columns = [
            pa.array([topic for topic, _ in written], pa.string()),
            pa.array([partition for _, partition in written], pa.int32()),
            pa.array([records for records, _ in written.values()], pa.int64()),
            pa.array([size for _, size in written.values()], pa.int64()),
            pa.array([self.handle.producer_id] * count, pa.int64()),
            pa.array([self.handle.producer_epoch] * count, pa.int32()),
            pa.array([stage] * count, pa.int32()),
            pa.array([task] * count, pa.int64()),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=_REPORT)


@dataclass(frozen=True, slots=True)
class BuildAndSend:
    """Builds and sends in one step, when one task has all rows or tasks take turns."""

    build: Build
    send: Send

    def __call__(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield self.send.send(self.build.built(rows))


@dataclass(frozen=True, slots=True)
class SendPlainly:
    """Sends rows without a transaction: at least once."""

    build: Build
    client: Mapping[str, str] = field(default_factory=dict)

    def __call__(self, rows: Iterable[pa.RecordBatch]) -> int:
        """Return the number of acknowledged rows."""
        written = 0
        with Producer({**self.build.options.client, **self.client}) as producer:
            deliveries = []
            for one in self.build.built(rows):
                deliveries.append(producer.send_batches(one.topic, [(one.partition, memoryview(one.data))]))
                written += one.records
            for delivery in deliveries:
                delivery.result()
        return written


def _keywords(client: Mapping[str, str]) -> dict[str, str]:
    return {name.replace(".", "_"): value for name, value in client.items()}
