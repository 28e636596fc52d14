"""The schema of the source, and the conversion of fetched columns to it.

The schema is that of Spark's Kafka connector, with `headers` if they are requested; decoded keys and values
have the types of their schemas. `.schema(...)` selects columns: the source does not send the others to
Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from ottla.spark.options import OptionError
from ottla.spark.settings import ReadSettings, read_settings

if TYPE_CHECKING:
    import pyarrow as pa

HEADERS = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
DECODE_ERROR = "decodeError"
DEAD_LETTER = "deadLetter"
DEAD_LETTERS = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("headers", HEADERS),
    ]
)


def schema_of(options: Mapping[str, str]) -> StructType | str:
    """All columns for these options. Decoded columns make it a DDL string, which only Spark can parse."""
    settings = read_settings(options)
    fields = _fields(settings)
    if not _decoded(settings):
        return fields
    from ottla.spark.decoders import ddl_of, to_ddl

    types = {field.name: to_ddl(field.dataType) for field in fields}
    types["key"] = ddl_of(settings.key, settings, "key")
    types["value"] = ddl_of(settings.value, settings, "value")
    return ", ".join(f"`{name}` {kind}" for name, kind in types.items())


def _decoded(settings: ReadSettings) -> list[str]:
    """The columns whose types come from a key or value schema."""
    formats = {"key": settings.key.format, "value": settings.value.format}
    return [name for name, format in formats.items() if format != "binary"]


def _fields(settings: ReadSettings) -> StructType:
    fields = [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
    ]
    if settings.headers:
        fields.append(StructField("headers", HEADERS))
    if settings.on_decode_error != "fail":
        fields.append(StructField(DECODE_ERROR, StringType()))
    if settings.on_decode_error == "deadLetter":
        fields.append(StructField(DEAD_LETTER, DEAD_LETTERS))
    return StructType(fields)


def check_schema(schema: StructType, settings: ReadSettings) -> None:
    """Check a schema from the user: it may omit columns, but those it names must exist with its types."""
    known = {field.name: field.dataType for field in _fields(settings)}
    decoded = _decoded(settings)
    for field in schema:
        if field.name not in known:
            raise OptionError(
                f"Unknown column {field.name}; the columns are {', '.join(known)}"
                + ("." if settings.headers else ", and headers with the option includeHeaders.")
            )
        if field.name in decoded:
            continue
        if _plain(field.dataType) != _plain(known[field.name]):
            raise OptionError(
                f"The column {field.name} is {known[field.name].simpleString()}, but the given schema has "
                f"{field.dataType.simpleString()}. Cast it after reading."
            )


def _plain(kind: DataType) -> str:
    return kind.simpleString()


def finisher(schema: StructType, settings: ReadSettings) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    """Return a function that converts a fetched batch to the columns of `schema`."""
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_schema

    target = to_arrow_schema(schema, timezone="UTC")
    decode = None
    if _decoded(settings):
        from ottla.spark.decoders import decoder

        decode = decoder(schema, settings)

    def finish(batch: pa.RecordBatch) -> pa.RecordBatch:
        columns: dict[str, Any] = {} if decode is None else decode(batch)
        arrays = [columns[field.name] if field.name in columns else _column(batch, field) for field in target]
        return pa.RecordBatch.from_arrays(arrays, schema=target)

    def _column(batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
        match field.name:
            case "topic":
                return batch.column("topic").dictionary_decode()
            case "timestampType":
                return batch.column("timestamp_type")
            case "timestamp":
                return batch.column("timestamp").cast(field.type)
            case "headers":
                return batch.column("headers").cast(field.type)
            case "decodeError" | "deadLetter":
                return pa.nulls(batch.num_rows, field.type)
        return batch.column(field.name)

    return finish
