"""Writes to topics, exactly once: `write_stream` for queries, `write` for frames, and Spark's own write path.

`batch_sink.py` is the sink of a query, whose tasks share one transaction; `writers.py` is the format "ottla",
where a single process commits; `transaction.py` is the driver's side of both; `tasks.py` and `row_builder.py`
run on executors.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ottla.spark.sink.errors import (
    Fenced,
    MarkerMissing,
    OtherQuery,
    RetryRefused,
    SinkError,
    TransactionTooShort,
    WritersOverlap,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter
    from pyspark.sql.types import StructType

    from ottla.spark.sink.writers import BatchWriter, StreamWriter

__all__ = [
    "Fenced",
    "MarkerMissing",
    "OtherQuery",
    "RetryRefused",
    "SinkError",
    "TransactionTooShort",
    "WritersOverlap",
    "batch_writer",
    "stream_writer",
    "write",
    "write_stream",
]


def batch_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> BatchWriter:
    """The writer behind `df.write.format("ottla")`."""
    from ottla.spark.sink import writers

    return writers.batch_writer(options, schema, overwrite)


def stream_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> StreamWriter:
    """The writer behind `df.writeStream.format("ottla")`."""
    from ottla.spark.sink import writers

    return writers.stream_writer(options, schema, overwrite)


def write_stream(
    frame: DataFrame,
    topic: str | None = None,
    *,
    bootstrap_servers: str | None = None,
    transactional_id: str | None = None,
    checkpoint: str | None = None,
    client: Mapping[str, object] | None = None,
    **options: object,
) -> DataStreamWriter:
    """Write a streaming frame to a topic, exactly once: `write_stream(df, "out", ...).start()`.

    Returns Spark's DataStreamWriter, so that callers can set a trigger and a name. Options are those of the
    format in Python's spelling (`value_format="json"`); `client` has producer properties
    (`{"compression.type": "lz4"}`).
    """
    from pyspark.sql.utils import is_remote

    from ottla.spark.sink.batch_sink import BatchSink
    from ottla.spark.sink.columns import columns_of
    from ottla.spark.sink.options import parse

    given = _named(topic, bootstrap_servers, transactional_id, client, options)
    chosen = parse(given)
    columns_of(frame.schema, chosen)
    writer = frame.writeStream
    if checkpoint is not None:
        writer = writer.option("checkpointLocation", checkpoint)
    if not chosen.is_exactly_once or is_remote():  # a remote driver runs the tasks; its commit sends
        return writer.format("ottla").options(**given)
    return writer.foreachBatch(BatchSink(chosen))


def write(
    frame: DataFrame,
    topic: str | None = None,
    *,
    bootstrap_servers: str | None = None,
    transactional_id: str | None = None,
    client: Mapping[str, object] | None = None,
    **options: object,
) -> int:
    """Write a frame to a topic in one transaction that all tasks share; return the number of rows."""
    from pyspark.sql.utils import is_remote

    from ottla.spark.options import OptionError
    from ottla.spark.sink.batch_sink import BatchSink
    from ottla.spark.sink.options import parse
    from ottla.spark.sink.writers import with_generated_id

    chosen = with_generated_id(
        parse(_named(topic, bootstrap_servers, transactional_id, client, options), needs_id=False)
    )
    if not chosen.is_exactly_once:
        raise OptionError(
            'write() always uses a transaction. For at-least-once delivery use df.write.format("ottla").'
        )
    if is_remote():
        raise OptionError('Over Spark Connect, use df.write.format("ottla").')
    return BatchSink(chosen).write_all(frame)


def _named(
    topic: str | None,
    bootstrap_servers: str | None,
    transactional_id: str | None,
    client: Mapping[str, object] | None,
    options: Mapping[str, object],
) -> dict[str, str]:
    """Convert keyword arguments to options of the format."""
    given: dict[str, Any] = {f"kafka.{name}": value for name, value in (client or {}).items()}
    given.update({"topic": topic, "kafka.bootstrap.servers": bootstrap_servers})
    given["transactionalId"] = transactional_id
    for name, value in options.items():
        first, *rest = name.split("_")
        given[first + "".join(word.capitalize() for word in rest)] = value
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in given.items()
        if value is not None
    }
