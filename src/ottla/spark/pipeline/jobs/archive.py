"""Archives topics to files and tables record by record, and replays archives into a topic.

An archive has the columns key, value, topic, partition, offset, timestamp, headers and date. Rule: an archive
suffices to recreate the topic with the order of each partition.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ottla.spark.pipeline.faults import Mark
from ottla.spark.pipeline.model import (
    Decoding,
    FileSource,
    FileTarget,
    IcebergTarget,
    Pipeline,
    Restart,
    Sink,
    Sql,
    Step,
    TopicSource,
    TopicTarget,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

    from ottla.spark.sink.options import SinkOptions

_RECORDS = """\
SELECT _key AS key, value, _topic AS topic, _partition AS partition, _offset AS offset,
       _timestamp AS timestamp, _headers AS headers, to_date(_timestamp) AS date
FROM records"""


def archive_pipeline(
    name: str,
    topics: tuple[str, ...],
    target: FileTarget | IcebergTarget,
    *,
    checkpoint: str,
    batch_records: int | None = None,
    trigger: str = "10 seconds",
    spark: Mapping[str, str] | None = None,
) -> Pipeline:
    """A pipeline that archives all records of topics."""
    source = TopicSource(name="records", topics=topics, decoding=Decoding.RAW, batch_records=batch_records)
    return Pipeline(
        name=name,
        checkpoint=checkpoint,
        sources=(source,),
        steps=(Step(name="archived", sql=Sql(_RECORDS, Mark(1, 1))),),
        sinks=(Sink(name="archive", source="archived", target=target),),
        trigger=trigger,
        restart=Restart(),
        spark=spark or {},
    )


def load_pipeline(
    name: str,
    path: str,
    file_format: str,
    topic: str,
    *,
    schema: str,
    key: str | None,
    checkpoint: str,
    options: Mapping[str, str] | None = None,
) -> Pipeline:
    """A pipeline that writes each row of the files to a topic as JSON; the next run loads new files."""
    source = FileSource(
        name="rows", path=path, format=file_format, schema=schema, is_stream=True, options=options or {}
    )
    return Pipeline(
        name=name,
        checkpoint=checkpoint,
        sources=(source,),
        sinks=(Sink(name="load", source="rows", target=TopicTarget(topic=topic, key=key)),),
        restart=Restart(),
    )


def replay(
    spark: SparkSession,
    path: str,
    file_format: str,
    topic: str,
    *,
    client: Mapping[str, str],
    name: str,
    where: str | None = None,
    keep_partitions: bool = False,
    report: Callable[[int, int], None] = lambda batch, rows: None,
) -> int:
    """Replay an archive into a topic, in the order of each partition; return the number of records.

    Each batch of a Parquet archive is one transaction, whose marker is the batch number: if a replay is
    interrupted, a replay with the same name continues after the last committed batch. An archive without
    batches (Delta) is replayed in a single transaction.
    """
    from ottla.spark.sink.batch_sink import BatchSink
    from ottla.spark.sink.options import parse
    from ottla.spark.tables.base import QUERY_ID
    from ottla.spark.tables.parquet import Place

    options = parse(
        {
            **{f"kafka.{one}": value for one, value in client.items()},
            "topic": topic,
            "transactionalId": name,
        }
    )
    frame: DataFrame = spark.read.format(file_format).load(path)
    if where:
        frame = frame.filter(where)
    numbers = sorted(Place.open(path).batches()) if file_format == "parquet" else []
    context: Any = spark.sparkContext
    before = context.getLocalProperty(QUERY_ID)
    query = f"replay of {path}, batches {_digest(numbers)}, {where}"
    context.setLocalProperty(QUERY_ID, query)
    sink = BatchSink(options)
    total = 0
    try:
        done = _batches_done(options, query)
        for at, number in list(enumerate(numbers or [0]))[done:]:
            part = frame.filter(frame["batch"] == number) if numbers else frame
            rows = _records_of(part, keep_partitions).cache()
            count = rows.count()
            sink(rows, at)
            rows.unpersist()
            total += count
            report(at, count)
    finally:
        context.setLocalProperty(QUERY_ID, before)
        sink.transaction.close()
    return total


def _batches_done(options: SinkOptions, query: str) -> int:
    """The number of batches that an earlier replay committed, from its marker."""
    from ottla.client.admin import Admin
    from ottla.client.values import TopicPartition

    where = TopicPartition(options.marker_topic, 0)
    with Admin(options.admin_client) as admin:
        answer = admin.list_consumer_group_offsets({options.marker_group: [where]}, require_stable=True)
        found = answer.result(options.marker_group).get(where)
    return found.offset if found is not None and found.metadata == query else 0


def _digest(numbers: list[int]) -> str:
    """A digest of the batch numbers: a replay cannot continue if batches were compacted in between."""
    return hashlib.sha256(repr(numbers).encode()).hexdigest()[:12]


def _records_of(frame: DataFrame, keep_partitions: bool) -> DataFrame:
    """Records for the sink, with those of a partition in order."""
    columns = ["key", "value", "headers", "timestamp", *(["partition"] if keep_partitions else [])]
    spread = frame.repartition("topic", "partition").sortWithinPartitions("topic", "partition", "offset")
    return spread.select(*columns)
