"""Maps the columns of rows to the parts of a record, and builds values from several columns.

The names are those of Spark's Kafka sink: key, value, topic, partition, headers; and timestamp. With
`valueFormat` json or avro, all columns but key, topic, partition and headers are fields of the value, a
timestamp included. Rule: types are checked before any row is sent.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from json.encoder import encode_basestring
from typing import TYPE_CHECKING, Any

from ottla.spark.options import OptionError
from ottla.spark.sink.options import AVRO, BINARY, JSON, SinkOptions

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

SPECIAL = ("key", "topic", "partition", "headers")
_TEXTS = ("string", "binary")
_TYPES = {
    "key": _TEXTS,
    "value": _TEXTS,
    "topic": ("string",),
    "partition": ("int", "smallint", "tinyint"),
    "timestamp": ("timestamp", "timestamp_ntz", "bigint"),
    "headers": ("array<struct<key:string,value:binary>>",),
}


@dataclass(frozen=True, slots=True)
class Columns:
    """The column for each part of a record; None if the rows have none."""

    key: str | None
    value: str
    topic: str | None
    partition: str | None
    headers: str | None
    timestamp: str | None
    fields: tuple[str, ...] = ()
    """The columns that make up the value, unless the value is itself a column."""


def columns_of(schema: StructType, options: SinkOptions) -> Columns:
    """Find the columns; OptionError names a missing column or a wrong type."""
    types = {field.name: field.dataType.simpleString().lower() for field in schema.fields}
    faults = []
    is_whole = options.value_format != BINARY
    special = [name for name in types if name in SPECIAL or (not is_whole and name == "timestamp")]
    for name in (*special, *([] if is_whole else [name for name in types if name == "value"])):
        if types[name] not in _TYPES[name] and not (name == "headers" and _is_headers(schema)):
            faults.append(
                f"The column {name} is {types[name]} and must be {' or '.join(_TYPES[name])}: cast it."
            )
    fields = tuple(name for name in types if name not in SPECIAL) if is_whole else ()
    if not is_whole and "value" not in types:
        known = ", ".join(types) or "none"
        faults.append(
            f"There is no column value (the columns are: {known}). Add one, or use valueFormat={JSON} to "
            "write all columns as the value."
        )
    if is_whole and not fields:
        faults.append(f"valueFormat={options.value_format} has no columns left for the value.")
    if options.topic is None and "topic" not in types:
        faults.append("No topic to write to. Set the option topic, or add a column topic.")
    if options.key_column is not None:
        if options.key_column not in types:
            faults.append(f"keyColumn refers to the unknown column {options.key_column}.")
        elif "key" in types:
            faults.append("Both keyColumn and a column key are given. Drop one of them.")
        elif types[options.key_column] not in _TEXTS:
            faults.append(
                f"The column {options.key_column} is the key and must be string or binary: cast it."
            )
    if faults:
        raise OptionError("\n".join(faults))
    return Columns(
        key=options.key_column or ("key" if "key" in types else None),
        value="value",
        topic=None if options.topic is not None else "topic",
        partition="partition" if "partition" in types else None,
        headers="headers" if "headers" in types else None,
        timestamp="timestamp" if "timestamp" in special else None,
        fields=fields,
    )


def _is_headers(schema: StructType) -> bool:
    """Whether the type is a list of (string, bytes), with any nullability."""
    shown = schema["headers"].dataType.simpleString().lower()
    return shown == "array<struct<key:string,value:binary>>"


def value_maker(columns: Columns, options: SinkOptions) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    """Return a function that adds the column value to rows, for use in a task."""
    if not columns.fields:
        return lambda batch: batch
    write = _json_text if options.value_format == JSON else _avro_writer(options)
    assert options.value_format in (JSON, AVRO)

    def with_value(batch: pa.RecordBatch) -> pa.RecordBatch:
        import pyarrow as pa

        rows = batch.select(list(columns.fields)).to_pylist()
        made = pa.array([write(row) for row in rows], pa.binary())
        used = [columns.key, columns.topic, columns.partition, columns.headers]
        names = list(dict.fromkeys(name for name in used if name is not None))
        return pa.RecordBatch.from_arrays(
            [*(batch.column(name) for name in names), made], names=[*names, columns.value]
        )

    return with_value


def _avro_writer(options: SinkOptions) -> Callable[[dict[str, Any]], bytes]:
    from ottla.client.serialization.avro import Avro

    avro = Avro(options.value_schema or "", schema_id=options.value_schema_id)
    return lambda row: avro.serialize(options.topic or "the sink", row)


def _json_text(row: dict[str, Any]) -> bytes:
    """A row as Spark's to_json writes it: no null fields, times in ISO format, bytes in base64."""
    return _text(row).encode()


def _text(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return encode_basestring(value)
        case int() | Decimal():
            return str(value)
        case float():
            return repr(value) if value == value and abs(value) != float("inf") else f'"{value}"'
        case bytes():
            return f'"{b64encode(value).decode()}"'
        case datetime():
            utc = value if value.tzinfo is None else value.astimezone(UTC)
            zone = "" if value.tzinfo is None else "Z"
            return f'"{utc.replace(tzinfo=None).isoformat(timespec="milliseconds")}{zone}"'
        case date():
            return f'"{value.isoformat()}"'
        case dict():
            shown = (f"{encode_basestring(str(k))}:{_text(v)}" for k, v in value.items() if v is not None)
            return "{" + ",".join(shown) + "}"
        case list():
            if value and isinstance(value[0], tuple):  # Arrow returns a map like this
                return _text(dict(value))
            return "[" + ",".join(_text(one) for one in value) + "]"
    return encode_basestring(str(value))
