"""Parses the YAML file of a pipeline into the model, and reports all its errors together.

Rule: names are checked as far as the file alone allows: a step may only read streams defined above it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import yaml

from ottla.config.similar_names import nearest
from ottla.spark.pipeline.faults import Fault, Mark, PipelineError
from ottla.spark.pipeline.graph import LETTER_SINK
from ottla.spark.pipeline.model import (
    BadRows,
    Check,
    ConsoleTarget,
    DatabaseTarget,
    Decoding,
    Delivery,
    FileSource,
    FileTarget,
    Function,
    IcebergTarget,
    Mode,
    Pipeline,
    Restart,
    Sink,
    Source,
    Sql,
    Step,
    Target,
    TopicSource,
    TopicTarget,
    Watermark,
)
from ottla.spark.pipeline.reader import Faults, Fields, duration_ms

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLAIN_NAME = re.compile(r"[A-Za-z0-9._-]+")
_TARGETS = ("topic", "parquet", "delta", "iceberg", "postgres", "sqlite", "console")
_BYTES_MAX = 4 * 1024 * 1024


def load(path: Path, environment: Mapping[str, str]) -> Pipeline:
    """Load a pipeline from a file."""
    data = path.read_bytes()
    if len(data) > _BYTES_MAX:
        raise PipelineError(
            [Fault(Mark(1, 1), "The file exceeds the maximum size of a pipeline.")], str(path)
        )
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise PipelineError([Fault(Mark(1, 1), f"The file is not UTF-8: {error}.")], str(path)) from error
    return parse(text, file=str(path), directory=str(path.resolve().parent), environment=environment)


def parse(text: str, *, file: str, directory: str, environment: Mapping[str, str]) -> Pipeline:
    """Parse a pipeline; raises PipelineError with all faults."""
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = Mark(1, 1) if mark is None else Mark(mark.line + 1, mark.column + 1)
        said = " ".join(part for part in (error.context, error.problem) if part)
        raise PipelineError([Fault(place, f"Invalid YAML: {said}.")], file) from error
    except yaml.YAMLError as error:
        raise PipelineError([Fault(Mark(1, 1), f"Invalid YAML: {error}.")], file) from error
    if node is None:
        raise PipelineError([Fault(Mark(1, 1), "The file is empty.")], file)
    faults = Faults(environment, text)
    pipeline = _pipeline(Fields(node, "the pipeline", faults), Path(file).stem, directory)
    if not faults.found:
        _check_names(pipeline, faults)
    if faults.found:
        raise PipelineError(faults.found, file)
    return pipeline


def _pipeline(fields: Fields, stem: str, directory: str) -> Pipeline:
    name = fields.text("name", stem)
    if not _PLAIN_NAME.fullmatch(name):
        fields.fault("name", f"The name {name!r} may contain only letters, digits, '.', '_' and '-'.")
    cluster = fields.inner("cluster", "the cluster")
    letters = fields.inner("dead_letter", "the dead letters")
    restart = fields.inner("restart", "the restart policy")
    pipeline = Pipeline(
        name=name,
        directory=directory,
        bootstrap_servers=cluster.maybe("bootstrap_servers") if cluster else None,
        properties=cluster.settings("properties") if cluster else {},
        checkpoint=_path(fields.text("checkpoint", f"checkpoints/{name}"), directory),
        functions=tuple(_function(one, found) for one, found in fields.items("functions", "the function")),
        sources=tuple(_source(one, found, directory) for one, found in fields.items("sources", "the source")),
        steps=tuple(_step(one, found) for one, found in fields.items("steps", "the step")),
        sinks=tuple(_sink(one, found, directory) for one, found in fields.items("sinks", "the sink")),
        dead_letter_topic=letters.text("topic", required=True) if letters else None,
        trigger=fields.duration("trigger", "1 second"),
        restart=_restart(restart) if restart else Restart(),
        spark=fields.settings("spark"),
        marks=fields.marks,
    )
    for part in (cluster, letters, restart):
        if part is not None:
            part.end()
    for key in ("sources", "sinks"):
        if not fields.has(key) or not getattr(pipeline, key):
            fields.fault(key, f"The required key {key} is missing.")
    fields.end()
    return pipeline


def _path(path: str, directory: str) -> str:
    """Resolve a path relative to the file."""
    return path if "://" in path or path.startswith("/") else str(Path(directory) / path)


def _restart(fields: Fields) -> Restart:
    default = Restart()
    return Restart(
        attempts=fields.number("attempts", default.attempts),
        delay_ms=duration_ms(fields.duration("delay", "1 second")) or 0,
        delay_ms_max=duration_ms(fields.duration("delay_max", "1 minute")) or 0,
        marks=fields.marks,
    )


def _function(name: str, fields: Fields) -> Function:
    made = Function(
        name=name,
        python=_callable(fields, "python"),
        returns=fields.text("returns", required=True),
        marks=fields.marks,
    )
    fields.end()
    return made


def _callable(fields: Fields, key: str) -> str:
    text = fields.text(key, required=True)
    if text and (":" not in text or not _NAME.fullmatch(text.rpartition(":")[2])):
        fields.fault(key, f"{text!r} must be a function: file.py:name or package.module:name.")
    return text


def _watermark(fields: Fields) -> Watermark | None:
    inner = fields.inner("watermark", "the watermark")
    if inner is None:
        return None
    made = Watermark(
        column=inner.text("column", required=True),
        delay=inner.duration("delay", "0 seconds"),
        marks=inner.marks,
    )
    inner.end()
    return made


def _checks(fields: Fields) -> tuple[Check, ...]:
    made = []
    for inner in fields.sequence("checks", "check"):
        expression = inner.sql("expression")
        if expression is None:
            if not inner.has("expression"):
                inner.fault("", "A check needs 'expression'.")
            expression = Sql("true", inner.marks[""])
        made.append(
            Check(
                name=inner.text("name", expression.text.strip()),
                expression=expression,
                otherwise=inner.choice("otherwise", BadRows, BadRows.DEAD_LETTER),
                marks=inner.marks,
            )
        )
        inner.end()
    return tuple(made)


def _view_name(name: str, fields: Fields) -> str:
    if not _NAME.fullmatch(name):
        fields.fault(
            "", f"SQL cannot refer to {name!r}. Use letters, digits and '_', starting with a letter."
        )
    return name


def _source(name: str, fields: Fields, directory: str) -> Source:
    common: dict[str, object] = {
        "name": _view_name(name, fields),
        "watermark": _watermark(fields),
        "checks": _checks(fields),
    }
    schema = fields.maybe("schema")
    options = fields.settings("options")
    made: Source
    if fields.has("files"):
        made = FileSource(
            **common,  # type: ignore[arg-type]
            path=_path(fields.text("files", required=True), directory),
            format=fields.text("format", "parquet"),
            schema=schema,
            is_stream=fields.truth("stream", False),
            options=options,
            marks=fields.marks,
        )
        if made.is_stream and schema is None:
            fields.fault(
                "stream", f"The source {name!r} needs 'schema': Spark does not infer it for streams."
            )
    else:
        made = _topic_source(fields, common, schema, options)
    fields.end()
    return made


def _topic_source(
    fields: Fields, common: dict[str, object], schema: str | None, options: dict[str, str]
) -> TopicSource:
    topics = (*fields.texts("topic"), *fields.texts("topics"))
    if "topics" in fields.marks:
        fields.marks.setdefault("topic", fields.marks["topics"])
    records = fields.number("batch_records", 0, 1)
    made = TopicSource(
        **common,  # type: ignore[arg-type]
        topics=topics,
        pattern=fields.maybe("pattern"),
        decoding=fields.choice("format", Decoding, Decoding.JSON if schema else Decoding.RAW),
        schema=schema,
        start=fields.text("from", "earliest"),
        group=fields.maybe("group"),
        batch_records=records or None,
        bad_rows=fields.choice("bad_rows", BadRows, BadRows.FAIL),
        options=options,
        marks=fields.marks,
    )
    if bool(made.topics) == bool(made.pattern):
        fields.fault("", f"The source {made.name!r} needs one of 'topic', 'topics', 'pattern' and 'files'.")
    if made.decoding in (Decoding.JSON, Decoding.AVRO) and schema is None:
        fields.fault("format", f"The source {made.name!r} needs 'schema' to decode {made.decoding}.")
    return made


def _step(name: str, fields: Fields) -> Step:
    sql = fields.sql("sql")
    made = Step(
        name=_view_name(name, fields),
        sql=sql,
        python=_callable(fields, "python") if fields.has("python") else None,
        inputs=fields.texts("input"),
        watermark=_watermark(fields),
        checks=_checks(fields),
        marks=fields.marks,
    )
    if (made.sql is None) == (made.python is None):
        fields.fault("", f"The step {name!r} needs 'sql', or 'python' and its 'input'.")
    elif made.python is not None and not made.inputs:
        fields.fault("python", f"The step {name!r} needs 'input': the streams to pass to its function.")
    elif made.sql is not None and made.inputs:
        fields.fault("input", f"The step {name!r} must not have 'input': its SQL determines what it reads.")
    fields.end()
    return made


def _sink(name: str, fields: Fields, directory: str) -> Sink:
    if not _PLAIN_NAME.fullmatch(name):
        fields.fault("", f"The name {name!r} may contain only letters, digits, '.', '_' and '-'.")
    if name == LETTER_SINK:
        fields.fault("", f"{name!r} is reserved for the dead letter sink. Choose another name.")
    kinds = [kind for kind in _TARGETS if fields.has(kind)]
    if len(kinds) != 1:
        said = f"not {' and '.join(kinds)}" if kinds else "and has none"
        fields.fault("", f"The sink {name!r} needs one of {', '.join(_TARGETS)}, {said}.")
    made = Sink(
        name=name,
        source=fields.text("from", required=True),
        target=_target(kinds[0], fields, directory) if kinds else ConsoleTarget(),
        mode=fields.choice("mode", Mode, Mode.APPEND),
        trigger=fields.duration("trigger", "") or None,
        marks=fields.marks,
    )
    fields.end()
    return made


def _target(kind: str, fields: Fields, directory: str) -> Target:
    if kind == "topic":
        return TopicTarget(
            topic=fields.text("topic", required=True),
            key=fields.maybe("key"),
            value=fields.maybe("value"),
            delivery=fields.choice("delivery", Delivery, Delivery.EXACTLY_ONCE),
            transactional_id=fields.maybe("transactional_id"),
            options=fields.settings("options"),
            marks=fields.marks,
        )
    if kind in ("parquet", "delta"):
        return FileTarget(
            kind=kind,
            path=_path(fields.text(kind, required=True), directory),
            partition_by=fields.texts("partition_by"),
            files=fields.number("files", 0),
            compact_batches=fields.number("compact_batches", 0),
            marks=fields.marks,
        )
    if kind == "iceberg":
        made = IcebergTarget(
            table=fields.text("iceberg", required=True),
            catalog=fields.settings("catalog"),
            catalog_name=fields.text("catalog_name", "default"),
            marks=fields.marks,
        )
        if "." not in made.table:
            fields.fault("iceberg", f"{made.table!r} must be a namespace and a name: sales.{made.table}.")
        return made
    if kind == "console":
        return ConsoleTarget(rows=fields.number("console", 20, 1), marks=fields.marks)
    address = fields.text(kind, required=True)
    return DatabaseTarget(
        kind=kind,
        address=_path(address, directory) if kind == "sqlite" else address,
        table=fields.text("table", required=True),
        key=fields.texts("key"),
        version=fields.maybe("version"),
        marks=fields.marks,
    )


def _check_names(pipeline: Pipeline, faults: Faults) -> None:
    """Check that names are unique, and defined where they are used."""
    known: list[str] = []
    for stream in (*pipeline.sources, *pipeline.steps):
        if isinstance(stream, Step):
            for name in stream.inputs:
                _known(name, known, stream.mark("input"), faults, f"The step {stream.name!r}")
        if stream.name.lower() in (name.lower() for name in known):
            faults.add(stream.mark(), f"Duplicate source or step {stream.name!r}.")
        known.append(stream.name)
    for sink in pipeline.sinks:
        _known(sink.source, known, sink.mark("from"), faults, f"The sink {sink.name!r}")
    if pipeline.dead_letter_topic is None:
        for stream in (*pipeline.sources, *pipeline.steps):
            if isinstance(stream, TopicSource) and stream.bad_rows is BadRows.DEAD_LETTER:
                _no_letters(stream.mark("bad_rows"), faults)
            for check in stream.checks:
                if check.otherwise is BadRows.DEAD_LETTER:
                    _no_letters(check.mark("otherwise"), faults)


def _known(name: str, known: list[str], mark: Mark, faults: Faults, who: str) -> None:
    if name not in known:
        near = nearest(name, known)
        hint = f" Did you mean {near!r}?" if near else f" Known: {', '.join(known)}."
        faults.add(mark, f"{who} reads {name!r}, which is not a source or step defined above it.{hint}")


def _no_letters(mark: Mark, faults: Faults) -> None:
    faults.add(mark, "Dead letters need a topic. Add dead_letter: {topic: NAME}.")
