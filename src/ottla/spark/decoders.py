"""Decodes keys and values: text, JSON with a schema, Avro with or without a registry's frame.

Arrow parses a whole batch of JSON at once. Each value is first wrapped into an object with one field, so that
a value that is not JSON, or that is two documents, is an error and cannot shift the rows after it. Rule: an
error names the row that cannot be decoded; the option `onDecodeError` decides what happens to the row.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ottla.client.errors import ClientError
from ottla.spark.options import OptionError
from ottla.spark.settings import Decoding, ReadSettings

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import DataType, StructType

ERROR_HEADER = "ottla.error"
TOPIC_HEADER = "ottla.topic"
PARTITION_HEADER = "ottla.partition"
OFFSET_HEADER = "ottla.offset"

_COMPLEX = re.compile(r"\s*(struct|array|map)\s*<", re.IGNORECASE)

Convert = Callable[["pa.Array"], "pa.Array"]


class DecodeError(ValueError):
    """A key or value cannot be decoded as the options say."""


# Types of decoded columns.


def ddl_of(decoding: Decoding, settings: ReadSettings, which: str) -> str:
    """The type of a decoded column as a DDL string, which Spark parses."""
    if decoding.format in ("binary", "string"):
        return decoding.format.upper()
    if decoding.format == "json":
        if decoding.schema is None:
            raise OptionError(
                f'{which}Format is json, which needs the option {which}Schema: DDL such as "id BIGINT, name '
                'STRING", or a schema given with .schema(...).'
            )
        return _ddl_of_json(decoding.schema)
    from ottla.spark.avro import type_of_avro, wanted_schema

    return to_ddl(type_of_avro(wanted_schema(decoding, settings, which)))


def _ddl_of_json(text: str) -> str:
    if text.lstrip().startswith("{"):  # the output of df.schema.json()
        from pyspark.sql.types import _parse_datatype_json_string

        return to_ddl(_parse_datatype_json_string(text))
    return text if _COMPLEX.match(text) else f"STRUCT<{text}>"


def to_ddl(kind: DataType) -> str:
    """A type as DDL, with quoted names."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(kind, StructType):
        fields = ", ".join(f"`{field.name}`: {to_ddl(field.dataType)}" for field in kind)
        return f"STRUCT<{fields}>"
    if isinstance(kind, ArrayType):
        return f"ARRAY<{to_ddl(kind.elementType)}>"
    if isinstance(kind, MapType):
        return f"MAP<{to_ddl(kind.keyType)}, {to_ddl(kind.valueType)}>"
    return kind.simpleString()


# Decoding.


def decoder(schema: StructType, settings: ReadSettings) -> Callable[[pa.RecordBatch], dict[str, pa.Array]]:
    """Return a function that adds the decoded columns, and the error columns, to a fetched batch."""
    from pyspark.sql.pandas.types import to_arrow_schema

    target = to_arrow_schema(schema, timezone="UTC")
    converts = {
        which: _converter(decoding, settings, which, target.field(which).type)
        for which, decoding in (("key", settings.key), ("value", settings.value))
        if decoding.format != "binary" and which in target.names
    }

    def decode(batch: pa.RecordBatch) -> dict[str, pa.Array]:
        columns: dict[str, pa.Array] = {}
        errors: dict[int, str] = {}
        for which, convert in converts.items():
            columns[which], bad = decode_column(batch.column(which), convert, target.field(which).type)
            for row, message in bad:
                messages = f"The {which} {message}"
                errors[row] = f"{errors[row]} {messages}" if row in errors else messages
        if errors and settings.on_decode_error == "fail":
            raise _failure(batch, errors)
        if errors:
            columns.update(_error_columns(batch, errors, target))
        return columns

    return decode


def decode_column(
    values: pa.Array, convert: Convert, kind: pa.DataType
) -> tuple[pa.Array, list[tuple[int, str]]]:
    """Return the column and its bad rows, which are null in it. It finds them by bisecting the failing
    part."""
    import pyarrow as pa

    errors: list[tuple[int, str]] = []

    def attempt(part: pa.Array, first: int) -> list[pa.Array]:
        try:
            return [convert(part)]
        except (pa.ArrowException, ClientError, DecodeError) as error:
            if len(part) == 1:
                errors.append((first, f"cannot be decoded: {_plain(error)}"))
                return [pa.nulls(1, kind)]
            half = len(part) // 2
            return attempt(part.slice(0, half), first) + attempt(part.slice(half), first + half)

    parts = attempt(values, 0) if len(values) else []
    if len(parts) == 1:
        return parts[0], errors
    return (pa.concat_arrays(parts) if parts else pa.nulls(0, kind)), errors


