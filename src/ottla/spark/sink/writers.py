"""The sink on Spark's own write path: `df.write.format("ottla")`, `df.writeStream.format("ottla")`.

Spark gives a Python data source neither a shuffle nor the batch's number before its tasks run, so tasks
cannot share a transaction here. They build batches and pass them to Spark as commit messages; the committing
process sends all of them in one transaction with the marker. That is exactly once without conditions on the
tasks (retries, speculation and lost executors are harmless, since only the committing process writes to
brokers), but each batch passes through the driver and `spark.driver.maxResultSize` limits it.
`ottla.spark.write_stream` has no such limit. With at-least-once delivery tasks write directly, as those of
Spark's own sink do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from uuid import uuid4

from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from ottla.spark.options import OptionError
from ottla.spark.sink.columns import Columns, columns_of
from ottla.spark.sink.errors import SinkError
from ottla.spark.sink.options import SinkOptions, parse
from ottla.spark.sink.row_builder import BuiltBatch
from ottla.spark.sink.tasks import QUERY_ID, Build, SendPlainly, local_property
from ottla.spark.sink.transaction import SharedTransaction

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


@dataclass(frozen=True, slots=True)
class Rows(WriterCommitMessage):
    """The commit message of a task: its batches, or only the number of rows that it wrote itself."""

    query_id: str
    records: int
    batches: tuple[tuple[str, int, int, bytes], ...]


@dataclass(frozen=True, slots=True)
class _SharedWriter:
    """The part that both writers share."""

    options: SinkOptions
    columns: Columns

    def task(self, rows: Iterator[pa.RecordBatch]) -> Rows:
        build = Build(self.options, self.columns, {})
        query_id = local_property(QUERY_ID) or ""
        if not self.options.is_exactly_once:
            return Rows(query_id, SendPlainly(build)(rows), ())
        built = tuple(
            (topic, partition, records, bytes(data)) for topic, partition, records, data in build.built(rows)
        )
        return Rows(query_id, sum(one[2] for one in built), built)

    def send(self, transaction: SharedTransaction, messages: Sequence[WriterCommitMessage | None]) -> None:
        try:
            self._send(transaction, messages)
        except Exception as error:
            cause = transaction.explain(error)
            if cause is None:
                raise
            raise cause from error

    def _send(self, transaction: SharedTransaction, messages: Sequence[WriterCommitMessage | None]) -> None:
        for message in messages:
            if not isinstance(message, Rows):
                raise SinkError("A task did not report its rows: the batch is not committed.")
            for topic, partition, records, data in message.batches:
                one = BuiltBatch(topic, partition, records, bytearray(data))
                transaction.producer.send_batches(one.topic, [(one.partition, memoryview(one.data))])


class StreamWriter(DataSourceStreamArrowWriter):
    """The sink of a query."""

    def __init__(self, options: SinkOptions, columns: Columns) -> None:
        self._writer = _SharedWriter(options, columns)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self._writer.task(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's
        options = self._writer.options
        ids = {message.query_id for message in messages if isinstance(message, Rows)}
        if not options.is_exactly_once or not ids:
            return
        if len(ids) > 1 or "" in ids:
            raise SinkError(
                "The tasks of one batch reported several queries, or none: the batch is not committed."
            )
        (query_id,) = ids
        transaction = self.transaction()
        if not transaction.prepare(query_id, batchId):
            return
        self._writer.send(transaction, messages)
        transaction.commit(query_id, batchId)
        transaction.close()

    def transaction(self) -> SharedTransaction:
        """A transaction for each batch, since Spark runs every commit in its own process."""
        return SharedTransaction(self._writer.options)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's
        """Nothing to abort: no transaction was begun."""


class BatchWriter(DataSourceArrowWriter):
    """The sink of one frame, which is written in one transaction."""

    def __init__(self, options: SinkOptions, columns: Columns) -> None:
        self._writer = _SharedWriter(options, columns)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self._writer.task(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        options = self._writer.options
        records = sum(message.records for message in messages if isinstance(message, Rows))
        if not options.is_exactly_once or not records:
            return
        transaction = SharedTransaction(options)
        transaction.begin()
        self._writer.send(transaction, messages)
        transaction.commit()
        transaction.close()

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Nothing to abort: no transaction was begun."""


def with_generated_id(options: SinkOptions) -> SinkOptions:
    """Add a random transactional id for a write that never restarts."""
    if options.transactional_id or not options.is_exactly_once:
        return options
    return replace(options, transactional_id=f"ottla-spark-write-{uuid4()}")


def batch_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> BatchWriter:
    """The writer behind `df.write.format("ottla")`."""
    if overwrite:
        raise OptionError('A topic cannot be overwritten: use mode("append").')
    chosen = with_generated_id(parse(options, needs_id=False))
    return BatchWriter(chosen, columns_of(schema, chosen))


def stream_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> StreamWriter:
    """The writer behind `df.writeStream.format("ottla")`."""
    if overwrite:
        raise OptionError('A topic only grows: use outputMode("append") or outputMode("update").')
    chosen = parse(options)
    return StreamWriter(chosen, columns_of(schema, chosen))
