"""The batch reader behind `spark.read.format("ottla")`.

Spark creates a reader in a planning process, asks it for the tasks, and sends it to them. Rule: the end
offsets are fixed when the tasks are planned, so a frame that one plan reads twice has the same records both
times.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from ottla.client.values import Range
from ottla.spark.batch_ranges import Shape, tasks
from ottla.spark.settings import ReadSettings, read_settings

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from ottla.spark.filters import Filters

_PUSHDOWN_WORKER = "pyspark.sql.worker.data_source_pushdown_filters"


class Task(InputPartition):
    """The offset ranges that one task reads."""

    def __init__(self, spans: list[Range]) -> None:
        self.spans = spans


def shape_of(settings: ReadSettings) -> Shape:
    return Shape(
        settings.tasks_min,
        settings.records_per_task_max,
        settings.records_per_task_min,
        settings.bytes_per_task_max,
    )


class BatchReader(DataSourceReader):
    """Reads without filters; Spark uses it when filter pushdown is off."""

    def __init__(self, settings: ReadSettings, schema: StructType) -> None:
        self.settings = settings
        self.schema = schema
        self.filters: Filters | None = None

    def partitions(self) -> list[InputPartition]:
        from ottla.spark.batch_plan import plan_batch
        from ottla.spark.topic_watch import Watch

        watch = Watch(self.settings)
        try:
            spans = plan_batch(self.settings, watch, self.filters)
            sizes = watch.sizes({span.key for span in spans}) if self.settings.bytes_per_task_max else None
        finally:
            watch.close()
        return [Task(part) for part in tasks(spans, shape_of(self.settings), sizes)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from ottla.spark.schema import finisher
        from ottla.spark.task_reader import read_spans

        spans = (
            partition.spans if isinstance(partition, Task) else []
        )  # Spark starts one task even for an empty plan
        return read_spans(self.settings, spans, finisher(self.schema, self.settings), self.filters)


class FilteringReader(BatchReader):
    """Accepts filters on topic, partition, offset and timestamp from Spark."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        from ottla.spark.filters import Filters

        self.filters, left = Filters.of(filters)
        return left


def batch_reader(options: Mapping[str, str], schema: StructType) -> DataSourceReader:
    """Create the reader for Spark.

    Spark fails if a reader has `pushFilters` while `spark.sql.python.filterPushdown.enabled` is off, so only
    the process that pushes filters down gets a FilteringReader.
    """
    import sys

    from ottla.spark.schema import check_schema

    settings = read_settings(options, streaming=False)
    check_schema(schema, settings)
    main: Any = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    pushes = _PUSHDOWN_WORKER in sys.modules or getattr(spec, "name", None) == _PUSHDOWN_WORKER
    return (FilteringReader if pushes else BatchReader)(settings, schema)
