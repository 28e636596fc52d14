"""The rows: each is one task for Ottla's format and for Spark's connector, with defaults and tuned.

A contender is a function that runs the task once and returns its value. Rule: all contenders of a row read
the same topic of the same broker in the same Spark and must return the same rows, which is checked.
"""

from __future__ import annotations

import shutil
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ottla

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

OTTLA = "Ottla"
DEFAULT = "Spark's, default"
TUNED = "Spark's, tuned"
PARTITIONS = 4

# The fastest of five configurations at both sizes. With polls of 5,000 records or more it waits, and is
# slower at 1 KiB than with its defaults.
TUNING = {
    "kafka.max.poll.records": "1000",
    "kafka.max.partition.fetch.bytes": "4194304",
    "kafka.receive.buffer.bytes": "1048576",
}


@dataclass(slots=True)
class Bench:
    """The environment of tasks."""

    spark: SparkSession
    bootstrap: str
    directory: Path
    scale: float = 1.0
    notes: dict[str, Any] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)  # additional options of Ottla's reader

    def count(self, records: int) -> int:
        return max(int(records * self.scale), 1000)


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table. `wanted` has the target ratio to each other contender."""

    name: str
    title: str
    unit: str
    contenders: Mapping[str, Callable[[Bench], float]]
    wanted: Mapping[str, float]
    is_time: bool = False
    prepare: Callable[[Bench], None] | None = None


# Reading.


def topic_of(size: int) -> str:
    return f"read-{size}"


def records_of(size: int) -> int:
    return 4_000_000 if size <= 100 else 600_000


def fill(bench: Bench, size: int) -> None:
    """Create a topic with records of this size, in four partitions, once."""
    import os

    import pyarrow as pa

    if topic_of(size) in bench.notes:
        return
    new_topic(bench, topic_of(size))
    body = os.urandom(size * 1000)
    values = pa.array([body[at * size : (at + 1) * size] for at in range(1000)], pa.binary())
    total = bench.count(records_of(size)) // 1000 * 1000
    with ottla.Producer(bench.bootstrap) as producer:
        for number in range(total // 1000):
            to = pa.array([number % PARTITIONS] * 1000, pa.int32())
            batch = pa.RecordBatch.from_arrays([values, to], names=["value", "to"])
            producer.send_arrow(topic_of(size), batch, value="value", partition="to")
        producer.flush()
    bench.notes[topic_of(size)] = total


def frame(bench: Bench, size: int, source: str, options: Mapping[str, str]) -> DataFrame:
    reader = bench.spark.read.format(source).option("kafka.bootstrap.servers", bench.bootstrap)
    more = bench.options if source == "ottla" else {}
    return reader.option("subscribe", topic_of(size)).options(**options, **more).load()


def counting(size: int, source: str, options: Mapping[str, str]) -> Callable[[Bench], float]:
    def run(bench: Bench) -> float:
        begin = time.perf_counter()
        found = frame(bench, size, source, options).count()
        seconds = time.perf_counter() - begin
        assert found == bench.notes[topic_of(size)], f"{source} has read {found} records"
        return found / seconds / 1000

    return run


def to_parquet(size: int, source: str, options: Mapping[str, str]) -> Callable[[Bench], float]:
    def run(bench: Bench) -> float:
        path = bench.directory / "parquet"
        begin = time.perf_counter()
        frame(bench, size, source, options).write.mode("overwrite").parquet(str(path))
        seconds = time.perf_counter() - begin
        found = bench.spark.read.parquet(str(path)).count()
        assert found == bench.notes[topic_of(size)], f"{source} has written {found} records"
        shutil.rmtree(path)
        return found / seconds / 1000

    return run


def _reading(name: str, title: str, size: int, task: Callable[..., Callable[[Bench], float]]) -> Row:
    return Row(
        name,
        title,
        "1000 records/s",
        {
            OTTLA: task(size, "ottla", {}),
            DEFAULT: task(size, "kafka", {}),
            TUNED: task(size, "kafka", TUNING),
        },
        {DEFAULT: 1.3, TUNED: 0.8},
        prepare=lambda bench: fill(bench, size),
    )


# Small micro-batches.

SMALL_ROWS = 100
SMALL_BATCHES = 12


def new_topic(bench: Bench, topic: str) -> None:
    from ottla.client.admin import NewTopic

    with ottla.Admin(bench.bootstrap) as admin:
        admin.create_topics([NewTopic(topic, PARTITIONS, 1)]).all()


def small_batches(
    bench: Bench,
    topic: str,
    source: str,
    options: Mapping[str, str],
    write: Callable[[DataFrame], DataStreamWriter],
) -> float:
    """The median time of a micro-batch of a hundred records, in milliseconds, from Spark's reports."""
    new_topic(bench, topic)
    reader = bench.spark.readStream.format(source).option("kafka.bootstrap.servers", bench.bootstrap)
    rows = reader.option("subscribe", topic).option("startingOffsets", "earliest").options(**options).load()
    query = write(rows).option("checkpointLocation", str(bench.directory / topic)).start()
    try:
        with ottla.Producer(bench.bootstrap) as producer:
            for _ in range(SMALL_BATCHES):
                for at in range(SMALL_ROWS):
                    producer.send(topic, b"x" * 100, partition=at % PARTITIONS)
                producer.flush()
                query.processAllAvailable()
        taken = [
            float(one["durationMs"]["triggerExecution"])
            for one in query.recentProgress
            if one["numInputRows"]
        ]
    finally:
        query.stop()
    return statistics.median(taken[2:])  # the first ones start workers


def micro_batches(source: str, options: Mapping[str, str]) -> Callable[[Bench], float]:
    """Reading only."""

    def run(bench: Bench) -> float:
        number = bench.notes["small"] = bench.notes.get("small", 0) + 1
        return small_batches(
            bench, f"small-{number}", source, options, lambda rows: rows.writeStream.format("noop")
        )

    return run


ROWS: list[Row] = [
    _reading("count-100", "count, records of 100 B", 100, counting),
    _reading("count-1024", "count, records of 1 KiB", 1024, counting),
    _reading("parquet-100", "into Parquet, records of 100 B", 100, to_parquet),
    _reading("parquet-1024", "into Parquet, records of 1 KiB", 1024, to_parquet),
    Row(
        "micro-batch",
        "a micro-batch of 100 records",
        "ms",
        {OTTLA: micro_batches("ottla", {}), DEFAULT: micro_batches("kafka", {})},
        {DEFAULT: 1.0},
        is_time=True,
    ),
]
