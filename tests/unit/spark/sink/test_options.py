"""The sink's options, columns, and values made of columns."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal

import pytest

pa = pytest.importorskip("pyarrow")
types = pytest.importorskip("pyspark.sql.types")

from ottla.spark.options import OptionError  # noqa: E402 - they need what is asked for above
from ottla.spark.sink import batch_writer, stream_writer  # noqa: E402
from ottla.spark.sink.columns import columns_of, value_maker  # noqa: E402
from ottla.spark.sink.options import parse  # noqa: E402

SERVERS = {"kafka.bootstrap.servers": "localhost:9092"}
NAMED = {**SERVERS, "topic": "out", "transactionalId": "query"}
ROWS = types.StructType().add("key", "string").add("value", "binary")


def test_a_query_needs_a_transactional_id_or_at_least_once() -> None:
    with pytest.raises(
        OptionError, match=r"Exactly-once delivery needs a transactionalId.*delivery=at-least-once"
    ):
        parse({**SERVERS, "topic": "out"})
    assert not parse({**SERVERS, "topic": "out", "delivery": "at-least-once"}).is_exactly_once
    assert parse(NAMED).is_exactly_once
    assert parse({**SERVERS, "topic": "out", "kafka.transactional.id": "query"}).transactional_id == "query"
    with pytest.raises(OptionError, match="does not use transactions"):
        parse({**NAMED, "delivery": "at-least-once"})


def test_an_unknown_name_suggests_the_nearest_one() -> None:
    with pytest.raises(
        OptionError, match=r"Unknown option transactionId for the sink. Did you mean transactionalId"
    ):
        parse({**SERVERS, "topic": "out", "transactionId": "query"})
    with pytest.raises(OptionError, match=r"compression\.type"):
        parse({**NAMED, "kafka.compresion.type": "lz4"})
    with pytest.raises(OptionError, match=r"kafka\.acks=1 is not supported here"):
        parse({**NAMED, "kafka.acks": "1"})
    with pytest.raises(OptionError, match="valueFormat is 'xml' but must be one of binary, json, avro"):
        parse({**NAMED, "valueFormat": "xml"})
    with pytest.raises(OptionError, match="valueSchema"):
        parse({**NAMED, "valueFormat": "avro"})


def test_the_marker_is_an_offset_of_the_querys_group() -> None:
    options = parse(NAMED)
    assert (options.marker_group, options.marker_topic) == ("ottla-spark.query", "out")
    assert parse({**SERVERS, "transactionalId": "q"}).marker_topic == "__consumer_offsets"
    assert options.transaction_timeout_ms == 300_000
    assert "transactional.id" not in options.client
    assert "acks" not in options.admin_client


def test_wrong_column_types_are_reported_before_any_write() -> None:
    options = parse({**SERVERS, "transactionalId": "q"})
    wrong = types.StructType().add("key", "integer").add("partition", "string").add("text", "string")
    with pytest.raises(OptionError) as told:
        columns_of(wrong, options)
    lines = str(told.value).splitlines()
    assert any("column key is int and must be string or binary" in line for line in lines)
    assert any("column partition is string" in line for line in lines)
    assert any("no column value (the columns are: key, partition, text)" in line for line in lines)
    assert any("Set the option topic, or add a column" in line for line in lines)
    headers = types.ArrayType(types.StructType().add("key", "string").add("value", "binary"))
    found = columns_of(
        types.StructType(list(ROWS))
        .add("topic", "string")
        .add("headers", headers)
        .add("timestamp", "timestamp"),
        options,
    )
    assert (found.key, found.topic, found.headers, found.timestamp) == (
        "key",
        "topic",
        "headers",
        "timestamp",
    )


def test_a_topic_cannot_be_overwritten() -> None:
    rows = types.StructType().add("value", "string")
    with pytest.raises(OptionError, match="append"):
        batch_writer(NAMED, rows, True)
    with pytest.raises(OptionError, match="append"):
        stream_writer(NAMED, rows, True)


def test_the_other_columns_become_json_as_spark_writes_it() -> None:
    schema = types.StructType().add("key", "string").add("id", "long").add("price", "decimal(8,2)")
    schema = schema.add("at", "timestamp").add("day", "date").add("raw", "binary").add("none", "string")
    schema = schema.add("tags", types.ArrayType(types.StringType()))
    options = parse({**NAMED, "valueFormat": "json"})
    batch = pa.RecordBatch.from_pydict(
        {
            "key": ["k"],
            "id": [7],
            "price": [Decimal("9.90")],
            "at": pa.array(
                [datetime.datetime(2026, 1, 2, 3, 4, 5, 678_000, datetime.UTC)], pa.timestamp("us", "UTC")
            ),
            "day": [datetime.date(2026, 1, 2)],
            "raw": [b"\x00\xff"],
            "none": pa.array([None], pa.string()),
            "tags": [["ä", 'b"c']],
        }
    )
    made = value_maker(columns_of(schema, options), options)(batch)
    assert made.schema.names == ["key", "value"]
    (text,) = made["value"].to_pylist()
    assert text.decode() == (
        '{"id":7,"price":9.90,"at":"2026-01-02T03:04:05.678Z","day":"2026-01-02","raw":"AP8=",'
        '"tags":["ä","b\\"c"]}'
    )
    assert json.loads(text)["id"] == 7


def test_the_other_columns_become_avro_in_the_frame_of_a_registry() -> None:
    fastavro = pytest.importorskip("fastavro")
    schema = '{"type":"record","name":"Order","fields":[{"name":"id","type":"long"}]}'
    given = {**NAMED, "valueFormat": "avro", "valueSchema": schema, "valueSchemaId": "9"}
    options = parse(given)
    columns = columns_of(types.StructType().add("id", "long"), options)
    (data,) = value_maker(columns, options)(pa.RecordBatch.from_pydict({"id": [3]}))["value"].to_pylist()
    assert fastavro is not None
    assert data == b"\x00\x00\x00\x00\x09\x06"


def test_a_key_may_be_a_column_of_the_value() -> None:
    schema = types.StructType().add("customer", "string").add("id", "long")
    columns = columns_of(schema, parse({**NAMED, "valueFormat": "json", "keyColumn": "customer"}))
    assert columns.key == "customer"
    assert columns.fields == ("customer", "id")
    with pytest.raises(OptionError, match="unknown column customr"):
        columns_of(schema, parse({**NAMED, "valueFormat": "json", "keyColumn": "customr"}))
