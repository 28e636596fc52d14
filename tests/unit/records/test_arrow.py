"""Records into Arrow columns and back, in both forms of the kernel."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.records.conftest import forms_of
from tests.unit.records.samples import NOW, RECORDS, mutations, with_body

from ottla.records import plain_kernel
from ottla.records.batch import Codec
from ottla.records.record import Record, build_batch, read_records
from ottla.wire.errors import CorruptMessage

pa = pytest.importorskip("pyarrow")

from ottla.client.core.partitioners import partition_for_key  # noqa: E402
from ottla.records import arrow  # noqa: E402

any_form = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


@pytest.fixture(params=["compiled", "plain"])
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The columnar modules, all compiled or all plain."""
    if request.param == "compiled":
        names = ("reader", "builder", "columns", "rows")
        found = {name: next(iter(forms_of(name))) for name in names}
    else:
        found = {name: plain_kernel(name) for name in ("reader", "builder", "columns", "rows")}
    monkeypatch.setattr(arrow, "Columns", found["columns"].Columns)
    for name in ("Cells", "Lists", "Rows"):
        monkeypatch.setattr(arrow, name, getattr(found["rows"], name))
    return SimpleNamespace(**found)


def collected(kernel: Any, data: bytes | bytearray, rows_max: int = 1 << 30, **options: Any) -> Any:
    collector = arrow.Collector()
    reader = kernel.reader.records_of("topic", 3, memoryview(data), from_offset=0, **options)
    collector.add(reader, rows_max)
    batch = collector.finish()
    batch.validate(full=True)
    assert batch.schema == arrow.SCHEMA
    return batch


def expected(records: list[Record]) -> list[dict[str, Any]]:
    return [
        {
            "key": record.key,
            "value": record.value,
            "topic": "topic",
            "partition": 3,
            "offset": index,
            "timestamp": record.timestamp,
            "timestamp_type": 0,
            "headers": [{"key": name, "value": value} for name, value in record.headers],
        }
        for index, record in enumerate(records)
    ]


def as_rows(batch: Any) -> list[dict[str, Any]]:
    times = batch.schema.get_field_index("timestamp")
    return batch.set_column(times, "timestamp", batch.column(times).cast(pa.int64())).to_pylist()  # type: ignore[no-any-return]


@any_form
@given(records=RECORDS, codec=st.sampled_from(list(Codec)))
def test_a_batch_becomes_columns(kernel: Any, records: list[Record], codec: Codec) -> None:
    assert as_rows(collected(kernel, build_batch(records, codec=codec))) == expected(records)


def test_many_records_with_large_values_become_columns_in_parts(kernel: Any) -> None:
    records = [
        Record(0, NOW + index, b"k%d" % index if index % 3 else None, b"v" * (index % 700), (("h", b"x"),))
        for index in range(3000)
    ]
    data = b"".join(build_batch(records[at : at + 100], base_offset=at) for at in range(0, 3000, 100))
    reader = kernel.reader.records_of("topic", 3, memoryview(data), from_offset=0)
    collector = arrow.Collector()
    found: list[dict[str, Any]] = []
    while collector.add(reader, 777):
        batch = collector.finish()
        batch.validate(full=True)
        assert batch.num_rows <= 777
        found += as_rows(batch)
    assert found == expected(records)
    assert reader.exhausted
    assert reader.next_offset == 3000


@pytest.mark.parametrize(("rows", "value_bytes"), [(0, 0), (7, 1000), (200, 70_000), (1000, 1 << 20)])
def test_reserved_memory_does_not_change_the_columns(kernel: Any, rows: int, value_bytes: int) -> None:
    records = [Record(0, NOW + index, None, b"%d" % index * 100, ()) for index in range(100)]
    collector = arrow.Collector()
    collector.reserve(rows, value_bytes)
    reader = kernel.reader.records_of("topic", 3, memoryview(build_batch(records)), from_offset=0)
    assert collector.add(reader, 1000) == 100
    batch = collector.finish()
    batch.validate(full=True)
    assert as_rows(batch) == expected(records)


def test_columns_do_not_grow_within_the_memory_reserved(kernel: Any) -> None:
    records = [Record(0, NOW, None, b"v" * 700, ()) for _ in range(99)]
    columns = kernel.columns.Columns()
    columns.reserve(99, 70_000)
    reader = kernel.reader.records_of("topic", 3, memoryview(build_batch(records)), from_offset=0)
    assert reader.fill(columns, 1000) == 99
    assert len(columns.values.data) in (70_000, columns.values.used)  # plain Python reserves nothing
    assert len(columns.offsets) in (8 * 99, 99)
    assert len(columns.values.ends) in (4 * 100, 100)


def test_several_readers_share_one_batch(kernel: Any) -> None:
    collector = arrow.Collector()
    for topic, partition in (("a", 0), ("b", 1), ("a", 2)):
        data = build_batch([Record(0, NOW, None, b"v")], log_append_time=NOW + 5)
        collector.add(kernel.reader.records_of(topic, partition, memoryview(data), from_offset=0), 10)
    batch = collector.finish()
    batch.validate(full=True)
    assert batch.column("topic").to_pylist() == ["a", "b", "a"]
    assert batch.column("partition").to_pylist() == [0, 1, 2]
    assert batch.column("timestamp_type").to_pylist() == [1, 1, 1]
    assert batch.column("timestamp").cast(pa.int64()).to_pylist() == [NOW + 5] * 3


def test_an_invalid_header_name_is_replaced_as_in_single_records(kernel: Any) -> None:
    data = build_batch([Record(0, NOW, None, None, (("né", b"v"),))])
    at = data.index("é".encode())
    data[at] = 0xFF
    batch = collected(kernel, data, check_crcs=False)
    (record,) = kernel.reader.records_of("t", 0, memoryview(data), from_offset=0, check_crcs=False).take(1)
    assert batch.column("headers").to_pylist() == [[{"key": record.headers[0][0], "value": b"v"}]]


