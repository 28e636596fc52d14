"""Bounded ranges of partitions as Arrow, on a broker in this process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import ottla
from ottla.client.admin import NewTopic
from ottla.client.errors import TimedOut
from ottla.client.values import TopicPartition
from ottla.testing import Broker
from ottla.wire.errors import OffsetOutOfRange, UnknownTopicOrPartition

pa = pytest.importorskip("pyarrow")

from ottla.client.consumer import ranges  # noqa: E402
from ottla.client.consumer.ranges import Lost, Range, read_ranges  # noqa: E402

WAIT = 60.0


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({"num.partitions": "3", "log.cleaner.backoff.ms": "100"}) as started:
        yield started


@pytest.fixture
def consumer(broker: Broker) -> Iterator[ottla.Consumer[Any, Any]]:
    made: ottla.Consumer[Any, Any] = ottla.Consumer(
        broker.bootstrap_servers, auto_offset_reset="none", allow_auto_create_topics=False
    )
    with made:
        yield made


def write(broker: Broker, topic: str, rows: int, *, batch: int = 10) -> None:
    """Rows to each of three partitions, in batches of so many; a value is its partition and offset."""
    with ottla.Producer(broker.bootstrap_servers) as producer:
        for first in range(0, rows, batch):
            deliveries = [
                producer.send(topic, b"%d-%d" % (partition, number), partition=partition)
                for partition in range(3)
                for number in range(first, min(first + batch, rows))
            ]
            producer.flush()
            for delivery in deliveries:
                delivery.result(WAIT)


def read(consumer: ottla.Consumer[Any, Any], *wanted: Range, **options: Any) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for batch in read_ranges(consumer, wanted, **options):
        for row in batch.to_pylist():
            assert row["value"] == b"%d-%d" % (row["partition"], row["offset"])
            found.setdefault(row["partition"], []).append(row["offset"])
    return found


@pytest.mark.parametrize("rows_max", [1, 7, 65_536])
def test_each_range_gives_exactly_its_records(
    broker: Broker, consumer: ottla.Consumer[Any, Any], rows_max: int
) -> None:
    topic = f"exact-{rows_max}"
    write(broker, topic, 60)
    for start, end in ((0, 60), (0, 1), (59, 60), (10, 20), (13, 37), (5, 6), (20, 20)):
        wanted = [Range(topic, partition, start, end) for partition in range(3)]
        expected = {partition: list(range(start, end)) for partition in range(3)} if start < end else {}
        assert read(consumer, *wanted, rows_max=rows_max) == expected
    mixed = [Range(topic, 0, 3, 33), Range(topic, 1, 50, 60), Range(topic, 2, 7, 8)]
    found = read(consumer, *mixed, rows_max=rows_max)
    assert found == {0: list(range(3, 33)), 1: list(range(50, 60)), 2: [7]}
    assert consumer.assignment == frozenset()


def test_nothing_behind_the_end_is_fetched(broker: Broker) -> None:
    write(broker, "bounded", 400, batch=100)
    settings: dict[str, Any] = {"auto.offset.reset": "none", "max.partition.fetch.bytes": 500}
    consumer: ottla.Consumer[Any, Any] = ottla.Consumer(
        broker.bootstrap_servers, **{name.replace(".", "_"): value for name, value in settings.items()}
    )
    with consumer:
        assert read(consumer, Range("bounded", 1, 0, 100)) == {1: list(range(100))}
        assert consumer.metrics()["fetches"] == 1


def test_a_fetch_that_unpacks_to_much_becomes_several_batches(
    broker: Broker, consumer: ottla.Consumer[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranges, "BATCH_BYTES_MAX", 100_000)
    with ottla.Producer(broker.bootstrap_servers, compression_type="gzip", linger_ms=1000) as producer:
        for _ in range(1000):
            producer.send("packed", b"x" * 1000, partition=0)
        producer.flush()
    batches = list(read_ranges(consumer, [Range("packed", 0, 0, 1000)]))
    assert [number for batch in batches for number in batch["offset"].to_pylist()] == list(range(1000))
    assert max(batch.num_rows for batch in batches) <= 101


def test_records_without_bytes_fill_batches_by_their_number(
    broker: Broker, consumer: ottla.Consumer[Any, Any]
) -> None:
    with ottla.Producer(broker.bootstrap_servers, linger_ms=1000) as producer:
        for _ in range(1000):
            producer.send("void", None, partition=0)
        producer.flush()
    batches = list(read_ranges(consumer, [Range("void", 0, 0, 1000)], rows_max=600))
    assert [number for batch in batches for number in batch["offset"].to_pylist()] == list(range(1000))
    assert max(batch.num_rows for batch in batches) <= 600


def test_a_range_that_is_left_early_leaves_the_consumer_ready_for_the_next(
    broker: Broker, consumer: ottla.Consumer[Any, Any]
) -> None:
    write(broker, "early", 60)
    batches = read_ranges(consumer, [Range("early", 0, 0, 60)], rows_max=5)
    assert next(batches).num_rows == 5
    batches.close()  # type: ignore[attr-defined]
    assert consumer.assignment == frozenset()
    assert read(consumer, Range("early", 1, 10, 15)) == {1: list(range(10, 15))}


def test_markers_and_aborted_transactions_are_passed_over(broker: Broker) -> None:
    with ottla.Producer(broker.bootstrap_servers, transactional_id="ranges") as producer:
        for number in range(6):
            producer.begin_transaction()
            producer.send("transactions", b"%d" % number, partition=0).result(WAIT)
            if number % 2:
                producer.abort_transaction()
            else:
                producer.commit_transaction()
    consumer: ottla.Consumer[Any, Any] = ottla.Consumer(
        broker.bootstrap_servers, auto_offset_reset="none", isolation_level="read_committed"
    )
    with consumer:
        found = [
            value
            for batch in read_ranges(consumer, [Range("transactions", 0, 0, 12)])
            for value in batch.column("value").to_pylist()
        ]
        assert found == [b"0", b"2", b"4"]
        assert list(read_ranges(consumer, [Range("transactions", 0, 11, 12)])) == []


def test_records_that_were_compacted_away_before_the_end_are_not_waited_for(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a broker answers then: nothing, with a high watermark behind the end of the range."""
    write(broker, "gap", 10)
    consumer: ottla.Consumer[Any, Any] = ottla.Consumer(
        broker.bootstrap_servers, auto_offset_reset="none", fetch_max_wait_ms=10
    )
    with consumer:
        took = consumer._core.engine.fetch_planner._accept

        def without_the_last(state: Any, told: Any, outcome: Any, now_ms: int) -> None:
            told.high_watermark = 15
            took(state, told, outcome, now_ms)

        monkeypatch.setattr(consumer._core.engine.fetch_planner, "_accept", without_the_last)
        assert read(consumer, Range("gap", 0, 4, 15), idle_seconds=WAIT) == {0: list(range(4, 10))}


