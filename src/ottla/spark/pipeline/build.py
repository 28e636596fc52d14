"""Builds Spark data frames from the model: for each sink only the streams that it needs.

Rule: building starts no query. If Spark rejects a statement, an expression or a schema, the error becomes a
fault at its place in the file.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.config.similar_names import nearest
from ottla.spark.pipeline.faults import Fault, Mark, PipelineError
from ottla.spark.pipeline.graph import LETTER_SINK, LETTERS, dead_letter_streams, has_dead_letters, needed_for
from ottla.spark.pipeline.model import (
    BadRows,
    Check,
    Decoding,
    FileSource,
    Mode,
    Pipeline,
    Sink,
    Source,
    Sql,
    Step,
    TopicSource,
    TopicTarget,
    Watermark,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

RECORD_COLUMNS = ("key", "topic", "partition", "offset", "timestamp", "headers")
_WHY = "__ottla_why"
_RAW = "__ottla_value"
_CORRUPT = "__ottla_corrupt"
_ROW = "__ottla_row"


@dataclass(frozen=True, slots=True)
class Output:
    """A query that is ready to start: the frame and its sink."""

    sink: Sink
    frame: DataFrame


class Builder:
    """Builds the frames of one pipeline in one session."""

    def __init__(
        self,
        spark: SparkSession,
        pipeline: Pipeline,
        *,
        file: str,
        servers: str,
        properties: Mapping[str, str],
    ) -> None:
        self._spark, self._pipeline, self._file = spark, pipeline, file
        self._client = {"bootstrap.servers": servers, **properties, **pipeline.properties}
        self.faults: list[Fault] = []

    @property
    def client(self) -> Mapping[str, str]:
        """The client's properties, including the bootstrap servers."""
        return self._client

    def outputs(self) -> list[Output]:
        """Build a frame for each sink and one for all dead letters; raises PipelineError with all faults."""
        self._register_functions()
        found = []
        for sink in self._pipeline.sinks:
            with self._reporting_faults(sink.mark("from")):
                frames = self._streams(sink, sink.source)
                if sink.source in frames:
                    found.append(Output(sink, frames[sink.source]))
        if dead_letter_streams(self._pipeline) and not self.faults:
            found.append(self._dead_letter_output())
        if self.faults:
            raise PipelineError(self.faults, self._file)
        return found

    def _dead_letter_output(self) -> Output:
        """One query for the dead letters of all streams."""
        topic = self._pipeline.dead_letter_topic
        assert topic is not None, "parse.py refuses letters without a topic."
        sink = Sink(
            name=LETTER_SINK,
            source=LETTERS,
            target=TopicTarget(topic=topic, marks=self._pipeline.marks),
            marks={"": self._pipeline.mark("dead_letter")},
        )
        streams = dead_letter_streams(self._pipeline)
        frames = [self._streams(sink, stream.name)[LETTERS + stream.name] for stream in streams]
        return Output(sink, reduce(lambda one, other: one.unionByName(other), frames))

    # --- streams

    def _streams(self, sink: Sink, name: str) -> dict[str, DataFrame]:
        """Build a stream and its inputs, by name, and register them as views for SQL."""
        frames: dict[str, DataFrame] = {}
        for stream in needed_for(self._pipeline, name):
            with self._reporting_faults(stream.mark()):
                self._stream(stream, sink, frames)
        return frames

    def _stream(self, stream: Source | Step, sink: Sink, frames: dict[str, DataFrame]) -> None:
        if isinstance(stream, Step):
            frame = self._step(stream, frames)
        elif isinstance(stream, FileSource):
            frame = self._files(stream)
        else:
            frame = self._topic(stream, sink)
        if frame is None:
            return
        if isinstance(stream, TopicSource) or stream.checks:
            frame = self._with_reasons(frame, stream)
            if sink.source == LETTERS and has_dead_letters(stream):
                frames[LETTERS + stream.name] = self._dead_letters(frame, stream)
            frame = self._good_rows(frame, stream)
        if stream.watermark is not None:
            frame = self._watermarked(frame, stream.watermark)
        frame.createOrReplaceTempView(stream.name)
        frames[stream.name] = frame

    def _watermarked(self, frame: DataFrame, watermark: Watermark) -> DataFrame:
        if watermark.column not in frame.columns:
            self._unknown_column(watermark.column, frame.columns, watermark.mark("column"), "The watermark")
            return frame
        with self._reporting_faults(watermark.mark("column")):
            return frame.withWatermark(watermark.column, watermark.delay)
        return frame

    def _files(self, source: FileSource) -> DataFrame | None:
        reader: Any = self._spark.readStream if source.is_stream else self._spark.read
        reader = reader.format(source.format).options(**source.options)
        if source.schema is not None:
            with self._reporting_faults(source.mark("schema")):
                reader = reader.schema(source.schema)
        with self._reporting_faults(source.mark("files")):
            frame: DataFrame = reader.load(source.path)
            return frame
        return None

    def _topic(self, source: TopicSource, sink: Sink) -> DataFrame | None:
        from pyspark.sql import functions as f

        options = {f"kafka.{name}": value for name, value in self._client.items()}
        options |= start_options(source)
        options["subscribePattern" if source.pattern else "subscribe"] = source.pattern or ",".join(
            source.topics
        )
        options["groupId"] = group_of(self._pipeline, source, sink)
        options["includeHeaders"] = "true"
        if source.batch_records is not None:
            options["maxOffsetsPerTrigger"] = str(source.batch_records)
        if source.decoding is Decoding.AVRO:
            options |= {"valueFormat": "avro", "valueSchema": source.schema or ""}
            options["onDecodeError"] = "fail" if source.bad_rows is BadRows.FAIL else "deadLetter"
        options |= source.options
        frame = self._spark.readStream.format("ottla").options(**options).load()
        record = [f.col(name).alias(f"_{name}") for name in RECORD_COLUMNS]
        match source.decoding:
            case Decoding.JSON:
                with self._reporting_faults(source.mark("schema")):
                    return self._json(frame, source, record)
                return None
            case Decoding.TEXT:
                return frame.select(f.col("value").cast("string").alias("value"), *record, _no_reason())
            case Decoding.AVRO:
                return self._avro(frame, record)
        return frame.select("value", *record, _no_reason())

    def _json(self, frame: DataFrame, source: TopicSource, record: list[Column]) -> DataFrame:
        """Turn fields into columns, prefix the record's own columns with `_`, and keep the reason of a
        decoding error."""
        from pyspark.sql import functions as f
        from pyspark.sql.types import StringType, StructType

        given = StructType.fromDDL(source.schema or "")
        assert isinstance(given, StructType), "A list of columns is a struct."
        schema = given.add(_CORRUPT, StringType())
        parsed = f.from_json(f.col("value").cast("string"), schema, {"columnNameOfCorruptRecord": _CORRUPT})
        decoded = frame.withColumn(_ROW, parsed)
        fields = [f.col(f"{_ROW}.`{name}`").alias(name) for name in schema.names if name != _CORRUPT]
        is_bad = f.col("value").isNotNull() & (f.col(_ROW).isNull() | f.col(f"{_ROW}.{_CORRUPT}").isNotNull())
        reason = f.when(is_bad, f.lit("it is not JSON of the source's schema")).alias(_WHY)
        return decoded.select(*fields, *record, reason, f.col("value").alias(_RAW))

    def _avro(self, frame: DataFrame, record: list[Column]) -> DataFrame:
        from pyspark.sql import functions as f

        decoded = "value.*" if dict(frame.dtypes)["value"].startswith("struct") else "value"
        if "decodeError" in frame.columns:
            return frame.select(
                decoded, *record, f.col("decodeError").alias(_WHY), f.col("deadLetter.value").alias(_RAW)
            )
        return frame.select(decoded, *record, _no_reason())

    def _step(self, step: Step, frames: Mapping[str, DataFrame]) -> DataFrame | None:
        if step.python is not None:
            made = self._imported(step.python, step.mark("python"))
            if made is None or any(name not in frames for name in step.inputs):
                return None
            result = made(*(frames[name] for name in step.inputs))
            if not hasattr(result, "writeStream"):
                self._fault(step.mark("python"), f"{step.python} must return a DataFrame, not {result!r}.")
                return None
            frame: DataFrame = result
            return frame
        assert step.sql is not None, "parse.py wants one of both."
        with self._reporting_faults(step.mark("sql"), step.sql):
            return self._spark.sql(step.sql.text)
        return None

    # --- bad rows

    def _with_reasons(self, frame: DataFrame, stream: Source | Step) -> DataFrame:
        """Add a column per BadRows policy: the reasons why a row is bad, or NULL."""
        from pyspark.sql import functions as f

        def failed(check: Check) -> Column | None:
            with self._reporting_faults(check.mark("expression"), check.expression):
                condition = f.expr(check.expression.text)
                frame.select(condition)  # makes Spark analyze the condition now
                return f.when(f.coalesce(condition, f.lit(False)), f.lit(None)).otherwise(f.lit(check.name))
            return None

        bad = stream.bad_rows if isinstance(stream, TopicSource) else None
        decoded = f.col(_WHY) if bad is not None else f.lit(None).cast("string")
        columns = []
        for what in BadRows:
            reasons = [] if bad is not what else [decoded]
            checks = [failed(check) for check in stream.checks if check.otherwise is what]
            is_read = decoded.isNull()  # checks do not apply to undecoded rows
            reasons += [f.when(is_read, check) for check in checks if check is not None]
            text = f.concat_ws("; ", *reasons) if reasons else f.lit("")
            columns.append(f.when(text != "", text).alias(f"{_WHY}_{what}"))
        return frame.select("*", *columns)

    def _good_rows(self, frame: DataFrame, stream: Source | Step) -> DataFrame:
        """The rows that pass all checks. With the policy `fail`, a bad row ends the query."""
        from pyspark.sql import functions as f

        why = f.col(f"{_WHY}_{BadRows.FAIL}")
        if isinstance(stream, TopicSource):
            text = f.concat(
                f.lit(f"A record of the source {stream.name!r} is bad: "),
                why,
                f.lit(" (topic "),
                f.col("_topic"),
                f.lit(", partition "),
                f.col("_partition"),
                f.lit(", offset "),
                f.col("_offset"),
                f.lit("). To skip such rows, set bad_rows or the check's otherwise to dead_letter or drop."),
            )
        else:
            text = f.concat(f.lit(f"A row of the step {stream.name!r} fails a check: "), why)
        passes = f.when(why.isNull(), f.lit(True)).otherwise(f.raise_error(text).cast("boolean"))
        others = [f.col(f"{_WHY}_{what}").isNull() for what in (BadRows.DROP, BadRows.DEAD_LETTER)]
        own = [name for name in frame.columns if name.startswith((_WHY, _RAW))]
        return frame.filter(passes & others[0] & others[1]).drop(*own)

    def _dead_letters(self, frame: DataFrame, stream: Source | Step) -> DataFrame:
        """Rows for the dead-letter topic: a record unchanged, or a row of a step as JSON."""
        from pyspark.sql import functions as f

        why = f.col(f"{_WHY}_{BadRows.DEAD_LETTER}")
        about: dict[str, Any] = {
            "ottla.pipeline": f.lit(self._pipeline.name),
            "ottla.stream": f.lit(stream.name),
            "ottla.reason": why,
        }
        own = [name for name in frame.columns if not name.startswith((_WHY, _RAW))]
        value = f.to_json(f.struct(*(f"`{name}`" for name in own))).cast("binary")
        key = f.lit(None).cast("binary")
        if isinstance(stream, TopicSource):
            about |= {f"ottla.{name}": f.col(f"_{name}") for name in ("topic", "partition", "offset")}
            key = f.col("_key")
            value = f.col(_RAW) if _RAW in frame.columns else f.col("value").cast("binary")
        made = [
            f.struct(f.lit(name).alias("key"), text.cast("string").cast("binary").alias("value"))
            for name, text in about.items()
        ]
        headers = f.array(*made).alias("headers")
        return frame.filter(why.isNotNull()).select(key.alias("key"), value.alias("value"), headers)

    # --- Python

    def _register_functions(self) -> None:
        for function in self._pipeline.functions:
            made = self._imported(function.python, function.mark("python"))
            if made is not None:
                with self._reporting_faults(function.mark("returns")):
                    self._spark.udf.register(function.name, made, function.returns)

    def _imported(self, name: str, mark: Mark) -> Callable[..., Any] | None:
        """Import the function named `file.py:name` or `package.module:name`."""
        where, _, attribute = name.rpartition(":")
        try:
            module = (
                _module_of_file(Path(self._pipeline.directory) / where)
                if where.endswith(".py")
                else (importlib.import_module(where))
            )
        except (ImportError, OSError, SyntaxError) as error:
            self._fault(mark, f"{where} cannot be imported: {error}.")
            return None
        found = getattr(module, attribute, None)
        if not callable(found):
            near = nearest(attribute, vars(module))
            hint = f" Did you mean {near!r}?" if near else ""
            self._fault(mark, f"{where} has no function {attribute!r}.{hint}")
            return None
        made: Callable[..., Any] = found
        return made

    # --- faults

    def _fault(self, mark: Mark, message: str) -> None:
        self.faults.append(Fault(mark, message))

    def _unknown_column(self, name: str, known: list[str], mark: Mark, who: str) -> None:
        near = nearest(name, known)
        hint = f" Did you mean {near!r}?" if near else f" Known columns: {', '.join(known)}."
        self._fault(mark, f"{who} refers to the unknown column {name!r}.{hint}")

    def _reporting_faults(self, mark: Mark, sql: Sql | None = None) -> _FaultReporting:
        """Turn errors of Spark in a block into faults, at the mark or at a place within the statement."""
        return _FaultReporting(self, mark, sql)

    def add_fault_of(self, error: BaseException, mark: Mark, sql: Sql | None) -> bool:
        """Add a fault if the error is Spark's or an option's; return whether it was."""
        from pyspark.errors import PySparkException

        if isinstance(error, PySparkException):
            streams = [one.name for one in (*self._pipeline.sources, *self._pipeline.steps)]
            self._fault(*explained(error, mark, sql, streams))
        elif isinstance(error, ValueError) and not isinstance(error, PipelineError):
            self._fault(mark, " ".join(str(error).split()))
        else:
            return False
        return True


