"""Decoding of columns: whole batches by Arrow, and the handling of bad rows."""

from __future__ import annotations

import json
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.spark.options import OptionError
from ottla.spark.settings import read_settings

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from pyspark.sql.types import StructType  # noqa: E402 - it needs pyspark

from ottla.spark import avro, decoders  # noqa: E402
from ottla.spark.schema import check_schema, finisher, schema_of  # noqa: E402

KIND = pa.struct([("id", pa.int64()), ("name", pa.string()), ("tags", pa.list_(pa.string()))])
BASE = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "orders"}

ROWS = st.none() | st.fixed_dictionaries(
    {},
    optional={
        "id": st.none() | st.integers(-(2**63), 2**63 - 1),
        "name": st.none() | st.text(st.characters(exclude_categories=["Cs"])),
        "tags": st.none() | st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=3),
        "more": st.integers() | st.lists(st.integers(), max_size=2) | st.dictionaries(st.text(), st.none()),
    },
)


def whole(row: dict[str, Any] | None) -> dict[str, Any] | None:
    return None if row is None else {name: row.get(name) for name in ("id", "name", "tags")}


@given(st.lists(ROWS), st.sampled_from([None, 2]))
def test_json_matches_pythons_parser_and_missing_fields_are_null(
    rows: list[dict[str, Any] | None], indent: int | None
) -> None:
    values = pa.array([json.dumps(row, indent=indent).encode() for row in rows], pa.binary())
    column, errors = decoders.decode_column(values, decoders.json_converter(KIND), KIND)
    assert errors == []
    assert column.to_pylist() == [whole(row) for row in rows]


BAD = [
    b"",
    b"{",
    b'{"id":1} {"id":2}',
    b'{"id":"x"}',
    b'{"id":1}}\n{"r":{"id":2}',
    b"\xff",
    b'"abc',
    b"nul",
    b"1",
]


@given(st.lists(st.sampled_from([b'{"id":7}', b"null", None, *BAD]), max_size=40))
def test_bad_rows_are_found_and_never_shift_the_others(values: list[bytes | None]) -> None:
    column, errors = decoders.decode_column(
        pa.array(values, pa.binary()), decoders.json_converter(KIND), KIND
    )
    assert [row for row, _ in errors] == [row for row, value in enumerate(values) if value in BAD]
    assert column.to_pylist() == [
        {"id": 7, "name": None, "tags": None} if value == b'{"id":7}' else None for value in values
    ]


def test_dates_times_and_decimals_are_strings_in_json() -> None:
    kind = pa.struct(
        [
            ("d", pa.date32()),
            ("t", pa.timestamp("us", "UTC")),
            ("n", pa.decimal128(10, 2)),
            ("l", pa.list_(pa.date32())),
        ]
    )
    value = b'{"d":"2026-01-02","t":"2026-01-02T03:04:05.678+01:00","n":"12.30","l":["2026-01-03"]}'
    column, errors = decoders.decode_column(pa.array([value]), decoders.json_converter(kind), kind)
    assert not errors
    [row] = column.to_pylist()
    assert row["d"] == date(2026, 1, 2)
    assert row["t"].isoformat() == "2026-01-02T02:04:05.678000+00:00"
    assert str(row["n"]) == "12.30"
    assert row["l"] == [date(2026, 1, 3)]


def test_a_map_is_refused_with_an_alternative() -> None:
    with pytest.raises(OptionError, match="from_json"):
        decoders.json_converter(pa.struct([("m", pa.map_(pa.string(), pa.int32()))]))


def fetched(values: list[bytes | None]) -> Any:
    count = len(values)
    headers = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    return pa.RecordBatch.from_pydict(
        {
            "key": pa.array([b"k"] * count, pa.binary()),
            "value": pa.array(values, pa.binary()),
            "topic": pa.array(["orders"] * count).dictionary_encode(),
            "partition": pa.array([3] * count, pa.int32()),
            "offset": pa.array(range(100, 100 + count), pa.int64()),
            "timestamp": pa.array([1000] * count, pa.timestamp("ms")),
            "timestamp_type": pa.array([0] * count, pa.int32()),
            "headers": pa.array([[{"key": "h", "value": b"1"}]] * count, headers),
        }
    )


def finished(values: list[bytes | None], schema: str, **options: str) -> list[dict[str, Any]]:
    settings = read_settings({**BASE, **options})
    kind = StructType.fromJson(json.loads(schema))
    check_schema(kind, settings)
    rows: list[dict[str, Any]] = finisher(kind, settings)(fetched(values)).to_pylist()
    return rows


ID = '{"name":"id","type":"long","nullable":true,"metadata":{}}'
VALUE = f'{{"name":"value","type":{{"type":"struct","fields":[{ID}]}},"nullable":true,"metadata":{{}}}}'
OFFSET = '{"name":"offset","type":"long","nullable":true,"metadata":{}}'
ERROR = '{"name":"decodeError","type":"string","nullable":true,"metadata":{}}'


def struct(*fields: str) -> str:
    return '{"type":"struct","fields":[' + ",".join(fields) + "]}"


def test_a_bad_row_fails_with_its_position_by_default() -> None:
    options = {"valueFormat": "json", "valueSchema": "id BIGINT"}
    with pytest.raises(
        decoders.DecodeError, match=r"orders-3 at offset 101: The value cannot be decoded"
    ) as told:
        finished([b'{"id":1}', b"oops", b"{"], struct(VALUE, OFFSET), **options)
    assert "1 more" in str(told.value)
    assert "Set onDecodeError to null or deadLetter" in str(told.value)


