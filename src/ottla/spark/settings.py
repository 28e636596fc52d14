"""The settings of a read: the options of the source, parsed once and checked against each other.

Names and formats follow Spark's Kafka connector where it has the option. Rule: every error that can be found
without asking the cluster is raised here, when the frame is created.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ottla.spark.options import Kind, Option, OptionError, OptionTable

EARLIEST = -2
LATEST = -1

ROWS_PER_BATCH = 65_536
RECORDS_PER_TASK_MAX = 1_000_000
RECORDS_PER_TASK_MIN = 10_000

FORMATS = ("binary", "string", "json", "avro", "avro-bare")
ON_ERROR = ("fail", "null", "deadLetter")

OPTIONS = (
    Option("subscribe", doc="comma-separated topics"),
    Option("subscribePattern", doc="a regular expression that the whole name of a topic matches"),
    Option("assign", doc='partitions as JSON: {"orders": [0, 1]}'),
    Option("startingOffsets", doc='earliest, latest, or JSON: {"orders": {"0": 23, "1": -2}}'),
    Option("startingTimestamp", Kind.NUMBER, doc="milliseconds since 1970, for all partitions"),
    Option("startingOffsetsByTimestamp", doc='JSON: {"orders": {"0": 1700000000000}}'),
    Option("startingOffsetsByTimestampStrategy", Kind.CHOICE, "error", choices=("error", "latest")),
    Option("endingOffsets", doc="latest or JSON; of a batch"),
    Option("endingTimestamp", Kind.NUMBER, doc="milliseconds since 1970; of a batch"),
    Option("endingOffsetsByTimestamp", doc="JSON; of a batch"),
    Option("failOnDataLoss", Kind.BOOLEAN, True),
    Option("maxOffsetsPerTrigger", Kind.COUNT),
    Option("minOffsetsPerTrigger", Kind.COUNT),
    Option("maxTriggerDelay", Kind.DURATION, 15 * 60_000),
    Option("maxBytesPerTrigger", Kind.BYTES),
    Option("minPartitions", Kind.COUNT, doc="minimum number of tasks"),
    Option("maxRecordsPerPartition", Kind.COUNT, RECORDS_PER_TASK_MAX, doc="maximum per task"),
    Option("minRecordsPerPartition", Kind.NUMBER, RECORDS_PER_TASK_MIN, doc="smaller ranges share a task"),
    Option("maxBytesPerPartition", Kind.BYTES, doc="maximum per task, measured in the log"),
    Option("includeHeaders", Kind.BOOLEAN, False),
    Option("keyFormat", Kind.CHOICE, "binary", choices=FORMATS),
    Option("valueFormat", Kind.CHOICE, "binary", choices=FORMATS),
    Option("keySchema", doc="DDL for json, an Avro schema for avro"),
    Option("valueSchema", doc="DDL for json, an Avro schema for avro"),
    Option("schemaRegistry", doc="the address of a schema registry, for avro"),
    Option("onDecodeError", Kind.CHOICE, "fail", choices=ON_ERROR),
    Option("groupId", doc="progress is committed to this consumer group"),
    Option("rowsPerBatch", Kind.COUNT, ROWS_PER_BATCH, doc="of an Arrow record batch"),
    Option("pollTimeout", Kind.DURATION, 120_000, doc="how long a task waits while nothing comes"),
    Option("kafkaConsumer.pollTimeoutMs", Kind.COUNT, doc="the same, with the name it has in Spark"),
    # Spark's connector has these options; this source accepts and ignores them.
    Option("fetchOffset.numRetries", Kind.UNUSED),
    Option("fetchOffset.retryIntervalMs", Kind.UNUSED),
    Option("groupIdPrefix", Kind.UNUSED),
)
TABLE = OptionTable("reading", OPTIONS)

_REFUSED = {
    "auto.offset.reset": "use startingOffsets",
    "enable.auto.commit": "use groupId: the query commits its progress to that group",
    "key.deserializer": "use keyFormat",
    "value.deserializer": "use valueFormat",
    "interceptor.classes": "records do not pass through interceptors",
}

Partitions = dict[str, dict[int, int]]


@dataclass(frozen=True, slots=True)
class Selection:
    """Selects the partitions to read; exactly one of the three is set."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    partitions: tuple[tuple[str, int], ...] = ()

    def __str__(self) -> str:
        if self.pattern is not None:
            return f"the pattern {self.pattern}"
        if self.partitions:
            return ", ".join(f"{topic}-{index}" for topic, index in self.partitions)
        return ", ".join(self.topics)