def _plain(error: Exception) -> str:
    text = str(error).strip().rstrip(".").removesuffix(" in row 0")
    return f"{text.replace('/r/', '').replace('Column(/r)', 'the value')}."


def _converter(decoding: Decoding, settings: ReadSettings, which: str, kind: pa.DataType) -> Convert:
    import pyarrow as pa

    if decoding.format == "string":
        return lambda values: values.cast(pa.string())
    if decoding.format == "json":
        return json_converter(kind)
    from ottla.spark.avro import avro_converter

    return avro_converter(decoding, settings, which, kind)


def json_converter(kind: pa.DataType) -> Convert:
    """Return a parser of JSON into a column of `kind`. Types are strict; fields that `kind` lacks are
    dropped."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.json as pj

    parsed = _parsable(kind)
    parse_options = pj.ParseOptions(
        explicit_schema=pa.schema([("r", parsed)]),
        newlines_in_values=True,
        unexpected_field_behavior="ignore",
    )
    opening, closing, nothing = (pa.scalar(text, pa.binary()) for text in (b'{"r":', b"}\n", b""))
    null = pa.scalar(b"null", pa.binary())

    def convert(values: pa.Array) -> pa.Array:
        present = pc.fill_null(values, null) if values.null_count else values
        wrapped = pc.binary_join_element_wise(opening, present, closing, nothing)
        ends = memoryview(wrapped.buffers()[1])[: 4 * (len(wrapped) + 1)].cast("i")
        data = wrapped.buffers()[2].slice(ends[0], ends[-1] - ends[0])
        table = pj.read_json(
            pa.BufferReader(data),
            read_options=pj.ReadOptions(use_threads=False, block_size=len(data) + 1),
            parse_options=parse_options,
        )
        if table.num_rows != len(values):
            raise DecodeError("it is not a single JSON value")
        column = table.column(0).combine_chunks()
        if isinstance(column, pa.ChunkedArray):
            column = pa.concat_arrays(column.chunks)
        return column if column.type == kind else column.cast(kind)

    return convert


def _parsable(kind: pa.DataType) -> pa.DataType:
    """The type to parse as: JSON has dates as strings, which are cast afterwards."""
    import pyarrow as pa

    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_parsable(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_parsable(kind.value_type)))
    if pa.types.is_map(kind):
        raise OptionError(
            "Maps cannot be decoded from JSON. Use a struct, or read the value as a string and use from_json."
        )
    if pa.types.is_date(kind):
        return pa.string()
    return kind


# Bad rows.


def _failure(batch: pa.RecordBatch, errors: dict[int, str]) -> DecodeError:
    row = min(errors)
    place = _place(batch, row)
    more = (
        f" ({len(errors) - 1} more of these {batch.num_rows} records failed as well.)"
        if errors.keys() - {row}
        else ""
    )
    return DecodeError(
        f"{place}: {errors[row]}{more} Set onDecodeError to null or deadLetter to skip such records."
    )


def _place(batch: pa.RecordBatch, row: int) -> str:
    topic, partition, offset = (batch.column(name)[row].as_py() for name in ("topic", "partition", "offset"))
    return f"{topic}-{partition} at offset {offset}"


def _error_columns(batch: pa.RecordBatch, errors: dict[int, str], target: pa.Schema) -> dict[str, pa.Array]:
    """The error columns that the target schema asks for."""
    import pyarrow as pa

    columns: dict[str, pa.Array] = {}
    if "decodeError" in target.names:
        messages: list[str | None] = [None] * batch.num_rows
        for row, message in errors.items():
            messages[row] = message
        columns["decodeError"] = pa.array(messages, pa.string())
    if "deadLetter" in target.names:
        letters: list[dict[str, Any] | None] = [None] * batch.num_rows
        for row, message in errors.items():
            letters[row] = _dead_letter(batch, row, message)
        columns["deadLetter"] = pa.array(letters, target.field("deadLetter").type)
    return columns


def _dead_letter(batch: pa.RecordBatch, row: int, message: str) -> dict[str, Any]:
    """The original record for the dead-letter topic, with headers that give the error and its position."""
    record = {
        name: batch.column(name)[row].as_py() for name in ("key", "value", "topic", "partition", "offset")
    }
    added = {
        ERROR_HEADER: message,
        TOPIC_HEADER: record["topic"],
        PARTITION_HEADER: str(record["partition"]),
        OFFSET_HEADER: str(record["offset"]),
    }
    headers = [dict(header) for header in batch.column("headers")[row].as_py()]
    headers += [{"key": name, "value": text.encode()} for name, text in added.items()]
    return {"key": record["key"], "value": record["value"], "headers": headers}