def test_a_bad_row_is_null_with_its_error_beside_it() -> None:
    options = {"valueFormat": "json", "valueSchema": "id BIGINT", "onDecodeError": "null"}
    rows = finished([b'{"id":1}', b"oops", None], struct(VALUE, OFFSET, ERROR), **options)
    assert [row["value"] for row in rows] == [{"id": 1}, None, None]
    assert [row["offset"] for row in rows] == [100, 101, 102]
    assert rows[0]["decodeError"] is None
    assert rows[2]["decodeError"] is None
    assert rows[1]["decodeError"].startswith("The value cannot be decoded")


def test_a_dead_letter_is_the_record_with_error_headers() -> None:
    options = {"valueFormat": "json", "onDecodeError": "deadLetter"}
    letter = json.dumps(
        {
            "name": "deadLetter",
            "type": json.loads(_dead_letters()),
            "nullable": True,
            "metadata": {},
        }
    )
    rows = finished([b'{"id":1}', b"oops"], struct(VALUE, letter), **options)
    assert rows[0]["deadLetter"] is None
    letter_row = rows[1]["deadLetter"]
    assert (letter_row["key"], letter_row["value"]) == (b"k", b"oops")
    headers = {header["key"]: header["value"] for header in letter_row["headers"]}
    assert headers["h"] == b"1"
    assert headers["ottla.topic"] == b"orders"
    assert headers["ottla.partition"] == b"3"
    assert headers["ottla.offset"] == b"101"
    assert headers["ottla.error"].startswith(b"The value cannot be decoded")


def _dead_letters() -> str:
    from ottla.spark.schema import DEAD_LETTERS

    return DEAD_LETTERS.json()


def test_invalid_utf_8_is_an_error() -> None:
    text = '{"name":"value","type":"string","nullable":true,"metadata":{}}'
    options = {"valueFormat": "string", "onDecodeError": "null"}
    rows = finished([b"caf\xc3\xa9", b"\xff\xfe"], struct(text, ERROR), **options)
    assert rows[0] == {"value": "caf\u00e9", "decodeError": None}
    assert rows[1]["value"] is None
    assert rows[1]["decodeError"]


def test_columns_are_left_out_by_a_given_schema_and_wrong_ones_refused() -> None:
    assert finished([b"x"], struct(OFFSET)) == [{"offset": 100}]
    with pytest.raises(OptionError, match="Unknown column ofset; the columns are key, value"):
        finished([b"x"], struct(OFFSET.replace("offset", "ofset")))
    with pytest.raises(OptionError, match="The column offset is bigint, but the given schema has string"):
        finished([b"x"], struct(OFFSET.replace("long", "string")))


def test_the_schema_is_that_of_sparks_connector_or_ddl_where_columns_are_decoded() -> None:
    plain = schema_of(BASE)
    assert isinstance(plain, StructType)
    assert plain.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,"
        "timestamp:timestamp,timestampType:int>"
    )
    decoded = schema_of({**BASE, "valueFormat": "json", "valueSchema": "id BIGINT", "keyFormat": "string"})
    assert isinstance(decoded, str)
    assert decoded.startswith("`key` STRING, `value` STRUCT<id BIGINT>, `topic` string")
    with pytest.raises(OptionError, match="needs the option valueSchema"):
        schema_of({**BASE, "valueFormat": "json"})


AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "tags", "type": {"type": "array", "items": "string"}, "default": []},
        {"name": "counts", "type": {"type": "map", "values": "int"}, "default": {}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "uid", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
    ],
}


def test_an_avro_schema_has_a_type_in_spark() -> None:
    assert avro.type_of_avro(AVRO).simpleString() == (
        "struct<id:bigint,note:string,tags:array<string>,counts:map<string,int>,at:timestamp,"
        "price:decimal(9,2),uid:string,kind:string>"
    )
    with pytest.raises(OptionError, match="union of several types"):
        avro.type_of_avro(["null", "string", "int"])


@pytest.mark.parametrize("format", ["avro", "avro-bare"])
def test_avro_is_decoded_with_and_without_its_frame(format: str) -> None:
    import io
    import struct as packing
    from datetime import UTC, datetime
    from decimal import Decimal

    fastavro = pytest.importorskip("fastavro")
    from pyspark.sql.pandas.types import to_arrow_type

    row = {
        "id": 5,
        "note": None,
        "tags": ["x"],
        "counts": {"a": 1},
        "at": datetime(2026, 1, 2, tzinfo=UTC),
        "price": Decimal("3.50"),
        "uid": "0f0f0f0f-0000-0000-0000-000000000000",
        "kind": "B",
    }
    buffer = io.BytesIO(packing.pack(">bI", 0, 42) if format == "avro" else b"")
    buffer.seek(0, io.SEEK_END)
    fastavro.schemaless_writer(buffer, fastavro.parse_schema(avro.plain(AVRO)), row)
    settings = read_settings({**BASE, "valueFormat": format, "valueSchema": json.dumps(AVRO)})
    kind = to_arrow_type(avro.type_of_avro(AVRO), timezone="UTC")
    convert = avro.avro_converter(settings.value, settings, "value", kind)
    column, errors = decoders.decode_column(pa.array([buffer.getvalue(), b"\x00bad", None]), convert, kind)
    assert column.to_pylist()[0] == {**row, "counts": [("a", 1)]}
    assert column.to_pylist()[1:] == [None, None]
    assert [number for number, _ in errors] == [1]
