"""Runs a pipeline: one query per sink, with progress reports and restarts.

Rule: a query continues from its checkpoint, however it ended. A failed query restarts as the restart policy
says while the others continue; when it has no attempts left, all queries stop and the reason is reported.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ottla.spark.pipeline.build import Builder, Output, columns_for_topic
from ottla.spark.pipeline.model import (
    ConsoleTarget,
    DatabaseTarget,
    Delivery,
    FileTarget,
    IcebergTarget,
    Pipeline,
    Sink,
    TopicTarget,
)
from ottla.spark.pipeline.progress import Progress, is_idle, progress_of
from ottla.spark.tables import (
    DeltaTable,
    IcebergTable,
    ParquetTable,
    PostgresTable,
    SqliteTable,
    TableSink,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

PAUSE_SECONDS = 0.25
_SOURCES_SECONDS = 60.0
_TOO_SLOW = "Python worker failed to connect back"  # the machine is busy; the query is not at fault
_SLOW_STARTS = 20


class QueryFailed(RuntimeError):
    """A query failed more often than the restart policy allows; the message says why."""


def table_of(pipeline: Pipeline, sink: Sink) -> TableSink | None:
    """The table sink for a table or file target; None for other targets."""
    query = f"{pipeline.name}.{sink.name}"
    match sink.target:
        case FileTarget(kind="parquet") as to:
            return ParquetTable(
                query=query,
                path=to.path,
                partition_by=to.partition_by,
                files=to.files,
                compact_batches=to.compact_batches,
            )
        case FileTarget() as to:
            return DeltaTable(
                query=query, path=to.path, partition_by=to.partition_by, optimize_batches=to.compact_batches
            )
        case IcebergTarget() as to:
            return IcebergTable(query=query, table=to.table, catalog=to.catalog, catalog_name=to.catalog_name)
        case DatabaseTarget(kind="postgres") as to:
            return PostgresTable(
                query=query, connection=to.address, table=to.table, key=to.key, version=to.version
            )
        case DatabaseTarget() as to:
            return SqliteTable(
                query=query, database=to.address, table=to.table, key=to.key, version=to.version
            )
        case _:
            return None


def transactional_id_of(pipeline: Pipeline, sink: Sink) -> str:
    """The transactional id of the sink."""
    given = sink.target.transactional_id if isinstance(sink.target, TopicTarget) else None
    return given or f"{pipeline.name}.{sink.name}"


def _writer(pipeline: Pipeline, builder: Builder, output: Output) -> DataStreamWriter:
    sink = output.sink
    if isinstance(sink.target, TopicTarget):
        from ottla.spark.sink import write_stream

        is_exact = sink.target.delivery is Delivery.EXACTLY_ONCE
        client = dict(builder.client)
        servers = client.pop("bootstrap.servers")
        given: dict[str, Any] = {"delivery": sink.target.delivery.replace("_", "-"), **sink.target.options}
        rows = columns_for_topic(output.frame, sink.target)
        if type(rows).__module__.startswith("pyspark.sql.connect"):
            # Spark Connect's foreachBatch has no query id. The format is exactly once there, too.
            given |= {f"kafka.{name}": value for name, value in builder.client.items()}
            given |= {"transactionalId": transactional_id_of(pipeline, sink)} if is_exact else {}
            return rows.writeStream.format("ottla").options(topic=sink.target.topic, **given)
        return write_stream(
            rows,
            sink.target.topic,
            bootstrap_servers=servers,
            transactional_id=transactional_id_of(pipeline, sink) if is_exact else None,
            client=client,
            **given,
        )
    table = table_of(pipeline, sink)
    if table is not None:
        return _visible(output.frame).writeStream.foreachBatch(table)
    assert isinstance(sink.target, ConsoleTarget), "There is no other kind."
    return output.frame.writeStream.format("console").option("numRows", sink.target.rows)


def _visible(frame: DataFrame) -> DataFrame:
    """Drop the record's own columns, whose names begin with `_`."""
    return frame.drop(*(name for name in frame.columns if name.startswith("_")))


@dataclass(slots=True)
class _RunningQuery:
    """A query and its state."""

    output: Output
    query: StreamingQuery | None
    progress: Progress
    last_report: tuple[str, str] = ("", "")  # its run id and timestamp
    attempts: int = 0
    slow_starts: int = 0
    next_attempt_at: float = 0.0
    is_done: bool = False


