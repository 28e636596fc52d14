"""The format "ottla" as Spark sees it: creates readers and writers for batches and streams.

Spark pickles this class by name and instantiates it in its own processes. Rule: it holds only the options,
and imports readers and writers when they are requested.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

FORMAT = "ottla"


class OttlaSource(DataSource):
    """Topics of an Ottla or Kafka cluster as data frames: batch and streaming, read and write."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType | str:
        from ottla.spark.schema import schema_of

        return schema_of(self.options)

    def reader(self, schema: StructType) -> DataSourceReader:
        from ottla.spark.batch import batch_reader

        return batch_reader(self.options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        from ottla.spark.stream import stream_reader

        return stream_reader(self.options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from ottla.spark.sink import batch_writer

        return batch_writer(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        from ottla.spark.sink import stream_writer

        return stream_writer(self.options, schema, overwrite)
