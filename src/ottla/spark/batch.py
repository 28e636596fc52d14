"""`spark.read.format("ottla")`: what lies between two places of each partition, once.

Spark makes a reader in a planning process, has it name the tasks, and sends it to them. Rule: the ends are
fixed when the tasks are planned, so a data frame that is read twice within one plan is the same both times.
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
    """The ranges that one task reads."""

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
    """Reads without filters: what Spark uses where pushing them down is not enabled."""

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

        spans = partition.spans if isinstance(partition, Task) else []  # Spark has one task where none is
        return read_spans(self.settings, spans, finisher(self.schema, self.settings), self.filters)


class FilteringReader(BatchReader):
    """Takes filters on topic, partition, offset and timestamp over from Spark."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        from ottla.spark.filters import Filters

        self.filters, left = Filters.of(filters)
        return left


def batch_reader(options: Mapping[str, str], schema: StructType) -> DataSourceReader:
    """The reader that Spark asks for.

    A reader that takes filters over is an error for Spark where `spark.sql.python.filterPushdown.enabled` is
    not set, so there is one only in the process that pushes filters down.
    """
    import sys

    from ottla.spark.schema import check_schema

    settings = read_settings(options, streaming=False)
    check_schema(schema, settings)
    main: Any = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    pushes = _PUSHDOWN_WORKER in sys.modules or getattr(spec, "name", None) == _PUSHDOWN_WORKER
    return (FilteringReader if pushes else BatchReader)(settings, schema)