@dataclass(frozen=True, slots=True)
class Bound:
    """The start or end of a read: one number for all partitions, or one for each.

    Numbers are offsets, with -2 for earliest and -1 for latest; with `by_time` they are milliseconds since
    1970.
    """

    everywhere: int | None = None
    each: Partitions | None = None
    by_time: bool = False
    option: str = ""


@dataclass(frozen=True, slots=True)
class Decoding:
    """The format and schema of keys or values."""

    format: str = "binary"
    schema: str | None = None


@dataclass(frozen=True, slots=True)
class ReadSettings:
    """All settings of a read. Picklable, since Spark sends them to the tasks."""

    client: dict[str, str]
    selection: Selection
    starting: Bound
    ending: Bound
    latest_where_no_time: bool
    fail_on_data_loss: bool
    max_offsets: int | None
    min_offsets: int | None
    max_delay_ms: int
    max_bytes: int | None
    tasks_min: int | None
    records_per_task_max: int
    records_per_task_min: int
    bytes_per_task_max: int | None
    headers: bool
    key: Decoding
    value: Decoding
    registry: str | None
    on_decode_error: str
    group_id: str | None
    rows_per_batch: int
    idle_seconds: float

    @property
    def servers(self) -> str:
        return self.client["bootstrap.servers"]


def read_settings(options: Mapping[str, str], *, streaming: bool | None = None) -> ReadSettings:
    """Parse the options; OptionError has one line per problem.

    With `streaming` None the kind of read is not known yet, and checks that depend on it are skipped.
    """
    values = TABLE.parse(options)
    faults: list[str] = []
    client = _client(values["kafka"], faults)
    group_id = values["groupId"] or client.pop("group.id", None)
    starting, ending = _bounds(values, streaming, faults)
    settings = ReadSettings(
        client=client,
        selection=_selection(values, faults),
        starting=starting,
        ending=ending,
        latest_where_no_time=values["startingOffsetsByTimestampStrategy"] == "latest",
        fail_on_data_loss=values["failOnDataLoss"],
        max_offsets=values["maxOffsetsPerTrigger"],
        min_offsets=values["minOffsetsPerTrigger"],
        max_delay_ms=values["maxTriggerDelay"],
        max_bytes=values["maxBytesPerTrigger"],
        tasks_min=values["minPartitions"],
        records_per_task_max=values["maxRecordsPerPartition"],
        records_per_task_min=values["minRecordsPerPartition"],
        bytes_per_task_max=values["maxBytesPerPartition"],
        headers=values["includeHeaders"],
        key=_decoding(values, "key", faults),
        value=_decoding(values, "value", faults),
        registry=values["schemaRegistry"],
        on_decode_error=values["onDecodeError"],
        group_id=group_id,
        rows_per_batch=values["rowsPerBatch"],
        idle_seconds=(values["kafkaConsumer.pollTimeoutMs"] or values["pollTimeout"]) / 1000,
    )
    low, high = settings.min_offsets, settings.max_offsets
    if low is not None and high is not None and low > high:
        faults.append(f"minOffsetsPerTrigger ({low}) exceeds maxOffsetsPerTrigger ({high}).")
    if faults:
        raise OptionError("\n".join(faults))
    return settings


def _client(given: Mapping[str, str], faults: list[str]) -> dict[str, str]:
    """The consumer's properties, checked by the client's own table."""
    from ottla.client.config import ConsumerSettings
    from ottla.client.errors import ConfigError

    client = dict(given)
    for name, cure in _REFUSED.items():
        if client.pop(name, None) is not None:
            faults.append(f"The option kafka.{name} cannot be set: {cure}.")
    try:
        ConsumerSettings.parse(client)
    except ConfigError as error:
        faults.extend(f"In the options with the prefix kafka.: {line}" for line in str(error).splitlines())
    return client