def test_records_below_the_log_start_are_lost_and_named(
    broker: Broker, consumer: ottla.Consumer[Any, Any]
) -> None:
    write(broker, "lost", 60)
    with ottla.Admin(broker.bootstrap_servers) as admin:
        admin.delete_records({TopicPartition("lost", 0): 25, TopicPartition("lost", 1): 60}).all()
    with pytest.raises(Lost, match=r"lost-0: records from offset 10 to 24 are lost.*starts at 25"):
        read(consumer, Range("lost", 0, 10, 40))
    told: list[Lost] = []
    wanted = [Range("lost", partition, 10, 40) for partition in range(3)]
    found = read(consumer, *wanted, on_lost=told.append)
    assert found == {0: list(range(25, 40)), 2: list(range(10, 40))}
    assert sorted((one.partition, one.start, one.end) for one in told) == [
        (TopicPartition("lost", 0), 10, 25),
        (TopicPartition("lost", 1), 10, 40),
    ]


def test_an_offset_behind_the_log_is_no_loss_but_a_log_that_was_cut(
    broker: Broker, consumer: ottla.Consumer[Any, Any]
) -> None:
    write(broker, "cut", 10)
    with pytest.raises(OffsetOutOfRange, match="cut-0 has no offset 50: the log was truncated"):
        read(consumer, Range("cut", 0, 50, 60), on_lost=lambda lost: None)


def test_what_never_comes_is_given_up_with_its_place(
    broker: Broker, consumer: ottla.Consumer[Any, Any]
) -> None:
    write(broker, "never", 10)
    with pytest.raises(TimedOut, match=r"No records of never-0 from offset 10 arrived for 0\.5 s"):
        read(consumer, Range("never", 0, 5, 20), idle_seconds=0.5)


def test_a_topic_that_does_not_exist_is_said(
    consumer: ottla.Consumer[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranges, "_TOPIC_GONE_SECONDS", 0.2)
    with pytest.raises(UnknownTopicOrPartition, match="nowhere-0 does not exist"):
        read(consumer, Range("nowhere", 0, 0, 5))


def test_a_topic_that_was_made_anew_is_not_mistaken_for_the_old_one(
    broker: Broker, consumer: ottla.Consumer[Any, Any]
) -> None:
    with ottla.Admin(broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic("anew", 3, 1)]).all()
    write(broker, "anew", 10)
    with pytest.raises(UnknownTopicOrPartition, match="recreated"):
        read(consumer, Range("anew", 0, 0, 10, b"x" * 16))


def test_a_partition_has_one_range_at_a_time(consumer: ottla.Consumer[Any, Any]) -> None:
    with pytest.raises(ValueError, match="one range"):
        read(consumer, Range("t", 0, 0, 5), Range("t", 0, 5, 9))
