"""What a producer's user relies on, the same with every broker; read back by confluent-kafka."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import ottla
import ottla.aio
from ottla.client.core.partitioners import partition_for_key
from ottla.client.errors import FatalError, Forked, RecordTooLarge, TransactionStateError
from ottla.wire.errors import MessageTooLarge, ProducerFenced
from tests.interop.library.support import LibraryCluster, make_topic, read_all, unique, values_of

WAIT = 120.0
ROOT = Path(__file__).resolve().parents[3]


def test_a_record_is_written_as_it_was_sent_and_its_report_says_where(cluster: LibraryCluster) -> None:
    topic = make_topic(cluster, "plain")
    with ottla.Producer(cluster.bootstrap) as producer:
        delivery = producer.send(topic, b"value", key=b"key", headers={"a": b"1", "b": None}, timestamp=1_000)
        report = delivery.result(WAIT)
        second = producer.send(topic, "text").result(WAIT)
    assert (report.topic, report.partition, report.offset) == (topic, 0, 0)
    assert report.timestamp == 1_000
    assert report.status is ottla.Status.PERSISTED
    assert second.offset == 1
    assert read_all(cluster, topic) == [(0, 0, b"key", b"value"), (0, 1, None, b"text")]


def test_keys_choose_the_partition_that_java_would_choose(cluster: LibraryCluster) -> None:
    topic = make_topic(cluster, "keys", 5)
    keys = [f"key-{number}".encode() for number in range(50)]
    with ottla.Producer(cluster.bootstrap) as producer:
        deliveries = [producer.send(topic, b"x", key=key) for key in keys]
        assert [delivery.result(WAIT).partition for delivery in deliveries] == [
            partition_for_key(key, 5) for key in keys
        ]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_is_read_by_others(cluster: LibraryCluster, codec: str) -> None:
    topic = make_topic(cluster, codec)
    sent = [b"%05d" % number * 20 for number in range(2000)]
    with ottla.Producer(cluster.bootstrap, compression_type=codec) as producer:
        for value in sent:
            producer.send(topic, value)
    assert values_of(cluster, topic) == sent


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_each_kind_of_acknowledgement_is_reported_as_what_it_is(cluster: LibraryCluster, acks: str) -> None:
    topic = make_topic(cluster, f"acks-{acks}")
    with ottla.Producer(cluster.bootstrap, acks=acks, enable_idempotence=acks == "all") as producer:
        reports = [producer.send(topic, b"%d" % number).result(WAIT) for number in range(20)]
    wanted = ottla.Status.POSSIBLY_PERSISTED if acks == "0" else ottla.Status.PERSISTED
    assert {report.status for report in reports} == {wanted}
    assert [report.offset for report in reports] == ([-1] * 20 if acks == "0" else list(range(20)))


def test_records_of_a_thread_keep_their_order_and_none_is_lost(cluster: LibraryCluster) -> None:
    topic = make_topic(cluster, "threads", 3)
    reports: list[ottla.DeliveryReport] = []
    with ottla.Producer(cluster.bootstrap, batch_size=2000, linger_ms=1) as producer:

        def work(name: int) -> None:
            for number in range(3000):
                value = b"%d:%d" % (name, number)
                producer.send(topic, value, key=b"%d" % name, on_delivery=reports.append)

        threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(WAIT)
        producer.flush(WAIT)
    assert len(reports) == 12_000
    assert all(report.error is None for report in reports)
    values = [value or b"" for value in values_of(cluster, topic, 3)]
    for name in range(4):
        own = [int(value.split(b":")[1]) for value in values if value.startswith(b"%d:" % name)]
        assert own == list(range(3000))


def test_memory_is_bounded_and_send_waits_for_room(cluster: LibraryCluster) -> None:
    topic = make_topic(cluster, "room")
    with ottla.Producer(cluster.bootstrap, buffer_memory=200_000, batch_size=10_000) as producer:
        seen = 0
        for _ in range(5000):
            producer.send(topic, b"x" * 500)
            seen = max(seen, producer.metrics()["buffered_bytes"])
    assert seen <= 200_000
    assert len(read_all(cluster, topic)) == 5000


def test_a_batch_that_the_broker_finds_too_large_is_split(cluster: LibraryCluster) -> None:
    topic = make_topic(cluster, "small", config={"max.message.bytes": "3000"})
    with ottla.Producer(cluster.bootstrap, batch_size=16_000, linger_ms=200) as producer:
        deliveries = [producer.send(topic, b"%03d" % number + b"x" * 197) for number in range(100)]
        assert [delivery.result(WAIT).offset for delivery in deliveries] == list(range(100))
        assert producer.metrics()["splits"] > 0
        with pytest.raises(MessageTooLarge):
            producer.send(topic, b"x" * 4000).result(WAIT)
        with pytest.raises(RecordTooLarge, match=r"max\.request\.size"):
            producer.send(topic, b"x" * 2_000_000)
        assert producer.send(topic, b"after").result(WAIT).offset == 100
    assert [(value or b"")[:3] for value in values_of(cluster, topic)[:100]] == [
        b"%03d" % number for number in range(100)
    ]


def test_interceptors_serializers_and_partitioners_are_called_in_their_order(cluster: LibraryCluster) -> None:
    topic = make_topic(cluster, "chain", 3)
    heard: list[int] = []

    class Marking:
        def on_send(self, record: ottla.ProducerRecord) -> ottla.ProducerRecord:
            return record._replace(value={**record.value, "marked": True})

        def on_acknowledgement(self, report: ottla.DeliveryReport) -> None:
            heard.append(report.partition)

    def last(name: str, key: bytes | None, value: bytes | None, view: object) -> int:
        assert value is not None
        assert b"marked" in value
        return 2

    with ottla.Producer(
        cluster.bootstrap,
        interceptor_classes=[Marking()],
        value_serializer=lambda value: repr(value).encode(),
        partitioner_class=last,
    ) as producer:
        assert producer.send(topic, {"n": 1}).result(WAIT).partition == 2
        producer.flush(WAIT)
    assert heard == [2]


def test_the_async_producer_does_the_same(cluster: LibraryCluster) -> None:
    topic = make_topic(cluster, "async")

    async def main() -> list[int]:
        async with ottla.aio.Producer(cluster.bootstrap) as producer:
            deliveries = [await producer.send(topic, b"%d" % number) for number in range(500)]
            return [(await delivery).offset for delivery in deliveries]

    assert asyncio.run(main()) == list(range(500))
    assert values_of(cluster, topic) == [b"%d" % number for number in range(500)]


def test_a_committed_transaction_is_seen_and_an_aborted_one_is_not(cluster: LibraryCluster) -> None:
    topic = make_topic(cluster, "transactions", 2)
    with ottla.Producer(cluster.bootstrap, transactional_id=unique("tx")) as producer:
        with pytest.raises(TransactionStateError):
            producer.send(topic, b"outside")
        for turn in range(3):
            with producer.transaction() as transaction:
                for number in range(10):
                    transaction.send(topic, b"yes %d %d" % (turn, number), partition=number % 2)

            def fail(turn: int = turn) -> None:
                with producer.transaction() as transaction:
                    transaction.send(topic, b"no %d" % turn, partition=0).result(WAIT)
                    raise KeyError("the user's own")

            with pytest.raises(KeyError):
                fail()
    values = [value or b"" for value in values_of(cluster, topic, 2)]
    assert len(values) == 30
    assert all(value.startswith(b"yes") for value in values)
    everything = [value or b"" for _, _, _, value in read_all(cluster, topic, 2, committed=False)]
    assert sum(value.startswith(b"no") for value in everything) == 3


def test_offsets_are_committed_with_the_transaction_and_not_without(cluster: LibraryCluster) -> None:
    from confluent_kafka import Consumer, TopicPartition

    topic, group = make_topic(cluster, "offsets"), unique("group")
    place = ottla.TopicPartition(topic, 0)

    def committed() -> int:
        reader = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group})
        try:
            found: int = reader.committed([TopicPartition(topic, 0)], timeout=60)[0].offset
            return found
        finally:
            reader.close()

    with ottla.Producer(cluster.bootstrap, transactional_id=unique("tx")) as producer:
        with producer.transaction() as transaction:
            transaction.send(topic, b"1")
            transaction.send_offsets({place: ottla.OffsetAndMetadata(7)}, group)
        assert committed() == 7
        producer.begin_transaction()
        producer.send_offsets({place: ottla.OffsetAndMetadata(9)}, group)
        producer.abort_transaction()
    assert committed() == 7


def test_a_second_producer_of_the_same_id_fences_the_first(cluster: LibraryCluster) -> None:
    topic, name = make_topic(cluster, "fenced"), unique("tx")
    with ottla.Producer(cluster.bootstrap, transactional_id=name) as first:
        first.begin_transaction()
        first.send(topic, b"lost").result(WAIT)
        with ottla.Producer(cluster.bootstrap, transactional_id=name) as second, second.transaction():
            second.send(topic, b"kept")
        with pytest.raises(ProducerFenced, match="has fenced this one"):
            first.commit_transaction()
        with pytest.raises(FatalError):
            first.begin_transaction()
    assert values_of(cluster, topic) == [b"kept"]


_JOINING = """
import sys, ottla
with ottla.Producer.join(sys.argv[1]) as producer:
    for number in range(50):
        producer.send(sys.argv[2], b"other %d" % number, partition=1)
