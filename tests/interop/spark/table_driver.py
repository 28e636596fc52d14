"""A driver that writes the same stream into every kind of table, and kills itself at a given moment.

    python -m tests.interop.spark.table_driver DIRECTORY POSTGRES STEP BATCH

A query for each table reads the files in DIRECTORY/input, one file a batch. With STEP "written" or
"committed" each table stops there in batch BATCH until all of them have come so far; then the process ends
itself by kill -9, so that one death hits every table in its window. Delta writes and commits in one call, so
for it "written" is the middle of its task, with its file on the disk. "none" runs to the end.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.spark.tables import (
    DeltaTable,
    IcebergTable,
    ParquetTable,
    PostgresTable,
    SqliteTable,
    TableSink,
)
from tests.interop import peers
from tests.interop.spark.support import spark_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = "id BIGINT, name STRING, price DECIMAL(10,2), at TIMESTAMP, tags ARRAY<STRING>"
PATIENCE_SECONDS = 240


def tables(directory: Path, connection: str, observe: Callable[[str], None]) -> list[TableSink]:
    """One of each kind; what has keys is asked to keep each key once."""
    catalog = {
        "type": "sql",
        "uri": f"sqlite:///{directory}/catalog.db",
        "warehouse": f"file://{directory}/ice",
    }
    return [
        ParquetTable(query="parquet", path=str(directory / "parquet"), observe=observe),
        DeltaTable(query="delta", path=str(directory / "delta"), observe=observe),
        IcebergTable(query="iceberg", table="shop.rows", catalog=catalog, observe=observe),
        PostgresTable(query="postgres", connection=connection, table="rows", observe=observe),
        SqliteTable(query="sqlite", database=str(directory / "rows.db"), table="rows", observe=observe),
    ]


class Death:
    """Waits at one step of one batch until all tables are there, and then kills this process."""

    def __init__(self, step: str, batch: int, directory: Path, count: int) -> None:
        self._step, self._batch, self._note = step, batch, directory / f"died-{step}-{batch}"
        self._barrier = threading.Barrier(count, action=self._die)

    def reached(self, step: str, batch: int) -> None:
        if (step, batch) == (self._step, self._batch):
            self._barrier.wait(PATIENCE_SECONDS)

    def _die(self) -> None:
        self._note.touch()
        os.kill(os.getpid(), signal.SIGKILL)


def hold(rows: Iterator[Any], note: str) -> Iterator[Any]:
    """Give all rows and then keep the task from ending, until this process is ended with its driver."""
    yield from rows
    Path(note).touch()
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        time.sleep(0.1)


def wait_for_note(note: Path, death: Death, batch: int) -> None:
    peers.wait_until(note.exists, PATIENCE_SECONDS, "Delta's task to have its rows")
    death.reached("written", batch)


def run(spark: SparkSession, directory: Path, connection: str, step: str, batch: int) -> None:
    kinds = len(tables(directory, connection, lambda step: None))
    death = Death(step, batch, directory, kinds)
    batches: dict[int, int] = {}  # table -> the batch that it is at
    queries = []
    for at in range(kinds):
        table = tables(directory, connection, lambda one, at=at: death.reached(one, batches[at]))[at]  # type: ignore[misc]

        def write(frame: DataFrame, batch_id: int, table: TableSink, at: int) -> None:
            batches[at] = batch_id
            if isinstance(table, DeltaTable) and (step, batch) == ("written", batch_id):
                note = directory / "delta-writes"
                threading.Thread(target=wait_for_note, args=(note, death, batch), daemon=True).start()
                table = replace(table, observe=lambda step: None)
                frame = frame.mapInArrow(partial(hold, note=str(note)), frame.schema)
            table(frame, batch_id)

        frame = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(directory / "input"))
        queries.append(
            frame.writeStream.foreachBatch(partial(write, table=table, at=at))
            .option("checkpointLocation", str(directory / "checkpoints" / table.query))
            .trigger(availableNow=True)
            .start()
        )
    for query in queries:
        query.awaitTermination()


def main() -> None:
    directory, connection, step, batch = Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])
    settings = {
        "spark.jars": ",".join(peers.delta_jars()),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.snapshotPartitions": "1",
    }
    with spark_session(directory / "spark", settings) as spark:
        run(spark, directory, connection, step, batch)


if __name__ == "__main__":
    main()