def test_an_empty_collector_gives_an_empty_batch(kernel: Any) -> None:
    assert collected(kernel, b"").num_rows == 0


@any_form
@given(data=st.data())
def test_corrupt_bytes_raise_after_the_rows_before_them(kernel: Any, data: st.DataObject) -> None:
    sound = build_batch([Record(0, NOW, b"k", b"v", (("h", b"1"),))] * 4)
    broken = with_body(sound, mutations(data, bytes(sound)[61:]))
    try:
        batch = collected(kernel, broken)
    except CorruptMessage:
        return
    assert batch.num_rows <= 4 + len(broken)


def rebuilt(kernel: Any, table: Any, partitions: int = 1, **columns: Any) -> list[list[Record]]:
    """The contents of the batches built from the rows: rows without a partition first, then each
    partition's."""
    rows = arrow.rows_of(table, now_ms=NOW, **columns)
    starts = rows.arrange(partitions)
    assert starts[-1] == table.num_rows
    found = []
    for position, end in pairwise(starts):
        records: list[Record] = []
        while position < end:
            builder = kernel.builder.BatchBuilder(batch_size=400)
            after = builder.append_rows(rows, position, end)
            assert after > position
            position = after
            records += read_records(builder.build())
        found.append(records)
    return found


@any_form
@given(records=RECORDS, cut=st.integers(0, 4))
def test_columns_become_the_same_records_again(kernel: Any, records: list[Record], cut: int) -> None:
    batch = collected(kernel, build_batch(records)).slice(cut)
    (keyless, keyed) = rebuilt(
        kernel, batch, key="key", value="value", headers="headers", timestamp="timestamp"
    )
    wanted = [
        record._replace(timestamp=NOW if record.timestamp == -1 else record.timestamp, offset=0)
        for record in records[cut:]
    ]
    assert [one._replace(offset=0) for one in keyless] == [one for one in wanted if one.key is None]
    assert [one._replace(offset=0) for one in keyed] == [one for one in wanted if one.key is not None]


def test_rows_are_partitioned_by_javas_key_hash_or_explicitly(kernel: Any) -> None:
    keys = [b"", b"a", b"ab", b"abc", b"abcd", None, b"\xff" * 9, "kä".encode() * 5]
    table = pa.record_batch({"key": keys, "value": [str(index) for index in range(8)]})
    found = rebuilt(kernel, table, 5, key="key", value="value")
    assert [record.value for record in found[0]] == [b"5"]
    for partition, records in enumerate(found[1:]):
        for record in records:
            assert record.key is not None
            assert partition_for_key(record.key, 5) == partition
    chosen = table.append_column("to", pa.array([4, 4, None, 0, None, 1, 1, 1], pa.int64()))
    found = rebuilt(kernel, chosen, 5, key="key", value="value", partition="to")
    assert [record.value for record in found[5]][:2] == [b"0", b"1"]
    assert {b"5", b"6", b"7"} <= {record.value for record in found[2]}


@pytest.mark.parametrize(
    "kind",
    [pa.binary(), pa.large_binary(), pa.string(), pa.large_string(), pa.binary(2), pa.string_view()],
    ids=str,
)
def test_every_string_and_binary_type_is_accepted(kernel: Any, kind: Any) -> None:
    table = pa.record_batch({"v": pa.array([b"ab", None, b"cd", b"ef"], pa.binary()).cast(kind)}).slice(1)
    (found, _) = rebuilt(kernel, table, key=None, value="v")
    assert [record.value for record in found] == [None, b"cd", b"ef"]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_every_time_unit_is_accepted_and_null_means_now(kernel: Any, unit: str) -> None:
    times = pa.array([datetime(2020, 1, 1), None], pa.timestamp(unit))  # noqa: DTZ001
    table = pa.record_batch({"v": [b"a", b"b"], "t": times})
    (found, _) = rebuilt(kernel, table, key=None, value="v", timestamp="t")
    assert [record.timestamp for record in found] == [1577836800000, NOW]


def test_invalid_columns_are_refused_with_a_message(kernel: Any) -> None:
    table = pa.record_batch(
        {"v": [1.5], "p": [9], "h": [[1]], "n": [[{"key": None, "value": b""}]], "b": [b""]}
    )
    with pytest.raises(TypeError, match="binary or text, not double"):
        rebuilt(kernel, table, key=None, value="v")
    with pytest.raises(ValueError, match="no column 'x'; the columns are: v, p"):
        rebuilt(kernel, table, key=None, value="x")
    with pytest.raises(ValueError, match="has partition 9, but the topic has 2"):
        rebuilt(kernel, table, 2, key=None, value=None, partition="p")
    with pytest.raises(TypeError, match="list of structs"):
        rebuilt(kernel, table, key=None, value="b", headers="h")
    with pytest.raises(ValueError, match="header of row 0 has no name"):
        rebuilt(kernel, table, key=None, value="b", headers="n")


def test_the_plain_form_is_plain(kernel: ModuleType) -> None:
    assert len({type(module.__spec__.loader) for module in vars(kernel).values()}) == 1


@pytest.mark.parametrize("module", ["ottla.records.arrow", "ottla.client.consumer.ranges"])
def test_the_error_names_the_package_to_install(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for name in {module, "ottla.records.arrow"}:
        monkeypatch.delitem(sys.modules, name, raising=False)
    with pytest.raises(ImportError, match=r"pip install 'ottla\[arrow\]'"):
        importlib.import_module(module)
