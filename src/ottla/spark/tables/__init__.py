"""Tables that write each micro-batch once: functions for `writeStream.foreachBatch`.

    frame.writeStream.foreachBatch(PostgresTable(query="totals", connection=..., table="totals", key=["id"]))

Spark repeats a batch if its driver died between the write and Spark's own commit. Rule: the rows and the
marker of a batch become visible together, so that a repeated batch is recognized and skipped.
"""

from ottla.spark.tables.base import TableSink
from ottla.spark.tables.delta import DeltaTable
from ottla.spark.tables.iceberg import IcebergTable
from ottla.spark.tables.marker import CheckpointChanged, TableError
from ottla.spark.tables.parquet import ParquetTable
from ottla.spark.tables.postgres import PostgresTable
from ottla.spark.tables.sqlite import SqliteTable

__all__ = [
    "CheckpointChanged",
    "DeltaTable",
    "IcebergTable",
    "ParquetTable",
    "PostgresTable",
    "SqliteTable",
    "TableError",
    "TableSink",
]
