"""Delta tables: Delta's log itself stores the last batch of each writer (txnAppId, txnVersion).

Rule: the writer's name in Delta combines the query and its checkpoint, so batches of a new checkpoint are
never mistaken for repeated ones; the table's history reveals a new checkpoint, which is refused.
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
_known: set[tuple[str, str, str]] = set()  # writers with checked history, which costs a Spark job


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaTable(TableSink):
    """Appends batches to the Delta table at `path`. Every `optimize_batches` batches it compacts small
    files."""

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
        self.observe("written")  # Delta writes and commits in one call
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
        """Add a note to the history that allows another checkpoint next."""
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
    """The newest marker of this query in the table's history; None if there is none."""
    from pyspark.errors import AnalysisException

    try:
        texts = spark.sql(f"DESCRIBE HISTORY delta.`{path}`").select("userMetadata").collect()
    except AnalysisException:  # the table does not exist yet
        return None
    markers = (Marker.from_text(text) for (text,) in texts if text and '"checkpoint"' in text)
    return next((marker for marker in markers if marker.query == query), None)
