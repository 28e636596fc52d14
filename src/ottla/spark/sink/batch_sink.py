"""The sink of a query, for `foreachBatch`: one transaction per micro-batch, which all tasks write in.

    cluster   rows --Build--> batches of partitions --shuffle: one writer for each partition--Send--> brokers
    local     rows --Build--> batches of partitions --Send, tasks take turns at each partition--> brokers
    driver    prepare .................................................. checks, marker, end of transaction

Rules: each target partition has one writer task at a time, of the first attempt of its stage; the driver
commits only after its checks pass. A failed batch is aborted and retried as a whole, with a new epoch.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

from ottla.spark.sink.columns import columns_of
from ottla.spark.sink.errors import Fenced, RetryRefused, SinkError, TransactionTooShort, WritersOverlap
from ottla.spark.sink.options import JSON, SinkOptions
from ottla.spark.sink.tasks import (
    BUILT_SCHEMA,
    QUERY_ID,
    REPORT_SCHEMA,
    TOO_MUCH,
    Build,
    BuildAndSend,
    Send,
    built_of,
)
from ottla.spark.sink.transaction import SharedTransaction
from ottla.spark.sink.turns import SEQUENCES, Turns

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import Column, DataFrame

    from ottla.client.core.transactions import Handle
    from ottla.spark.sink.row_builder import BuiltBatch

log = logging.getLogger(__name__)

_TRACKER_SECONDS = 60.0
_SMALL_BYTES = 2 << 20
"""The most bytes that tasks may build for the driver to send: below it, a second stage costs more than it
saves."""
_SMALL_ROWS = 4096
"""The most rows that the driver itself builds into batches: below it, Python in tasks costs more."""
_ROW_NUMBER = "monotonically_increasing_id() & 8589934591"
"""The row's number within its task: the function has the task's number in the bits above these 33."""
_CANCELLED = "SPARK_JOB_CANCELLED"
_PERMANENT = (Fenced, TransactionTooShort)
"""Errors that a retry would meet again."""


class BatchSink:
    """Writes each micro-batch of a query once. `foreachBatch` calls it with one batch after the other."""

    def __init__(self, options: SinkOptions) -> None:
        self.options = options
        self.transaction = SharedTransaction(options)
        self.small_bytes = _SMALL_BYTES
        self.takes_turns = True
        """Whether tasks take turns at partitions when all run on this machine, which needs no shuffle."""
        self._is_small = True
        """Whether recent batches were so small that the driver sends them itself."""
        self._rows_max = 0
        """The most rows, by the last batch's row size, that the driver builds itself; 0 if unknown."""
        self._among_first: dict[int, Column] = {}
        self._first = 0
        """The first partition for rows without a key when the driver builds them."""

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        query_id = query_id_of(frame)
        if self._with_retries(frame, lambda: self.transaction.prepare(query_id, batch_id)) is None:
            log.warning("Batch %d was already written; skipping it", batch_id)
        else:
            self.transaction.commit(query_id, batch_id)

    def write_all(self, frame: DataFrame) -> int:
        """Write a frame that is not a stream, in one transaction; return the number of rows."""
        self._is_small = False  # latency does not matter, and its size is unknown

        def begin() -> bool:
            self.transaction.begin()
            return True

        records = self._with_retries(frame, begin) or 0
        if records:
            self.transaction.commit()
        self.transaction.close()
        return records

    def _with_retries(self, frame: DataFrame, begin: Callable[[], bool]) -> int | None:
        """Write the rows, with retries; None if `begin` found nothing to do."""
        for left in reversed(range(self.options.attempts)):
            if not begin():
                return None
            try:
                return self.write(frame)
            except Exception as error:
                cause = self.transaction.explain(error)
                if _CANCELLED in str(error):
                    raise  # the query was stopped
                if cause is not None and (isinstance(cause, _PERMANENT) or not left):
                    raise cause from error
                if not left:
                    raise
                log.warning("Aborted a batch, retrying: %s", _first_line(error))
        raise AssertionError("the last attempt returns or raises")

    def write(self, frame: DataFrame) -> int:
        """Write the rows in the open transaction; return their number."""
        frame = with_values(frame, self.options)
        options = plain(self.options)
        columns = columns_of(frame.schema, options)
        counts = (
            {} if options.topic is None else {options.topic: self.transaction.partitions_of(options.topic)}
        )
        build = Build(options, columns, counts)
        records = self._write_small(frame, build) if self._is_small and self.small_bytes else None
        if records is None:
            reports = self._run(frame, build, options)
            records = sum(report.records for report in reports)
            self._is_small = sum(report.bytes for report in reports) < self.small_bytes
        return records

    def _run(self, frame: DataFrame, build: Build, options: SinkOptions) -> list[Any]:
        handle = self.transaction.share()
        context = frame.sparkSession.sparkContext
        if not self.takes_turns or not context._jsc.sc().isLocal():
            return run_tasks(frame, build, self.sender(options, handle, None))
        with tempfile.TemporaryDirectory(dir=context._temp_dir, ignore_cleanup_errors=True) as directory:
            return run_in_turns(frame, build, self.sender(options, handle, Turns(directory)))

    def sender(self, options: SinkOptions, handle: Handle, turns: Turns | None) -> Send:
        """The value that tasks send with."""
        return Send(options, handle, turns)

    def _write_small(self, frame: DataFrame, build: Build) -> int | None:
        """Send a small batch from the driver; None if the batch is too large, in which case nothing was
        sent."""
        rows_max, self._rows_max = self._rows_max, 0  # unknown unless this succeeds
        built = self._built_here(frame, build, rows_max) if rows_max else self._built_by_tasks(frame, build)
        if built is None:
            self._is_small = False
            return None
        self.transaction.share()
        producer = self.transaction.producer
        records = size = 0
        for one in built:
            producer.send_batches(one.topic, [(one.partition, memoryview(one.data))])
            records += one.records
            size += len(one.data)
        if records:
            rows_max = _power_of_two_below(self.small_bytes * records // size)
        self._rows_max = (
            rows_max if 2 * records <= rows_max else 0
        )  # too near the limit, the next would often exceed it
        return records

    def _built_by_tasks(self, frame: DataFrame, build: Build) -> list[BuiltBatch] | None:
        """Let tasks build the batches; None if they are too large."""
        built = frame.mapInArrow(replace(build, bytes_max=self.small_bytes), BUILT_SCHEMA).toArrow()
        if TOO_MUCH in built["slot"].to_pylist():
            return None
        return list(built_of(built.to_batches()))

    def _built_here(self, frame: DataFrame, build: Build, rows_max: int) -> list[BuiltBatch] | None:
        """Build the batches here if there are few rows, so that no task needs Python; None if there are too
        many."""
        from pyspark.sql.functions import expr

        if rows_max not in self._among_first:
            self._among_first[rows_max] = expr(
                f"({_ROW_NUMBER}) <= {rows_max}"
            )  # one extra row reveals that there are more
        rows = frame.where(self._among_first[rows_max]).toArrow()
        if rows.num_rows > rows_max:
            return None
        self._first += 1
        return list(replace(build, first=self._first).built(rows.to_batches()))


def _power_of_two_below(rows: int) -> int:
    """Round down to a power of two, or 0: Spark compiles a plan for each limit, so it must seldom change."""
    return min(_SMALL_ROWS, 1 << rows.bit_length() >> 1)


def query_id_of(frame: DataFrame) -> str:
    """The id of the query that this thread serves. It stays the same for the lifetime of a checkpoint."""
    found = frame.sparkSession.sparkContext.getLocalProperty(QUERY_ID)
    if not found:
        raise SinkError(
            "The sink is for foreachBatch of a streaming query. For a DataFrame use ottla.spark.write."
        )
    return found


def with_values(frame: DataFrame, options: SinkOptions) -> DataFrame:
    """Add the column value, if Spark itself can compute it from the others."""
    if options.value_format != JSON:
        return frame
    from pyspark.sql.functions import col, struct, to_json

    columns = columns_of(frame.schema, options)
    used = [columns.key, columns.topic, columns.partition, columns.headers]
    kept = [col(f"`{name}`") for name in dict.fromkeys(name for name in used if name is not None)]
    fields = [col(f"`{name}`") for name in columns.fields]
    return frame.select(*kept, to_json(struct(*fields)).alias("value"))


def plain(options: SinkOptions) -> SinkOptions:
    """The options for rows that already have their value."""
    return replace(options, value_format="binary") if options.value_format == JSON else options


def run_tasks(frame: DataFrame, build: Build, send: Send) -> list[Any]:
    """Let tasks write the rows of a frame; check and return their reports."""
    context = frame.sparkSession.sparkContext
    options = build.options
    slots = options.writers or context.defaultParallelism
    if options.topic is not None:
        slots = min(slots, build.counts[options.topic])
    build = replace(build, slots=slots)
    if partitions_of(frame) <= 1:
        sent = frame.mapInArrow(BuildAndSend(build, send), REPORT_SCHEMA)
    else:
        built = frame.mapInArrow(build, BUILT_SCHEMA)
        placed = built.repartitionById(slots, "slot")
        sent = placed.mapInArrow(send, REPORT_SCHEMA, barrier=wants_barrier(context, slots))
    reports = sent.collect()
    check_epochs(reports, send.handle)
    check_writers(reports)
    check_stages(context, {report.stage for report in reports})
    return reports


def run_in_turns(frame: DataFrame, build: Build, send: Send) -> list[Any]:
    """The same when all tasks run on this machine: each task sends what it has built."""
    assert send.turns is not None
    reports = frame.mapInArrow(BuildAndSend(build, send), REPORT_SCHEMA).collect()
    check_epochs(reports, send.handle)
    check_turns(reports, send.turns)
    check_stages(frame.sparkSession.sparkContext, {report.stage for report in reports})
    return reports


def wants_barrier(context: SparkContext, slots: int) -> bool:
    """Whether writers run in a barrier stage, which excludes speculative copies of tasks.

    Otherwise the sink would refuse each copy of a slow task, until Spark fails the job.
    """

    def is_on(name: str) -> bool:
        return context.getConf().get(name, "false") == "true"

    if not is_on("spark.speculation") or slots > context.defaultParallelism:
        return False
    return not is_on("spark.dynamicAllocation.enabled")


def partitions_of(frame: DataFrame) -> int:
    """The number of tasks that produce the rows."""
    count: int = frame._jdf.queryExecution().toRdd().getNumPartitions()
    return count


def check_epochs(reports: Sequence[Any], handle: Handle) -> None:
    """Check that all writers used the batch's producer id and epoch."""
    for report in reports:
        if (report.producer_id, report.producer_epoch) != (handle.producer_id, handle.producer_epoch):
            raise WritersOverlap(
                f"A task wrote under the producer epoch {report.producer_id}/{report.producer_epoch}, not "
                f"the batch's ({handle.producer_id}/{handle.producer_epoch}): the batch is not committed."
            )


def check_writers(reports: Sequence[Any]) -> None:
    """Check that no two writers wrote to the same partition."""
    writers: dict[tuple[str, int], int] = {}
    for report in reports:
        key = (report.topic, report.partition)
        if writers.setdefault(key, report.task) != report.task:
            raise WritersOverlap(
                f"Two tasks wrote to {report.topic}-{report.partition} within one transaction: the batch is "
                "not committed."
            )


def check_turns(reports: Sequence[Any], turns: Turns) -> None:
    """Check that the tasks' reports match the counts of their turns."""
    cause: dict[tuple[str, int], int] = {}
    for report in reports:
        key = (report.topic, report.partition)
        cause[key] = cause.get(key, 0) + report.records
    if turns.count != len(cause):
        raise WritersOverlap(
            f"Tasks reported {len(cause)} partitions but wrote to {turns.count}: the batch is not committed."
        )
    for (topic, partition), records in cause.items():
        written = turns.written(topic, partition)
        if written != records % SEQUENCES:
            raise WritersOverlap(
                f"Tasks reported {records} records in {topic}-{partition} but wrote {written}: the batch "
                "is not committed."
            )


def check_stages(context: SparkContext, stages: set[int]) -> None:
    """Check that no stage of writers ran twice: tasks of both runs may have written, each from sequence 0.

    Spark runs a stage again if it loses blocks of a shuffle. A task cannot see that; the driver can, once
    Spark has recorded the end of the job.
    """
    if not stages:
        return
    tracker = context.statusTracker()
    deadline = monotonic() + _TRACKER_SECONDS
    while not _has_ended(tracker, context, stages):
        if monotonic() > deadline:
            raise SinkError("Spark does not report whether a stage was rerun: the batch is not committed.")
        sleep(0.002)
    for stage in stages:
        found = tracker.getStageInfo(stage)
        if found is None or found.currentAttemptId:
            raise RetryRefused(
                "Spark reran the writer stage (an executor was lost): the batch is not committed."
            )


def _has_ended(tracker: Any, context: SparkContext, stages: set[int]) -> bool:
    group = context.getLocalProperty("spark.jobGroup.id")
    for job in sorted(tracker.getJobIdsForGroup(group), reverse=True):
        found = tracker.getJobInfo(job)
        if found is not None and stages & set(found.stageIds):
            return bool(found.status == "SUCCEEDED")
    return False


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    cause = [line for line in lines if line.startswith("ottla.")]
    return (cause or lines or [type(error).__name__])[0]
