"""Tables that take each micro-batch once: functions for `writeStream.foreachBatch`.

    frame.writeStream.foreachBatch(PostgresTable(query="totals", connection=..., table="totals", key=["id"]))

Spark runs a batch again when its driver ended between the write and Spark's own commit. Rule: what was
written and the note that it was written become visible in one step, so that a batch which comes again is
known and left out.
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
