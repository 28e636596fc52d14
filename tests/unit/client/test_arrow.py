"""Tables through the producer and the consumer, on a broker in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

import ottla
import ottla.aio
from ottla.client.errors import ConfigError
from ottla.records.builder import BatchBuilder
from ottla.testing import Broker
from ottla.wire.errors import KafkaError

pa = pytest.importorskip("pyarrow")

from ottla.client.producer.arrow import adopted  # noqa: E402 - it needs pyarrow

WAIT = 60.0


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({"num.partitions": "3"}) as started:
        yield started


def read(broker: Broker, topic: str, rows: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    consumer: ottla.Consumer[Any, Any] = ottla.Consumer(
        broker.bootstrap_servers, auto_offset_reset="earliest"
    )
    with consumer:
        consumer.assign([(topic, partition) for partition in range(3)])
        for batch in consumer.arrow(max_rows=50, idle_timeout=WAIT):
            found += batch.to_pylist()
            if len(found) >= rows:
                break
    return found


def test_several_tables_follow_each_other_and_say_where_they_are(broker: Broker) -> None:
    with ottla.Producer(broker.bootstrap_servers, linger_ms=0) as producer:
        for number in range(3):
            table = pa.table({"value": [b"%d" % number] * 40, "to": [1] * 40})
            report = producer.send_arrow("tables", table, partition="to").result(WAIT)
            assert [(part.partition, part.offset, part.rows) for part in report.parts] == [
                (1, number * 40, 40)
            ]
        empty = producer.send_arrow("tables", table.slice(0, 0), partition="to")
        assert empty.done()
        assert empty.result().rows == 0
    found = read(broker, "tables", 120)
    assert [row["value"] for row in found] == [b"0"] * 40 + [b"1"] * 40 + [b"2"] * 40
    assert {(row["topic"], row["partition"]) for row in found} == {("tables", 1)}


def test_rows_without_a_key_stay_together_and_none_is_lost(broker: Broker) -> None:
    values = [b"%d" % number for number in range(500)]
    with ottla.Producer(broker.bootstrap_servers) as producer:
        report = producer.send_arrow("keyless", pa.table({"value": values})).result(WAIT)
    assert len({part.partition for part in report.parts}) == 1
    assert [row["value"] for row in read(broker, "keyless", 500)] == values


def test_an_own_partitioner_is_not_asked_for_rows(broker: Broker) -> None:
    table = pa.table({"value": [b"x"], "to": [2]})
    with ottla.Producer(broker.bootstrap_servers, partitioner_class="round_robin") as producer:
        with pytest.raises(ConfigError, match="column"):
            producer.send_arrow("own", table)
        (part,) = producer.send_arrow("own", table, partition="to").result(WAIT).parts
        assert part.partition == 2


def test_an_awaited_producer_sends_tables_too(broker: Broker) -> None:
    async def run() -> list[int]:
        async with ottla.aio.Producer(broker.bootstrap_servers) as producer:
            rows = []
            for _ in range(2):
                delivery = await producer.send_arrow("awaited", pa.table({"value": [b"x"] * 10}))
                rows.append((await delivery).rows)
            return rows

    assert asyncio.run(run()) == [10, 10]


def built(values: list[bytes], codec: int = 0) -> bytes:
    builder = BatchBuilder(codec=codec, batch_size=1 << 20)
    for number, value in enumerate(values):
        builder.append(1_000 + number, b"k", value, [("h", b"x")])
    return bytes(builder.build())


@pytest.mark.parametrize("codec", [0, 4])
def test_batches_that_were_built_elsewhere_are_sent_as_they_are(broker: Broker, codec: int) -> None:
    first, second = [b"a"] * 30, [b"b"] * 20
    topic = f"built-{codec}"
    with ottla.Producer(broker.bootstrap_servers) as producer:
        pairs: list[tuple[int, bytes | memoryview]] = [(0, built(first, codec))]
        pairs.append((2, memoryview(built(second, codec))))
        report = producer.send_batches(topic, pairs).result(WAIT)
        assert [(part.partition, part.offset, part.rows) for part in report.parts] == [(0, 0, 30), (2, 0, 20)]
    found = read(broker, topic, 50)
    assert sorted((row["partition"], row["value"]) for row in found) == [(0, b"a")] * 30 + [(2, b"b")] * 20
    assert {row["key"] for row in found} == {b"k"}


def test_batches_from_elsewhere_are_awaited_too_and_written_within_a_transaction(broker: Broker) -> None:
    async def run() -> int:
        async with ottla.aio.Producer(broker.bootstrap_servers, transactional_id="adopts") as producer:
            async with producer.transaction():
                report = await (await producer.send_batches("adopted", [(1, built([b"x"] * 7))]))
            return report.rows

    assert asyncio.run(run()) == 7
    assert len(read(broker, "adopted", 7)) == 7


def test_what_is_no_whole_batch_is_not_adopted() -> None:
    whole = built([b"x", b"y"])
    damaged = bytearray(whole)
    damaged[-1] ^= 1
    for data in (whole[:-1], whole + whole, bytes(damaged)):
        with pytest.raises((ValueError, KafkaError)):
            adopted(data)
    taken = adopted(whole)
    assert (taken.count, taken.base_timestamp, taken.max_timestamp) == (2, 1_000, 1_001)
    with pytest.raises(ValueError, match="empty"):
        taken.adopt(whole)
    assert bytes(taken.build()) == whole
