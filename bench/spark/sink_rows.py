"""Writing: Ottla's exactly-once sink and Spark's own at-least-once sink, from the same frame."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import ottla
import ottla.spark
from bench.spark.rows import (
    DEFAULT,
    OTTLA,
    PARTITIONS,
    TUNED,
    Bench,
    Row,
    new_topic,
    small_batches,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

TUNING = {"kafka.linger.ms": "20", "kafka.batch.size": "524288", "kafka.buffer.memory": "134217728"}


def rows_to_write(bench: Bench, size: int) -> DataFrame:
    """Rows with a key and a value of this size, in memory, in four partitions; created once."""
    name = f"frame-{size}"
    if name not in bench.notes:
        count = bench.count(2_000_000 if size <= 100 else 300_000)
        made = bench.spark.range(0, count, 1, PARTITIONS).selectExpr(
            "cast(id as string) as key", f"rpad(cast(id as string), {size}, uuid()) as value"
        )
        made = made.cache()
        bench.notes[name] = (made, made.count())
        new_topic(bench, f"write-{size}")
    found: DataFrame = bench.notes[name][0]
    return found


def written(bench: Bench, topic: str) -> int:
    with ottla.Consumer(bench.bootstrap) as consumer:
        return sum(consumer.end_offsets(consumer.partitions_for(topic)).values())


def timed(size: int, write: Callable[[Bench, DataFrame, str], object]) -> Callable[[Bench], float]:
    def run(bench: Bench) -> float:
        frame, topic = rows_to_write(bench, size), f"write-{size}"
        count = bench.notes[f"frame-{size}"][1]
        before = written(bench, topic)
        begin = time.perf_counter()
        write(bench, frame, topic)
        seconds = time.perf_counter() - begin
        grown = written(bench, topic) - before  # includes transaction markers
        assert count <= grown <= count + 2 * PARTITIONS, f"{grown} of {count} rows were written"
        return float(count / seconds / 1000)

    return run


def write_ours(bench: Bench, frame: DataFrame, topic: str) -> None:
    ottla.spark.write(frame, topic, bootstrap_servers=bench.bootstrap)


def write_stock(options: Mapping[str, str]) -> Callable[[Bench, DataFrame, str], None]:
    def write(bench: Bench, frame: DataFrame, topic: str) -> None:
        writer = frame.write.format("kafka").option("kafka.bootstrap.servers", bench.bootstrap)
        writer.option("topic", topic).options(**options).save()

    return write


def micro_batches(
    source: str, start: Callable[[Bench, DataFrame, str], DataStreamWriter]
) -> Callable[[Bench], float]:
    """The median time of a micro-batch of a hundred records into a topic."""

    def run(bench: Bench) -> float:
        number = bench.notes["small-sink"] = bench.notes.get("small-sink", 0) + 1
        topic, target = f"small-in-{number}", f"small-out-{number}"
        new_topic(bench, target)
        return small_batches(
            bench, topic, source, {}, lambda rows: start(bench, rows.selectExpr("key", "value"), target)
        )

    return run


def stream_ours(bench: Bench, rows: DataFrame, topic: str) -> DataStreamWriter:
    return ottla.spark.write_stream(rows, topic, bootstrap_servers=bench.bootstrap, transactional_id=topic)


def stream_stock(bench: Bench, rows: DataFrame, topic: str) -> DataStreamWriter:
    writer = rows.writeStream.format("kafka").option("kafka.bootstrap.servers", bench.bootstrap)
    return writer.option("topic", topic)


def _writing(size: int, shown: str) -> Row:
    return Row(
        f"write-{size}",
        f"into a topic, exactly once, records of {shown}",
        "1000 records/s",
        {
            OTTLA: timed(size, write_ours),
            DEFAULT: timed(size, write_stock({})),
            TUNED: timed(size, write_stock(TUNING)),
        },
        {DEFAULT: 0.8},
    )


SINK_ROWS: list[Row] = [
    _writing(100, "100 B"),
    _writing(1024, "1 KiB"),
    Row(
        "write-small",
        "a micro-batch of 100 records into a topic, both from Spark's own source",
        "ms",
        {OTTLA: micro_batches("kafka", stream_ours), DEFAULT: micro_batches("kafka", stream_stock)},
        {DEFAULT: 1.0},
        is_time=True,
    ),
    Row(
        "topic-to-topic",
        "a micro-batch of 100 records from topic to topic, each with its own source",
        "ms",
        {OTTLA: micro_batches("ottla", stream_ours), DEFAULT: micro_batches("kafka", stream_stock)},
        {DEFAULT: 1.0},
        is_time=True,
    ),
]
