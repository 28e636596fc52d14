"""Delta tables: Delta itself keeps the last batch of each writer (txnAppId, txnVersion) in its log.

Rule: the writer's name for Delta is the query and its checkpoint, so batches of a new checkpoint are never
taken for repeated ones; that the checkpoint is a new one is seen in the table's history and refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.spark.tables.base import TableSink
from ottla.spark.tables.marker import RELEASED, Marker, TableError, is_done

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PACKAGE = "io.delta:delta-spark_4.2_2.13:4.4.0"
_USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
_known: set[tuple[str, str, str]] = set()  # writers whose history was looked at: it takes a job of Spark's


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaTable(TableSink):
    """Batches appended to the Delta table at `path`. `optimize_batches` joins small files every so often."""

    path: str
    partition_by: tuple[str, ...] = ()
    optimize_batches: int = 0

    def write(self, frame: DataFrame, marker: Marker) -> None:
        from pyspark.errors import PySparkException

        spark = frame.sparkSession
        writer_key = (self.path, marker.query, marker.checkpoint)
        if writer_key not in _known:
            if is_done(last_marker(spark, self.path, self.query), marker, self.path):
                return
            _known.add(writer_key)
        writer = (
            frame.write.format("delta")
            .mode("append")
            .option("txnAppId", f"{marker.query}/{marker.checkpoint}")
            .option("txnVersion", marker.batch)
            .option("userMetadata", marker.to_text())
        )
        if self.partition_by:
            writer = writer.partitionBy(*self.partition_by)
        self.observe("written")  # Delta writes and commits in one call: nothing can be seen in between
        try:
            writer.save(self.path)
        except PySparkException as error:
            if error.getCondition() == "DATA_SOURCE_NOT_FOUND":
                raise TableError(
                    f"Delta is not available in Spark. Start it with spark.jars.packages={PACKAGE}."
                ) from error
            raise
        self.observe("committed")
        if self.optimize_batches and (marker.batch + 1) % self.optimize_batches == 0:
            spark.sql(f"OPTIMIZE delta.`{self.path}`")

    def forget(self) -> None:
        """The history gets a note that the next checkpoint may be another."""
        from pyspark.sql import SparkSession

        spark = SparkSession.getActiveSession()
        if spark is None:
            raise TableError(f"Delta needs a running Spark to let {self.path} accept a new checkpoint.")
        if last_marker(spark, self.path, self.query) is None:
            return
        spark.conf.set(_USER_METADATA, Marker(self.query, RELEASED, -1).to_text())
        try:
            spark.sql(f"ALTER TABLE delta.`{self.path}` SET TBLPROPERTIES ('ottla.query' = 'released')")
        finally:
            spark.conf.unset(_USER_METADATA)
        _known.clear()


def last_marker(spark: SparkSession, path: str, query: str) -> Marker | None:
    """The newest marker of this query in the table's history; None where there is none."""
    from pyspark.errors import AnalysisException

    try:
        texts = spark.sql(f"DESCRIBE HISTORY delta.`{path}`").select("userMetadata").collect()
    except AnalysisException:  # there is no table yet
        return None
    markers = (Marker.from_text(text) for (text,) in texts if text and '"checkpoint"' in text)
    return next((marker for marker in markers if marker.query == query), None)
