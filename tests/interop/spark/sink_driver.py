"""A driver as a process of its own: a query from files into a topic, which ends when all is written.

`python -m tests.interop.spark.sink_driver '{"sink": "tasks", ...}'`. With the sink `tasks` all tasks write in
the transaction (in turns where they are on one machine), with `shuffle` each partition has one that does,
with `small` the driver sends what they have built, `format` is df.writeStream.format("ottla"), and `stock`
is Spark's own sink.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ottla.spark
from ottla.spark.sink import batch_sink
from ottla.spark.sink.options import SinkOptions, parse
from ottla.spark.sink.tasks import Send
from tests.interop.spark.sink_faults import Faults, FaultySend, FaultySource, FaultyTransaction
from tests.interop.spark.sink_names import BUILT_HERE, DRIVER, PLAN_OPTION, STATE_OPTION
from tests.interop.spark.support import workers_find_ottla

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from ottla.client.core.transactions import Handle
    from ottla.spark.sink.row_builder import BuiltBatch
    from ottla.spark.sink.tasks import Build
    from ottla.spark.sink.turns import Turns

SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    "spark.log.level": "ERROR",
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


SPLIT_SETTINGS = ("spark.sql.files.maxPartitionBytes", "spark.sql.files.openCostInBytes")
"""So that each file of the input is read by several tasks."""


def main(told: dict[str, Any]) -> int:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    workers_find_ottla()
    settings = {**SETTINGS, **told.get("settings", {}), "spark.local.dir": told["state"] + "/local"}
    if told["sink"] == "stock":
        from tests.interop.peers import spark_connector_jars

        settings["spark.jars"] = ",".join(spark_connector_jars())
    spark = ottla.spark.session(
        "sink", told.get("master", "local[2]"), **{k.replace(".", "__"): v for k, v in settings.items()}
    )
    note_pids(spark, told["state"])
    started(spark, told).awaitTermination()
    spark.stop()
    return 0


def note_pids(spark: SparkSession, state: str) -> None:
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    assert gateway is not None
    partly = Path(state) / f"{DRIVER}.new"
    partly.write_text(f"{gateway.proc.pid} {os.getpid()}")
    partly.replace(Path(state) / DRIVER)


def started(spark: SparkSession, told: dict[str, Any]) -> StreamingQuery:
    """The query, which ends when all that there is is written."""
    faults = Faults.from_texts(told["state"], told.get("plan", []))
    lines = spark.readStream.option("maxFilesPerTrigger", "1").text(told["input"])
    rows = lines.selectExpr("value as key", "value")
    options = {
        "topic": told["topic"],
        "kafka.bootstrap.servers": told["bootstrap"],
        **{f"kafka.{name}": str(value) for name, value in told.get("client", {}).items()},
    }
    named = {**options, "transactionalId": told["topic"], **told.get("options", {})}
    match told["sink"]:
        case "tasks" | "shuffle" | "small":
            writer = rows.writeStream.foreachBatch(FaultySink(parse(named), faults, told["sink"]))
        case "format":
            spark.dataSource.register(FaultySource)
            plan = {STATE_OPTION: told["state"], PLAN_OPTION: ",".join(told.get("plan", []))}
            writer = rows.writeStream.format("faulty").options(**named, **plan)
        case "stock":
            writer = dying(rows, faults, told).writeStream.format("kafka").options(**options)
    writer = writer.option("checkpointLocation", told["checkpoint"])
    for name, text in zip(SPLIT_SETTINGS, (told["split"], "1"), strict=True):
        spark.conf.set(name, text)
    return writer.trigger(availableNow=True).start()


class FaultySink(batch_sink.BatchSink):
    """The sink of a query, with the faults of a plan."""

    def __init__(self, options: SinkOptions, faults: Faults, form: str) -> None:
        super().__init__(options)
        self.faulty = FaultyTransaction(options, faults)
        self.transaction = self.faulty
        self.takes_turns = form != "shuffle"
        if form != "small":
            self.small_bytes = 0

    def sender(self, options: SinkOptions, handle: Handle, turns: Turns | None) -> Send:
        return FaultySend(options, handle, turns, self.faulty.faults, self.faulty.batch_id)

    def _built_here(self, frame: DataFrame, build: Build, rows_max: int) -> list[BuiltBatch] | None:
        (Path(self.faulty.faults.state) / BUILT_HERE).touch()
        return super()._built_here(frame, build, rows_max)


def dying(rows: DataFrame, faults: Faults, told: dict[str, Any]) -> DataFrame:
    """Rows of which one worker dies once, when Spark's own sink has written some of the batch."""
    if not faults.plan:
        return rows
    die = partial(die_after_some, faults, told["bootstrap"], told["topic"], told["rows_per_file"])
    return rows.mapInArrow(die, rows.schema)


def die_after_some(
    faults: Faults, bootstrap: str, topic: str, rows_per_batch: int, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    from pyspark import TaskContext

    from tests.interop.peers import wait_until
    from tests.interop.spark.sinks import end_offsets

    context = TaskContext.get()
    assert context is not None
    batch_id = int(context.getLocalProperty("streaming.sql.batchId") or -1)
    if context.partitionId() == 1 and faults.is_due(batch_id, "stock-task"):
        # The other tasks go on beside this one.
        wait_until(
            lambda: sum(end_offsets(bootstrap, topic).values()) > batch_id * rows_per_batch,
            120.0,
            "the batch to be written in part",
        )
        os.kill(os.getpid(), signal.SIGKILL)
    yield from batches


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