class _FaultReporting:
    """A context manager that turns errors of its block into faults."""

    def __init__(self, builder: Builder, mark: Mark, sql: Sql | None) -> None:
        self._builder, self._mark, self._sql = builder, mark, sql

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        return error is not None and self._builder.add_fault_of(error, self._mark, self._sql)


def _no_reason() -> Column:
    from pyspark.sql import functions as f

    return f.lit(None).cast("string").alias(_WHY)


def _module_of_file(path: Path) -> Any:
    name = f"ottla_pipeline_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise ImportError(f"file {path} does not exist")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    _pickle_by_value(module, name)
    return module


def _pickle_by_value(module: Any, name: str) -> None:
    """Pickle the functions of a module by value, since executors do not have its file."""
    from pyspark import cloudpickle

    sys.modules[name] = module
    register: Any = cloudpickle.register_pickle_by_value
    register(module)


def explained(error: Any, mark: Mark, sql: Sql | None, streams: list[str]) -> tuple[Mark, str]:
    """The place and the message of a Spark error."""
    condition = error.getCondition() or ""
    parameters = error.getMessageParameters() or {}
    first = str(error).split("\n\n")[0].split("; line ")[0].split(" SQLSTATE")[0]
    message = " ".join(first.split())
    if message.startswith("["):
        message = message.partition("] ")[2]
    name = str(parameters.get("objectName", parameters.get("relationName", ""))).replace("`", "")
    if condition.startswith("UNRESOLVED_COLUMN"):
        proposal = str(parameters.get("proposal", "")).replace("`", "")
        hint = f" Did you mean {proposal.split(', ')[0]!r}?" if proposal else ""
        message = f"Unknown column {name!r}.{hint}"
    elif condition == "TABLE_OR_VIEW_NOT_FOUND":
        near = nearest(name, streams)
        hint = f" Did you mean {near!r}?" if near else f" Known: {', '.join(streams)}."
        message = f"Unknown source or step {name!r}; it must be defined above.{hint}"
    if sql is None:
        return mark, message
    contexts = [one for one in error.getQueryContext() or [] if one.contextType().name == "SQL"]
    index = contexts[0].startIndex() if contexts else _index_of_parse_error(str(error), sql.text)
    return (sql.mark if index is None else sql.at(index)), message


