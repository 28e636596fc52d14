"""The graph of a pipeline (which part reads which), and its rendering as text."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.spark.pipeline.model import BadRows, FileSource, Pipeline, Sink, Source, Step, TopicSource
from ottla.spark.pipeline.sql_names import names_read

LETTERS = "dead letters"
LETTER_SINK = "dead_letter"


@dataclass(frozen=True, slots=True)
class Node:
    """A part of the graph. `kind` is source, step, sink or letters."""

    name: str
    kind: str
    title: str
    lines: tuple[str, ...]
    inputs: tuple[str, ...]


def inputs_of(pipeline: Pipeline, stream: Source | Step) -> tuple[str, ...]:
    """The inputs of a source or step, in the order of the file."""
    if not isinstance(stream, Step):
        return ()
    if stream.sql is None:
        return stream.inputs
    read = names_read(stream.sql.text)
    return tuple(
        one.name
        for one in (*pipeline.sources, *pipeline.steps)
        if one.name.lower() in read and one.name != stream.name
    )


def needed_for(pipeline: Pipeline, name: str) -> list[Source | Step]:
    """A stream and all its direct and indirect inputs, inputs first."""
    wanted = {name}
    found: list[Source | Step] = []
    for stream in reversed((*pipeline.sources, *pipeline.steps)):
        if stream.name in wanted:
            wanted.update(inputs_of(pipeline, stream))
            found.append(stream)
    return found[::-1]


def has_dead_letters(stream: Source | Step) -> bool:
    """Whether rows of this stream can become dead letters."""
    is_bad = isinstance(stream, TopicSource) and stream.bad_rows is BadRows.DEAD_LETTER
    return is_bad or any(check.otherwise is BadRows.DEAD_LETTER for check in stream.checks)


def dead_letter_streams(pipeline: Pipeline) -> list[Source | Step]:
    """The streams that can produce dead letters and that some sink reads."""
    used = {one.name for sink in pipeline.sinks for one in needed_for(pipeline, sink.source)}
    return [one for one in (*pipeline.sources, *pipeline.steps) if one.name in used and has_dead_letters(one)]


def nodes(pipeline: Pipeline) -> list[Node]:
    """All nodes, inputs first."""
    found = [_source_node(pipeline, source) for source in pipeline.sources]
    for step in pipeline.steps:
        lines = [f"python {step.python}"] if step.python else ["sql"]
        lines += [f"watermark {step.watermark.column}, {step.watermark.delay}"] if step.watermark else []
        lines += [f"check {check.name}: {check.otherwise}" for check in step.checks]
        found.append(Node(step.name, "step", step.name, tuple(lines), inputs_of(pipeline, step)))
    found += [_sink_node(pipeline, sink) for sink in pipeline.sinks]
    letters = dead_letter_streams(pipeline)
    if letters:
        topic = f"topic {pipeline.dead_letter_topic}"
        found.append(Node(LETTERS, "letters", LETTERS, (topic,), tuple(one.name for one in letters)))
    return found


def _display_path(pipeline: Pipeline, place: str) -> str:
    """The path as the file spells it: relative to the file if it is below it."""
    return place.removeprefix(f"{pipeline.directory}/")


def _source_node(pipeline: Pipeline, source: Source) -> Node:
    if isinstance(source, FileSource):
        lines = [
            f"{source.format} {_display_path(pipeline, source.path)}",
            "stream" if source.is_stream else "read once",
        ]
    else:
        lines = [f"topic {', '.join(source.topics)}" if source.topics else f"topics {source.pattern}"]
        lines.append(f"{source.decoding} from {source.start}, bad rows: {source.bad_rows}")
    lines += [f"watermark {source.watermark.column}, {source.watermark.delay}"] if source.watermark else []
    lines += [f"check {check.name}: {check.otherwise}" for check in source.checks]
    return Node(source.name, "source", source.name, tuple(lines), ())


def _sink_node(pipeline: Pipeline, sink: Sink) -> Node:
    delivery = getattr(sink.target, "delivery", None) or (
        "at_least_once" if sink.target.kind == "console" else "exactly_once"
    )
    lines = (
        f"{sink.target.kind} {_display_path(pipeline, sink.target.place)}",
        f"{delivery}, {sink.mode}, every {sink.trigger or pipeline.trigger}",
    )
    return Node(f"sink {sink.name}", "sink", sink.name, lines, (sink.source,))


def as_text(pipeline: Pipeline) -> str:
    """One line per part with its inputs."""
    lines = [f"pipeline {pipeline.name}"]
    for node in nodes(pipeline):
        reads = f"  <- {', '.join(node.inputs)}" if node.inputs else ""
        lines.append(f"  {node.kind:<8}{node.title}{reads}")
        lines += [f"          {line}" for line in node.lines]
    restart = pipeline.restart
    lines.append(f"  checkpoint {_display_path(pipeline, pipeline.checkpoint)}")
    lines.append(
        f"  restart    {restart.attempts} times, after {restart.delay_ms} to {restart.delay_ms_max} ms"
    )
    return "\n".join(lines)
