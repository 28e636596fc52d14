"""Checks a pipeline before anything starts: its topics, its columns, its output modes.

Rule: a check creates and starts nothing, and reports all faults together, each at its place.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ottla.config.similar_names import nearest
from ottla.spark.pipeline.build import Builder, Output, check_mode, columns_for_topic
from ottla.spark.pipeline.faults import Fault, Mark, PipelineError
from ottla.spark.pipeline.model import (
    ConsoleTarget,
    DatabaseTarget,
    FileTarget,
    Mode,
    Pipeline,
    Sink,
    TopicTarget,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def topic_faults(pipeline: Pipeline, existing: Iterable[str]) -> list[Fault]:
    """Topics that the pipeline reads or writes and that do not exist."""
    known = set(existing)
    faults = []
    for topics, verb in ((pipeline.topics_read(), "read"), (pipeline.topics_written(), "written")):
        for topic, mark in topics:
            if topic not in known:
                near = nearest(topic, known)
                hint = f" Did you mean {near!r}?" if near else f" Create it with: ottla topic create {topic}"
                faults.append(
                    Fault(mark, f"The topic {topic!r}, which is {verb} here, does not exist.{hint}")
                )
    return faults


def checked_outputs(spark: SparkSession, builder: Builder, file: str) -> list[Output]:
    """Build the frames of all sinks; raises PipelineError if a column, a type or a mode is wrong."""
    outputs = builder.outputs()
    faults = [fault for output in outputs for fault in _output_faults(spark, output)]
    if faults:
        raise PipelineError(faults, file)
    return outputs


def _output_faults(spark: SparkSession, output: Output) -> Iterable[Fault]:
    sink, frame = output.sink, output.frame
    for name, mark in _columns_named(sink):
        if name not in frame.columns:
            near = nearest(name, frame.columns)
            hint = f" Did you mean {near!r}?" if near else f" Known columns: {', '.join(frame.columns)}."
            yield Fault(mark, f"The sink {sink.name!r} refers to the unknown column {name!r}.{hint}")
            return
    if not frame.isStreaming:
        yield Fault(
            sink.mark("from"),
            f"{sink.source!r} is not a stream. At least one of its sources must be a topic, or files with "
            "stream: true.",
        )
        return
    reason = _mode_fault(sink) or check_mode(spark, frame, sink.mode)
    if reason is not None:
        yield Fault(sink.mark("mode"), reason)
    if isinstance(sink.target, TopicTarget):
        from ottla.spark.options import OptionError
        from ottla.spark.sink.columns import columns_of
        from ottla.spark.sink.options import parse

        try:
            options = {"topic": sink.target.topic, "kafka.bootstrap.servers": "-:1", **sink.target.options}
            columns_of(columns_for_topic(frame, sink.target).schema, parse(options, needs_id=False))
        except OptionError as error:
            yield Fault(sink.mark("topic"), " ".join(str(error).split()))


def _columns_named(sink: Sink) -> Iterable[tuple[str, Mark]]:
    match sink.target:
        case TopicTarget() as topic:
            named = {"key": [topic.key], "value": [topic.value]}
        case FileTarget() as files:
            named = {"partition_by": list(files.partition_by)}
        case DatabaseTarget() as database:
            named = {"key": list(database.key), "version": [database.version]}
        case _:
            named = {}
    return [(name, sink.mark(key)) for key, names in named.items() for name in names if name is not None]


def _mode_fault(sink: Sink) -> str | None:
    """The reason why a sink cannot take rows that change."""
    has_key = isinstance(sink.target, DatabaseTarget) and bool(sink.target.key)
    takes = {Mode.APPEND}
    if has_key or isinstance(sink.target, ConsoleTarget):
        takes = set(Mode)
    elif isinstance(sink.target, TopicTarget):
        takes = {Mode.APPEND, Mode.UPDATE}
    if sink.mode in takes:
        return None
    cure = (
        "give it a 'key'" if isinstance(sink.target, DatabaseTarget) else "use mode append with a watermark"
    )
    return (
        f"The mode {sink.mode} rewrites rows, which {sink.target.kind} does not support. To fix this, {cure}."
    )
