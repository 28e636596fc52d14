"""`spark.readStream.format("ottla")`: the driver's side of a streaming query.

Spark runs one process per query and asks it for the end of each batch and for its tasks; the answers go into
the checkpoint. Rules: equal offsets give equal records, even after a crash; a batch never ends before it
begins; lost records are reported, never skipped silently.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from ottla.client.values import TopicPartition
from ottla.spark.batch import Task, shape_of
from ottla.spark.batch_plan import missing_topic
from ottla.spark.batch_ranges import Offsets, available, limited, limited_bytes, spans_between, tasks
from ottla.spark.offset_resolution import DataLoss, report_loss, resolve
from ottla.spark.offsets import CheckpointError, StreamOffset
from ottla.spark.settings import ReadSettings, read_settings

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from ottla.spark.topic_watch import Topics, Watch

log = logging.getLogger("ottla.spark")

_SIZES_SECONDS = 60.0


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Created again in each process; only the settings and the schema are pickled."""

    def __init__(self, settings: ReadSettings, schema: StructType) -> None:
        self.settings = settings
        self.schema = schema
        self._driver: Driver | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"settings": self.settings, "schema": self.schema, "_driver": None}

    @property
    def driver(self) -> Driver:
        if self._driver is None:
            self._driver = Driver(self.settings)
        return self._driver

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - these are Spark's names
        return self.driver.initial().to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        settings = self.settings
        if settings.max_offsets is not None:
            return ReadMaxRows(settings.max_offsets)
        if settings.max_bytes is not None:
            return ReadMaxBytes(settings.max_bytes)
        if settings.min_offsets is not None:
            return ReadMinRows(settings.min_offsets)
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        end = self.driver.next_end(
            StreamOffset.from_json(start), is_limited=not isinstance(limit, ReadAllAvailable)
        )
        return start if end is None else end.to_json()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self.driver.stop_at_latest()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        latest = self.driver.seen
        return None if latest is None else latest.to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        planned = self.driver.tasks(StreamOffset.from_json(start), StreamOffset.from_json(end))
        return [Task(spans) for spans in planned]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from ottla.spark.schema import finisher
        from ottla.spark.task_reader import read_spans

        assert isinstance(partition, Task)
        return read_spans(self.settings, partition.spans, finisher(self.schema, self.settings))

    def commit(self, end: dict[str, Any]) -> None:
        self.driver.done(StreamOffset.from_json(end))

    def stop(self) -> None:
        if self._driver is not None:
            self._driver.close()


def stream_reader(options: Mapping[str, str], schema: StructType) -> DataSourceStreamReader:
    """Create the reader for Spark."""
    from ottla.spark.schema import check_schema

    settings = read_settings(options, streaming=True)
    check_schema(schema, settings)
    return StreamReader(settings, schema)