"""


def test_several_processes_write_in_one_transaction(cluster: LibraryCluster) -> None:
    topic = make_topic(cluster, "shared", 2)
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    with ottla.Producer(cluster.bootstrap, transactional_id=unique("tx")) as producer:
        for is_kept in (False, True):
            producer.begin_transaction()
            handle = producer.transaction_handle().to_text()
            for number in range(50):
                producer.send(topic, b"own %d" % number, partition=0)
            subprocess.run(
                [sys.executable, "-c", _JOINING, handle, topic], check=True, timeout=WAIT, env=environment
            )
            if is_kept:
                producer.commit_transaction()
            else:
                producer.abort_transaction()
    own = [b"own %d" % number for number in range(50)]
    other = [b"other %d" % number for number in range(50)]
    assert values_of(cluster, topic, 2) == own + other


def test_a_forked_child_is_told_to_make_its_own_producer(cluster: LibraryCluster) -> None:
    topic = make_topic(cluster, "fork")
    with ottla.Producer(cluster.bootstrap) as producer:
        producer.send(topic, b"parent").result(WAIT)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                producer.send(topic, b"child")
            except Forked:
                producer.close()
                status = 0
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        producer.send(topic, b"parent again").result(WAIT)
    assert values_of(cluster, topic) == [b"parent", b"parent again"]
