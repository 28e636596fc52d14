"""Tables to topics and topics to tables, the same with every broker; what others write and read agrees."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import ottla
import ottla.aio
from ottla.client.core.partitioners import partition_for_key
from tests.interop.library.support import LibraryCluster, make_topic, read_all

pa = pytest.importorskip("pyarrow")

WAIT = 120.0
ROWS = 5_000


def sample(rows: int = ROWS) -> Any:
    return pa.table(
        {
            "id": pa.array([f"key-{number % 97}" for number in range(rows)]),
            "payload": pa.array([b"%07d" % number * (number % 9) for number in range(rows)], pa.binary()),
            "at": pa.array([1_600_000_000_000 + number for number in range(rows)], pa.timestamp("ms")),
            "notes": pa.array(
                [
                    [{"key": "n", "value": b"%d" % number}] if number % 5 == 0 else []
                    for number in range(rows)
                ],
                pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
            ),
        }
    )


def read_arrow(cluster: LibraryCluster, topic: str, rows: int, max_rows: int = 1000, **settings: Any) -> Any:
    """All of a topic as a table, once it has so many rows."""
    consumer: ottla.Consumer[Any, Any] = ottla.Consumer(
        cluster.bootstrap, auto_offset_reset="earliest", **settings
    )
    with consumer:
        consumer.assign(consumer.partitions_for(topic))
        batches = []
        for batch in consumer.arrow(max_rows=max_rows, idle_timeout=WAIT):
            batch.validate(full=True)
            assert 0 < batch.num_rows <= max_rows
            batches.append(batch)
            if sum(one.num_rows for one in batches) >= rows:
                break
    return pa.Table.from_batches(batches)


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_a_table_comes_back_as_it_was_sent(cluster: LibraryCluster, codec: str) -> None:
    topic = make_topic(cluster, f"arrow-{codec}", 3)
    table = sample()
    with ottla.Producer(cluster.bootstrap, compression_type=codec) as producer:
        delivery = producer.send_arrow(
            topic, table, key="id", value="payload", headers="notes", timestamp="at"
        )
        report = delivery.result(WAIT)
    assert (report.rows, report.error, delivery.done()) == (ROWS, None, True)
    assert {part.status for part in report.parts} == {ottla.Status.PERSISTED}
    found = read_arrow(cluster, topic, ROWS).sort_by("timestamp")
    assert found.column("key").to_pylist() == [key.encode() for key in table.column("id").to_pylist()]
    assert found.column("value").to_pylist() == table.column("payload").to_pylist()
    assert found.column("timestamp").to_pylist() == table.column("at").to_pylist()
    assert found.column("headers").to_pylist() == table.column("notes").to_pylist()
    assert set(found.column("topic").to_pylist()) == {topic}
    placed = zip(found.column("key").to_pylist(), found.column("partition").to_pylist(), strict=True)
    assert all(partition == partition_for_key(key, 3) for key, partition in placed)
    # Each part has the offsets that its report says.
    parts: dict[int, list[tuple[int, int]]] = {}
    for part in report.parts:
        parts.setdefault(part.partition, []).append((part.offset, part.rows))
    for lengths in parts.values():
        at = 0
        for offset, rows in sorted(lengths):
            assert offset == at
            at += rows


def test_others_read_what_a_table_became_and_single_records_keep_their_place(cluster: LibraryCluster) -> None:
    topic = make_topic(cluster, "arrow-others")
    with ottla.Producer(cluster.bootstrap, linger_ms=1000) as producer:
        before = producer.send(topic, b"before")
        table = producer.send_arrow(topic, pa.record_batch({"value": [b"1", None, b"3"]}))
        after = producer.send(topic, b"after")
        producer.flush(WAIT)
        assert [before.result(WAIT).offset, after.result(WAIT).offset] == [0, 4]
        assert [(part.offset, part.rows) for part in table.result(WAIT).parts] == [(1, 3)]
    values = [value for _, _, _, value in read_all(cluster, topic)]
    assert values == [b"before", b"1", None, b"3", b"after"]


def test_a_table_larger_than_the_memory_of_the_producer_goes_through_it(cluster: LibraryCluster) -> None:
    topic = make_topic(cluster, "arrow-memory", 2)
    table = pa.table({"value": pa.array([b"x" * 1000] * 5000)})
    with ottla.Producer(cluster.bootstrap, buffer_memory=1 << 20) as producer:
        assert producer.send_arrow(topic, table).result(WAIT).rows == 5000
    assert read_arrow(cluster, topic, 5000).num_rows == 5000


def test_a_transaction_has_all_rows_of_a_table_or_none(cluster: LibraryCluster) -> None:
    topic = make_topic(cluster, "arrow-transaction")
    with ottla.Producer(cluster.bootstrap, transactional_id=topic) as producer:
        producer.begin_transaction()
        producer.send_arrow(topic, pa.table({"value": [b"aborted"] * 100}))
        producer.abort_transaction()
        with producer.transaction():
            producer.send_arrow(topic, pa.table({"value": [b"committed"] * 100}))
    found = read_arrow(cluster, topic, 100, isolation_level="read_committed")
    assert set(found.column("value").to_pylist()) == {b"committed"}


def test_the_awaited_twins_do_the_same(cluster: LibraryCluster) -> None:
    topic = make_topic(cluster, "arrow-aio", 2)

    async def run() -> Any:
        async with ottla.aio.Producer(cluster.bootstrap) as producer:
            delivery = await producer.send_arrow(topic, sample(100), key="id", value="payload")
            report = await delivery
        assert report.rows == 100
        rows = 0
        consumer: ottla.aio.Consumer[Any, Any] = ottla.aio.Consumer(
            cluster.bootstrap, auto_offset_reset="earliest"
        )
        async with consumer:
            await consumer.assign([(topic, 0), (topic, 1)])
            async for batch in consumer.arrow(idle_timeout=WAIT):
                rows += batch.num_rows
                if rows >= 100:
                    break
        return rows

    assert asyncio.run(run()) == 100


def test_what_arrow_gave_is_not_given_again_and_single_records_go_on_behind_it(
    cluster: LibraryCluster,
) -> None:
    topic = make_topic(cluster, "arrow-mixed")
    with ottla.Producer(cluster.bootstrap) as producer:
        producer.send_arrow(topic, pa.table({"value": [b"%d" % number for number in range(30)]}))
    consumer: ottla.Consumer[bytes, bytes] = ottla.Consumer(cluster.bootstrap, auto_offset_reset="earliest")
    with consumer:
        consumer.assign([(topic, 0)])
        seen: list[bytes] = []
        batches = consumer.arrow(max_rows=7, idle_timeout=WAIT)
        while len(seen) < 14:
            seen += next(batches).column("value").to_pylist()
        assert consumer.position((topic, 0)) == len(seen)
        for record in consumer.records(idle_timeout=WAIT):
            seen.append(record.value)
            if len(seen) >= 20:
                break
        while len(seen) < 30:
            seen += next(batches).column("value").to_pylist()
    assert seen == [b"%d" % number for number in range(30)]


def test_pandas_polars_and_duckdb_take_the_batches_where_they_are_installed(cluster: LibraryCluster) -> None:
    topic = make_topic(cluster, "arrow-frames")
    with ottla.Producer(cluster.bootstrap) as producer:
        producer.send_arrow(topic, sample(300), key="id", value="payload").result(WAIT)
    fetched = read_arrow(cluster, topic, 300)
    tried = 0
    for name, count in (
        ("pandas", lambda _: len(fetched.to_pandas()["offset"].unique())),
        ("polars", lambda polars: polars.from_arrow(fetched)["offset"].n_unique()),
        ("duckdb", lambda duckdb: duckdb.sql("select count(distinct offset) from fetched").fetchone()[0]),
    ):
        try:
            module = __import__(name)
        except ImportError:
            continue
        tried += 1
        assert count(module) == 300, name
    assert tried, "pandas is part of the development set-up"