class Runner:
    """Starts the queries and watches them until all have ended or `stop` is called."""

    def __init__(
        self,
        pipeline: Pipeline,
        builder: Builder,
        outputs: list[Output],
        *,
        once: bool,
        report: Callable[[Progress], None],
    ) -> None:
        self._pipeline, self._builder, self._once, self._report = pipeline, builder, once, report
        self._running = [_RunningQuery(one, None, Progress(one.sink.name, "starting")) for one in outputs]
        self._is_stopped = False

    @property
    def progress(self) -> list[Progress]:
        """The latest progress of each sink."""
        return [one.progress for one in self._running]

    def stop(self) -> None:
        """Make `run` return after the running batches complete or are abandoned; Spark repeats the latter."""
        self._is_stopped = True

    def run(self, each_round: Callable[[], None] = lambda: None) -> None:
        """Run until all data is read (`once`) or until `stop`; raises QueryFailed if a query cannot
        continue."""
        try:
            for one in self._running:
                self._start(one)
                self._wait_for_sources(one)
            while not self._is_stopped and not all(one.is_done for one in self._running):
                for one in self._running:
                    self._check(one)
                each_round()
                time.sleep(PAUSE_SECONDS)
        finally:
            for one in self._running:
                if one.query is not None and one.query.isActive:
                    one.query.stop()

    def _start(self, one: _RunningQuery) -> None:
        sink = one.output.sink
        writer = _writer(self._pipeline, self._builder, one.output).queryName(
            f"{self._pipeline.name}.{sink.name}"
        )
        writer = writer.outputMode(sink.mode.value)
        writer = writer.option("checkpointLocation", checkpoint_of(self._pipeline, sink.name))
        if self._once:
            writer = writer.trigger(availableNow=True)
        else:
            writer = writer.trigger(processingTime=sink.trigger or self._pipeline.trigger)
        try:
            one.query = writer.start()
        except Exception as error:  # noqa: BLE001 - Spark raises anything here, as a query does later
            self._failed(one, error)
            return
        self._show(one, replace(one.progress, state="running", error=None))

    def _wait_for_sources(self, one: _RunningQuery) -> None:
        """Wait until a query has its Python processes before the next query starts its own.

        Spark gives each process ten seconds to start. On a busy machine all together may take longer.
        """
        deadline = time.monotonic() + _SOURCES_SECONDS
        while one.query is not None and one.query.isActive and time.monotonic() < deadline:
            if self._is_stopped or "nitializing" not in str(one.query.status["message"]):
                return
            time.sleep(0.05)

    def _check(self, one: _RunningQuery) -> None:
        if one.is_done:
            return
        if one.query is None:
            if time.monotonic() >= one.next_attempt_at:
                self._start(one)
            return
        self._read_progress(one, one.query)
        if one.query.isActive:
            return
        error = one.query.exception()
        self._read_progress(one, one.query)
        if error is not None:
            self._failed(one, error)
        else:
            one.is_done = True
            self._show(one, replace(one.progress, state="done"))

    def _read_progress(self, one: _RunningQuery, query: StreamingQuery) -> None:
        for status in query.recentProgress:
            report = json.loads(status.json) if hasattr(status, "json") else dict(status)
            when = (str(query.runId), str(report["timestamp"]))
            if when[0] == one.last_report[0] and when <= one.last_report:
                continue
            one.last_report = when
            before = one.progress
            progress = progress_of(
                before.sink, report, rows_before=before.rows_total, restarts=before.restarts
            )
            if is_idle(report):  # an idle report has the number of the next batch
                one.progress = replace(progress, batch=before.batch, batch_ms=before.batch_ms)
                continue
            one.attempts = one.slow_starts = 0
            self._show(one, progress)

    def _failed(self, one: _RunningQuery, error: Exception) -> None:
        policy = self._pipeline.restart
        reason = reason_of(error)
        is_slow = _TOO_SLOW in reason
        one.attempts += not is_slow
        one.slow_starts += is_slow
        one.query = None
        if (
            one.attempts > policy.attempts
            or one.slow_starts > max(policy.attempts, _SLOW_STARTS)
            or is_permanent(error)
        ):
            self._show(one, replace(one.progress, state="failed", error=reason))
            raise QueryFailed(f"The sink {one.progress.sink!r} failed: {reason}") from error
        one.next_attempt_at = time.monotonic() + policy.delay_of(max(1, one.attempts)) / 1000
        self._show(
            one, replace(one.progress, state="restarting", error=reason, restarts=one.progress.restarts + 1)
        )

    def _show(self, one: _RunningQuery, progress: Progress) -> None:
        one.progress = progress
        self._report(progress)


def checkpoint_of(pipeline: Pipeline, sink: str) -> str:
    return f"{pipeline.checkpoint.rstrip('/')}/{sink}"


_PERMANENT = {"CheckpointChanged", "TableError", "OtherQuery", "Fenced", "MarkerMissing", "OptionError"}
_BAD_ROW = ("A record of the source", "A row of the step")
_OURS = ("ottla.", "psycopg.", "sqlite3.", "pyiceberg.")
_RAISED = "[USER_RAISED_EXCEPTION] "


def is_permanent(error: Exception) -> bool:
    """Whether a retry would fail again, because the data or the setup is wrong."""
    name, reason = _named_reason(error)
    return name in _PERMANENT or reason.startswith(_BAD_ROW)


def reason_of(error: Exception) -> str:
    """The message of the innermost Python error in a failed query, or else Spark's own message."""
    return _named_reason(error)[1]


def _named_reason(error: Exception) -> tuple[str, str]:
    """The class and message of the error. Query plans may contain similar text, so only error lines count."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    for line in lines:
        if _RAISED in line and "raise_error(" not in line:
            return "", line.partition(_RAISED)[2].partition(" SQLSTATE")[0]
    for line in reversed(lines):
        head, mark, rest = line.partition(": ")
        name = head.rpartition(".")[2]
        if mark and rest and head.startswith(_OURS) and " " not in head and name[:1].isupper():
            return name, rest
    own = next((line for line in lines if line.startswith("[")), lines[0] if lines else type(error).__name__)
    return "", own.partition(" SQLSTATE")[0]
