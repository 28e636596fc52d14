"""Tables through the producer and the consumer, on a broker in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

import ottla
import ottla.aio
from ottla.client.errors import ConfigError
from ottla.testing import Broker

pa = pytest.importorskip("pyarrow")

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