class Driver:
    """The state of a query between batches. None of it is needed after a crash."""

    def __init__(self, settings: ReadSettings, watch: Watch | None = None) -> None:
        from ottla.spark.topic_watch import Watch

        self.settings = settings
        self.watch = Watch(settings) if watch is None else watch
        self.seen: StreamOffset | None = None
        self._first: StreamOffset | None = None
        self._target: dict[TopicPartition, int] | None = None
        self._batch_at = time.monotonic()
        self._committed: Mapping[TopicPartition, int] = {}
        self._sizes: dict[TopicPartition, float] = {}
        self._sizes_at = -_SIZES_SECONDS

    def close(self) -> None:
        self.watch.close()

    def initial(self) -> StreamOffset:
        """The start of a query without a checkpoint."""
        topics = self.watch.topics()
        if topics.missing:
            raise missing_topic(topics.missing[0], self.settings)
        start = resolve(
            self.settings.starting,
            topics.partitions,
            self.watch,
            latest_where_no_time=self.settings.latest_where_no_time,
        )
        self._first = StreamOffset(start, topics.ids)
        return self._first

    def stop_at_latest(self) -> None:
        """Trigger.AvailableNow: ignore records that arrive from now on."""
        topics = self.watch.topics()
        self._target = self.watch.latest(topics.partitions)

    def next_end(self, start: StreamOffset, *, is_limited: bool) -> StreamOffset | None:
        """The end of the next batch; None if there is nothing to read yet."""
        self.done(start)
        topics, latest = self.watch.refresh(start.offsets)
        self.seen = StreamOffset(latest, topics.ids)
        begin, starts = self._begin(start, topics)
        ends = self._ends(begin, latest)
        if is_limited:
            ends = self._limited(begin, ends)
        if not available(begin, ends) and begin.keys() == start.offsets.keys():
            self.watch.flush_commits()  # Trigger.AvailableNow ends this process next
            return None
        self._batch_at = time.monotonic()
        return StreamOffset(ends, topics.ids, starts)

    def _begin(
        self, start: StreamOffset, topics: Topics
    ) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
        """The start of each partition, and those starts that the next offset must store."""
        begin = {key: offset for key, offset in start.offsets.items() if key in topics.partitions}
        known = {key.topic for key in start.offsets}
        never = [topic for topic in topics.missing if topic not in known]
        if never and self.settings.fail_on_data_loss:
            raise missing_topic(never[0], self.settings)
        removed = sorted(start.offsets.keys() - topics.partitions)
        if removed:
            self._report_removed(removed, start, topics)
        new = topics.partitions - start.offsets.keys()
        for topic in self._recreated(start, topics):
            anew = [key for key in begin if key.topic == topic]
            new |= set(anew)
        starts: dict[TopicPartition, int] = {}
        if new:
            starts.update(self._starts_of_new(new))
            begin.update(starts)
        if self._first is not None and start.offsets == self._first.offsets:
            starts = dict(begin)
        return begin, starts

    def _starts_of_new(
        self, new: frozenset[TopicPartition] | set[TopicPartition]
    ) -> dict[TopicPartition, int]:
        if self._target is not None:
            new = {key for key in new if key in self._target}
        return self.watch.earliest(new) if new else {}

    def _report_removed(self, removed: list[TopicPartition], start: StreamOffset, topics: Topics) -> None:
        key = removed[0]
        is_deleted = key.topic in topics.missing or (
            key.topic not in topics.ids and self.settings.selection.pattern is not None
        )
        if is_deleted:
            report_loss(
                f"The topic {key.topic} was deleted, including the unread records of partition "
                f"{key.partition} from offset {start.offsets[key]}.",
                fails=self.settings.fail_on_data_loss,
            )
            return
        message = (
            f"The checkpoint has offsets of {key}, but this query reads {self.settings.selection}: the "
            "subscription has changed."
        )
        if self.settings.fail_on_data_loss:
            raise CheckpointError(
                f"{message} Use a new checkpointLocation for the query, or set failOnDataLoss to false to "
                "continue without that partition."
            )
        log.warning("%s", message)

    def _recreated(self, start: StreamOffset, topics: Topics) -> list[str]:
        """Topics whose id has changed since their offsets were stored."""
        anew = sorted(
            topic for topic, one in topics.ids.items() if topic in start.ids and start.ids[topic] != one
        )
        for topic in anew:
            report_loss(
                f"The topic {topic} was deleted and recreated: unread records of the old topic are lost, "
                "and the offsets in the checkpoint are not valid for the new one.",
                fails=self.settings.fail_on_data_loss,
            )
        return anew

    def _ends(self, begin: Offsets, latest: Offsets) -> dict[TopicPartition, int]:
        ends = {}
        for key, offset in begin.items():
            end = latest[key]
            if self._target is not None:
                end = min(end, self._target.get(key, offset))
            if latest[key] < offset:
                raise DataLoss(
                    f"{key} should continue at offset {offset}, but its log ends at {latest[key]}: it was "
                    "truncated, or the topic was deleted and recreated. Start over with a new "
                    "checkpointLocation."
                )
            ends[key] = max(end, offset)
        return ends

    def _limited(self, begin: Offsets, ends: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
        settings = self.settings
        waiting = available(begin, ends)
        if settings.min_offsets is not None and self._target is None:
            waited_ms = (time.monotonic() - self._batch_at) * 1000
            if waiting < settings.min_offsets and waited_ms < settings.max_delay_ms:
                return dict(begin)
        if settings.max_offsets is not None:
            ends = limited(begin, ends, settings.max_offsets)
        if settings.max_bytes is not None:
            ends = limited_bytes(begin, ends, settings.max_bytes, self._sizes_of(ends))
        return ends

    def _sizes_of(self, offsets: Offsets) -> dict[TopicPartition, float]:
        now = time.monotonic()
        if now - self._sizes_at >= _SIZES_SECONDS or not offsets.keys() <= self._sizes.keys():
            self._sizes = self.watch.sizes(offsets)
            self._sizes_at = now
        return self._sizes

    def tasks(self, start: StreamOffset, end: StreamOffset) -> list[list[Any]]:
        """The ranges of each task of a batch. Starts stored in the end offset take precedence."""
        begin = {**start.offsets, **end.starts}
        unknown = end.offsets.keys() - begin.keys()  # from a checkpoint of Spark's own connector
        if unknown:
            begin.update(self.watch.earliest(unknown))
        spans = spans_between(begin, end.offsets, end.ids)
        sizes = self._sizes_of(end.offsets) if self.settings.bytes_per_task_max is not None else None
        return tasks(spans, shape_of(self.settings), sizes)

    def done(self, offset: StreamOffset) -> None:
        """Commit the offsets to the group: everything before them is processed."""
        if self._first is not None and offset.offsets == self._first.offsets:
            return  # nothing has been read yet
        if offset.offsets != self._committed:
            self._committed = dict(offset.offsets)
            self.watch.commit(offset.offsets)
