"""Which way the rows of a batch go: built and sent here where they are few, by tasks where they are many."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.spark.sink.batch_sink import BatchSink
from ottla.spark.sink.options import parse
from tests.interop import peers
from tests.interop.spark.sinks import found_in
from tests.interop.spark.test_exactly_once import make_topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from ottla.spark.sink.row_builder import BuiltBatch
    from ottla.spark.sink.tasks import Build


class Watched(BatchSink):
    """The sink, with the ways that it tried."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__(
            parse({"kafka.bootstrap.servers": bootstrap, "topic": topic, "transactionalId": topic})
        )
        self.ways: list[str] = []

    def _built_by_tasks(self, frame: DataFrame, build: Build) -> list[BuiltBatch] | None:
        self.ways.append("built by tasks")
        return super()._built_by_tasks(frame, build)

    def _built_here(self, frame: DataFrame, build: Build, rows_max: int) -> list[BuiltBatch] | None:
        self.ways.append("built here")
        return super()._built_here(frame, build, rows_max)

    def _run(self, frame: DataFrame, build: Build, options: object) -> list[object]:
        self.ways.append("sent by tasks")
        return super()._run(frame, build, self.options)


def test_few_rows_go_through_the_driver_and_many_through_tasks_each_once(
    spark: SparkSession, broker: peers.BrokerProcess
) -> None:
    make_topic(broker.bootstrap, "ways")
    sink = Watched(broker.bootstrap, "ways")
    sink.small_bytes = 64 << 10
    first = 0
    taken: list[list[str]] = []
    for count in (300, 300, 20_000, 300, 3000, 3000):
        rows = spark.range(first, first + count, 1, 3).selectExpr("cast(id as string) as value")
        first += count
        sink.ways = []
        sink.transaction.begin()
        assert sink.write(rows) == count
        sink.transaction.commit()
        taken.append(sink.ways)
    sink.transaction.close()
    found_in(broker.bootstrap, "ways").check(first)
    assert taken == [
        ["built by tasks"],
        ["built here"],
        ["built here", "sent by tasks"],
        ["sent by tasks"],
        ["built by tasks"],
        ["built by tasks"],
    ]