def _selection(values: Mapping[str, Any], faults: list[str]) -> Selection:
    given = [name for name in ("subscribe", "subscribePattern", "assign") if values[name] is not None]
    if len(given) != 1:
        found = f"{' and '.join(given)} are set" if given else "none is set"
        faults.append(f"Set exactly one of subscribe, subscribePattern and assign: {found}.")
        return Selection()
    if values["subscribe"] is not None:
        names = [name.strip() for name in values["subscribe"].split(",")]
        topics = tuple(dict.fromkeys(name for name in names if name))
        if not topics:
            faults.append("The option subscribe contains no topic.")
        return Selection(topics=topics)
    if values["subscribePattern"] is not None:
        try:
            re.compile(values["subscribePattern"])
        except re.error as error:
            faults.append(f"The option subscribePattern is not a valid regular expression: {error}.")
        return Selection(pattern=values["subscribePattern"])
    partitions = _assigned(values["assign"])
    if partitions is None:
        faults.append('The option assign must be JSON such as {"orders": [0, 1]}.')
    return Selection(partitions=partitions or ())


def _assigned(text: str) -> tuple[tuple[str, int], ...] | None:
    try:
        given = json.loads(text)
        found = [(topic, int(index)) for topic, indices in given.items() for index in indices]
    except (ValueError, TypeError, AttributeError):
        return None
    if not found or any(index < 0 for _, index in found):
        return None
    return tuple(sorted(set(found)))


def _bounds(values: Mapping[str, Any], streaming: bool | None, faults: list[str]) -> tuple[Bound, Bound]:
    starting = _bound(values, "starting", faults)
    ending = _bound(values, "ending", faults)
    if starting is None:
        starting = Bound(LATEST if streaming else EARLIEST, option="startingOffsets")
    elif streaming is False and not starting.by_time:
        numbers = [starting.everywhere] if starting.each is None else _numbers(starting.each)
        if LATEST in numbers:
            faults.append("A batch cannot start at the latest offset: there would be nothing to read.")
    if ending is not None and streaming:
        faults.append(f"{ending.option} applies to spark.read only: a stream has no end.")
    if ending is not None and not ending.by_time:
        numbers = [ending.everywhere] if ending.each is None else _numbers(ending.each)
        if EARLIEST in numbers:
            faults.append("A batch cannot end at the earliest offset: there would be nothing to read.")
    return starting, ending or Bound(LATEST, option="endingOffsets")


def _numbers(each: Partitions) -> list[int | None]:
    return [number for partitions in each.values() for number in partitions.values()]


def _bound(values: Mapping[str, Any], which: str, faults: list[str]) -> Bound | None:
    """As in Spark, one timestamp for all takes precedence over timestamps per partition, and those over
    offsets."""
    if values[f"{which}Timestamp"] is not None:
        return Bound(values[f"{which}Timestamp"], by_time=True, option=f"{which}Timestamp")
    for name, by_time in ((f"{which}OffsetsByTimestamp", True), (f"{which}Offsets", False)):
        text = values[name]
        if text is None:
            continue
        plain = text.strip().lower()
        if not by_time and plain in ("earliest", "latest"):
            return Bound(EARLIEST if plain == "earliest" else LATEST, option=name)
        each = parse_partitions(text, least=0 if by_time else EARLIEST)
        if each is None:
            form = '{"orders": {"0": 1700000000000}}' if by_time else '{"orders": {"0": 23, "1": -2}}'
            words = "" if by_time else "earliest, latest or "
            faults.append(f"The option {name} must be {words}JSON such as {form}.")
        return Bound(each=each or {}, by_time=by_time, option=name)
    return None


def parse_partitions(text: str, *, least: int) -> Partitions | None:
    """Parse numbers by topic and partition; None if the text has another format."""
    try:
        given = json.loads(text)
        found = {
            str(topic): {int(index): int(number) for index, number in partitions.items()}
            for topic, partitions in given.items()
            if not str(topic).startswith("#")
        }
    except (ValueError, TypeError, AttributeError):
        return None
    if any(index < 0 or number < least for each in found.values() for index, number in each.items()):
        return None
    return found


def _decoding(values: Mapping[str, Any], which: str, faults: list[str]) -> Decoding:
    kind, schema = values[f"{which}Format"], values[f"{which}Schema"]
    if kind == "avro-bare" and schema is None:
        faults.append(
            f"{which}Format is {kind}, which needs the option {which}Schema: an Avro schema in JSON."
        )
    if kind == "avro" and schema is None and values["schemaRegistry"] is None:
        faults.append(
            f"{which}Format is avro, which needs the option {which}Schema (an Avro schema in JSON) "
            "or schemaRegistry."
        )
    if kind in ("binary", "string") and schema is not None:
        faults.append(f"{which}Schema is set, but {which}Format is {kind}. Set it to json or avro.")
    return Decoding(kind, schema)
