"""The model of a pipeline: the parsed and checked contents of its file; nothing is looked up in the cluster.

Rule: every part keeps its place in the file (`marks`: key -> place), so that errors found later by Spark or
the cluster point at the line that caused them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from ottla.spark.pipeline.faults import Mark

Marks = Mapping[str, Mark]
_NOWHERE = Mark(1, 1)


class BadRows(StrEnum):
    """The policy for rows that cannot be decoded or that fail a check."""

    FAIL = "fail"
    DROP = "drop"
    DEAD_LETTER = "dead_letter"


class Decoding(StrEnum):
    """How to turn a record's value into columns."""

    JSON = "json"
    AVRO = "avro"
    TEXT = "text"
    RAW = "raw"


class Delivery(StrEnum):
    """How often a row of a batch can end up in a topic."""

    EXACTLY_ONCE = "exactly_once"
    AT_LEAST_ONCE = "at_least_once"


class Mode(StrEnum):
    """Which rows of a result are written: new ones, changed ones, all."""

    APPEND = "append"
    UPDATE = "update"
    COMPLETE = "complete"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part of the file, with its place."""

    marks: Marks = field(default_factory=dict, compare=False, repr=False)

    def mark(self, key: str = "") -> Mark:
        """The place of a key, or of the part itself."""
        return self.marks.get(key, self.marks.get("", _NOWHERE))


@dataclass(frozen=True, slots=True)
class Sql:
    """A statement and its place. `rows` has the places of its lines, as far as they are known."""

    text: str
    mark: Mark
    rows: tuple[Mark, ...] = ()

    def at(self, index: int) -> Mark:
        """The place of a character of the statement."""
        before = self.text[: max(0, index)]
        row = before.count("\n")
        if row >= len(self.rows):
            return self.mark
        start = self.rows[row]
        return Mark(start.line, start.column + len(before) - (before.rfind("\n") + 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Watermark(Part):
    column: str
    delay: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Check(Part):
    """A condition that each row must meet; NULL fails it."""

    name: str
    expression: Sql
    otherwise: BadRows = BadRows.DEAD_LETTER


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSource(Part):
    name: str
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    decoding: Decoding = Decoding.JSON
    schema: str | None = None
    start: str = "earliest"
    group: str | None = None
    batch_records: int | None = None
    bad_rows: BadRows = BadRows.FAIL
    watermark: Watermark | None = None
    checks: tuple[Check, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSource(Part):
    name: str
    path: str
    format: str
    schema: str | None = None
    is_stream: bool = False
    watermark: Watermark | None = None
    checks: tuple[Check, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)


Source = TopicSource | FileSource


@dataclass(frozen=True, slots=True, kw_only=True)
class Function(Part):
    """A Python function for SQL, given as `file.py:name` or `package.module:name`."""

    name: str
    python: str
    returns: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Step(Part):
    """A named stream derived from others by SQL, or by a Python function of their frames."""

    name: str
    sql: Sql | None = None
    python: str | None = None
    inputs: tuple[str, ...] = ()
    watermark: Watermark | None = None
    checks: tuple[Check, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicTarget(Part):
    topic: str
    key: str | None = None
    value: str | None = None
    delivery: Delivery = Delivery.EXACTLY_ONCE
    transactional_id: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)

    kind = "topic"

    @property
    def place(self) -> str:
        return self.topic


@dataclass(frozen=True, slots=True, kw_only=True)
class FileTarget(Part):
    """Parquet or Delta files at a path."""

    kind: str
    path: str
    partition_by: tuple[str, ...] = ()
    files: int = 0
    compact_batches: int = 0

    @property
    def place(self) -> str:
        return self.path


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergTarget(Part):
    table: str
    catalog: Mapping[str, str] = field(default_factory=dict)
    catalog_name: str = "default"

    kind = "iceberg"

    @property
    def place(self) -> str:
        return self.table


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseTarget(Part):
    """A table in PostgreSQL (`address` is a connection string) or SQLite (`address` is a file)."""

    kind: str
    address: str
    table: str
    key: tuple[str, ...] = ()
    version: str | None = None

    @property
    def place(self) -> str:
        return self.table


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleTarget(Part):
    """Prints rows to the screen; at least once."""

    rows: int = 20

    kind = "console"
    place = "the screen"


Target = TopicTarget | FileTarget | IcebergTarget | DatabaseTarget | ConsoleTarget


@dataclass(frozen=True, slots=True, kw_only=True)
class Sink(Part):
    name: str
    source: str
    target: Target
    mode: Mode = Mode.APPEND
    trigger: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart(Part):
    """How often a failed query restarts, and the delay before it, which doubles up to the maximum."""

    attempts: int = 3
    delay_ms: int = 1000
    delay_ms_max: int = 60_000

    def delay_of(self, attempt: int) -> int:
        """The delay before the attempt, which counts from 1."""
        return min(self.delay_ms_max, self.delay_ms << min(attempt - 1, 30))


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline(Part):
    name: str
    directory: str = "."
    bootstrap_servers: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    checkpoint: str
    sources: tuple[Source, ...]
    functions: tuple[Function, ...] = ()
    steps: tuple[Step, ...] = ()
    sinks: tuple[Sink, ...]
    dead_letter_topic: str | None = None
    trigger: str = "1 second"
    restart: Restart = field(default_factory=Restart)
    spark: Mapping[str, str] = field(default_factory=dict)

    def stream(self, name: str) -> Source | Step | None:
        """The source or step with this name."""
        return next((one for one in (*self.sources, *self.steps) if one.name == name), None)

    def topics_read(self) -> Iterator[tuple[str, Mark]]:
        for source in self.sources:
            if isinstance(source, TopicSource):
                for topic in source.topics:
                    yield topic, source.mark("topic")

    def topics_written(self) -> Iterator[tuple[str, Mark]]:
        for sink in self.sinks:
            if isinstance(sink.target, TopicTarget):
                yield sink.target.topic, sink.target.mark("topic")
        if self.dead_letter_topic is not None:
            yield self.dead_letter_topic, self.mark("dead_letter")