def _index_of_parse_error(text: str, statement: str) -> int | None:
    """The position in the parser's message: "(line 2, pos 7)"."""
    import re

    match = re.search(r"\(line (\d+), pos (\d+)\)", text)
    if match is None:
        return None
    lines = statement.split("\n")[: int(match[1]) - 1]
    return sum(len(line) + 1 for line in lines) + int(match[2])


def start_options(source: TopicSource) -> dict[str, str]:
    """The options for the start of a source: earliest, latest, offsets as JSON, or a timestamp."""
    text = source.start.strip()
    if text in ("earliest", "latest") or text.startswith("{"):
        return {"startingOffsets": text}
    if text.isdecimal():
        return {"startingTimestamp": text}
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"'from' is {text!r} but must be earliest, latest, a time such as 2026-01-31T12:00:00Z, or "
            f"offsets such as {json.dumps({'orders': {'0': 23}})}."
        ) from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return {"startingTimestamp": str(int(moment.timestamp() * 1000))}


def group_of(pipeline: Pipeline, source: TopicSource, sink: Sink) -> str:
    """The consumer group that shows the progress of one sink in one source."""
    return f"{source.group or pipeline.name}.{sink.name}"


def columns_for_topic(frame: DataFrame, target: TopicTarget) -> DataFrame:
    """The rows as key and value; the value is one column, or all columns as JSON."""
    from pyspark.sql import functions as f

    if {"value", "headers"} <= set(frame.columns) and target.value is None and "key" in frame.columns:
        return frame  # dead letters are records already
    key = [] if target.key is None else [f.col(f"`{target.key}`").cast("string").alias("key")]
    if target.value is not None:
        value = f.col(f"`{target.value}`")
    else:
        own = [name for name in frame.columns if not name.startswith("_")]
        value = f.to_json(f.struct(*(f"`{name}`" for name in own)))
    return frame.select(*key, value.alias("value"))


def check_mode(spark: SparkSession, frame: DataFrame, mode: Mode) -> str | None:
    """The reason why Spark rejects a stream in this mode; None if it accepts it or cannot say in advance."""
    from pyspark.errors import PySparkException
    from pyspark.sql.utils import is_remote

    if is_remote() or not frame.isStreaming:
        return None
    jvm: Any = spark._jvm
    modes = jvm.org.apache.spark.sql.streaming.OutputMode
    wanted = {Mode.APPEND: modes.Append, Mode.UPDATE: modes.Update, Mode.COMPLETE: modes.Complete}[mode]()
    checker = jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker
    try:
        checker.checkForStreaming(frame._jdf.queryExecution().analyzed(), wanted)
    except PySparkException as error:
        return explained(error, Mark(1, 1), None, [])[1]
    return None
