"""The consumer against Ottla (one node and three) and Kafka: reading, positions, offsets, the two drivers."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import threading
import time
from typing import Any

import pytest
from confluent_kafka import Producer as ConfluentProducer
from confluent_kafka import TopicPartition as ConfluentPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from ottla import Consumer, OffsetAndMetadata, TopicPartition, aio
from ottla.client.errors import Closed, ConfigError, Forked, NoOffset, TimedOut, WokenUp
from ottla.wire.errors import OffsetOutOfRange
from tests.interop.library.consuming import (
    PROTOCOLS,
    WAIT_SECONDS,
    fill,
    numbers_of,
    read,
    read_until,
)
from tests.interop.library.support import LibraryCluster, make_topic, unique


def consumer_of(cluster: LibraryCluster, **settings: Any) -> Consumer[Any, Any]:
    defaults: dict[str, Any] = {
        "auto_offset_reset": "earliest",
        "heartbeat_interval_ms": 300,
        "enable_auto_commit": False,
    }
    if settings.get("group_protocol") == "consumer":
        del defaults["heartbeat_interval_ms"]
    return Consumer(cluster.bootstrap, **{**defaults, **settings})


@pytest.fixture
def filled(cluster: LibraryCluster) -> str:
    """A topic of two partitions with the numbers 0 to 99."""
    topic = make_topic(cluster, "consumed", 2)
    fill(cluster.bootstrap, topic, range(100), partitions=2)
    return topic


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_group_goes_on_where_it_committed(cluster: LibraryCluster, filled: str, protocol: str) -> None:
    group = unique("g")
    with consumer_of(cluster, group_id=group, group_protocol=protocol) as consumer:
        consumer.subscribe([filled])
        first = read(consumer, 100)
        assert sorted(numbers_of(first)) == list(range(100))
        consumer.commit()
        assert {p.partition: o.offset for p, o in consumer.committed().items() if o} == {0: 50, 1: 50}
    fill(cluster.bootstrap, filled, range(100, 120), partitions=2)
    with consumer_of(cluster, group_id=group, group_protocol=protocol) as consumer:
        consumer.subscribe(filled)
        assert sorted(numbers_of(read(consumer, 20))) == list(range(100, 120))
        assert consumer.poll(0) == []


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_positions_are_committed_at_the_end_by_itself(
    cluster: LibraryCluster, filled: str, protocol: str
) -> None:
    group = unique("g")
    settings: dict[str, Any] = {"group_id": group, "group_protocol": protocol, "enable_auto_commit": True}
    with consumer_of(cluster, **settings) as consumer:
        consumer.subscribe([filled])
        seen = numbers_of(read(consumer, 60))
    with consumer_of(cluster, **settings) as consumer:
        consumer.subscribe([filled])
        seen += numbers_of(read(consumer, 100 - len(seen))) if len(seen) < 100 else []
    assert sorted(seen) == list(range(100))


def test_an_iteration_stands_behind_the_record_in_hand(cluster: LibraryCluster) -> None:
    topic = make_topic(cluster, "consumed")
    fill(cluster.bootstrap, topic, range(30))
    group = unique("g")
    with consumer_of(cluster, group_id=group, topics=[topic]) as consumer:
        for record in consumer:
            if record.offset == 9:
                consumer.commit()  # the rest of the chunk is given back, and comes next
                break
        partition = TopicPartition(topic, 0)
        found = consumer.committed([partition])[partition]
        assert found is not None
        assert found.offset == 10
        assert consumer.position(partition) == 10
        assert numbers_of(read(consumer, 20)) == list(range(10, 30))
        assert list(consumer.records(idle_timeout=0.1)) == []


def test_a_record_that_was_not_done_with_comes_again(cluster: LibraryCluster) -> None:
    topic = make_topic(cluster, "consumed")
    fill(cluster.bootstrap, topic, range(10))
    settings: dict[str, Any] = {"group_id": unique("g"), "topics": [topic], "enable_auto_commit": True}

    def stumble() -> None:
        with consumer_of(cluster, **settings) as consumer:
            for record in consumer:
                assert record.offset < 4, "the fifth record cannot be handled"

    with pytest.raises(AssertionError, match="fifth"):
        stumble()
    with consumer_of(cluster, **settings) as consumer:
        assert numbers_of(read(consumer, 6)) == list(range(4, 10))


def test_partitions_are_read_by_hand_without_a_group(cluster: LibraryCluster, filled: str) -> None:
    with consumer_of(cluster) as consumer:
        consumer.assign([(filled, 0)])
        assert numbers_of(read(consumer, 50)) == list(range(0, 100, 2))
        consumer.seek((filled, 0), 45)
        assert numbers_of(read(consumer, 5)) == [90, 92, 94, 96, 98]
        consumer.seek_to_beginning()
        assert numbers_of(consumer.poll(WAIT_SECONDS, max_records=2)) == [0, 2]
        assert consumer.lag() == {TopicPartition(filled, 0): 48}
        consumer.seek_to_end()
        assert consumer.position((filled, 0)) == 50
        consumer.assign([(filled, 1)])
        assert consumer.assignment == {TopicPartition(filled, 1)}
        assert numbers_of(read(consumer, 50)) == list(range(1, 100, 2))
        with pytest.raises(ConfigError, match=r"group\.id"):
            consumer.commit()
        with pytest.raises(ValueError, match="not assigned"):
            consumer.seek((filled, 0), 1)


def test_offsets_are_looked_up(cluster: LibraryCluster) -> None:
    topic = make_topic(cluster, "consumed", config={"retention.ms": "-1"})  # its records are old
    for number in range(5):
        fill(cluster.bootstrap, topic, [number], timestamp=1_700_000_000_000 + number * 1000)
    partition = TopicPartition(topic, 0)
    with consumer_of(cluster) as consumer:
        assert consumer.partitions_for(topic) == [partition]
        assert consumer.beginning_offsets([partition]) == {partition: 0}
        assert consumer.end_offsets([partition]) == {partition: 5}
        found = consumer.offsets_for_times({partition: 1_700_000_001_500})[partition]
        assert found is not None
        assert (found.offset, found.timestamp) == (2, 1_700_000_002_000)
        assert consumer.offsets_for_times({partition: 1_800_000_000_000}) == {partition: None}


def test_a_paused_partition_gives_nothing_until_it_is_resumed(cluster: LibraryCluster, filled: str) -> None:
    with consumer_of(cluster, group_id=unique("g"), max_poll_records=10) as consumer:
        consumer.subscribe([filled])
        seen = read(consumer, 1)
        consumer.pause([(filled, 1)])
        assert consumer.paused == {TopicPartition(filled, 1)}
        before = sum(record.partition == 1 for record in seen)
        seen += read(consumer, 50 - sum(record.partition == 0 for record in seen))
        assert sum(record.partition == 1 for record in seen) == before
        consumer.resume()
        seen += read(consumer, 50 - before)
        assert sorted(numbers_of(seen)) == list(range(100))


def test_offsets_are_committed_one_by_one_with_notes(cluster: LibraryCluster, filled: str) -> None:
    group = unique("g")
    told: list[Any] = []
    with consumer_of(cluster, group_id=group) as consumer:
        consumer.assign([(filled, 0), (filled, 1)])
        record = next(record for record in consumer if record.partition == 1 and record.offset == 7)
        consumer.commit(record)
        consumer.commit({(filled, 0): OffsetAndMetadata(3, 0, "a note")})
        found = consumer.committed()
        assert found[TopicPartition(filled, 1)] == OffsetAndMetadata(8, record.leader_epoch)
        assert found[TopicPartition(filled, 0)] == OffsetAndMetadata(3, 0, "a note")
        done = threading.Event()

        def hear(*how: Any) -> None:
            told.append(how)
            done.set()

        consumer.commit({(filled, 0): 9}, wait=False, on_commit=hear)
        assert done.wait(WAIT_SECONDS)
        assert told == [({TopicPartition(filled, 0): OffsetAndMetadata(9)}, None)]


@pytest.mark.parametrize(("policy", "expected"), [("earliest", 0), ("latest", 100), ("by_duration:PT1H", 60)])
def test_where_to_begin_without_a_committed_offset(
    cluster: LibraryCluster, policy: str, expected: int
) -> None:
    topic = make_topic(cluster, "consumed")
    now_ms = int(time.time() * 1000)
    fill(cluster.bootstrap, topic, range(60), timestamp=now_ms - 2 * 3_600_000)
    fill(cluster.bootstrap, topic, range(60, 100), timestamp=now_ms)
    with consumer_of(cluster, group_id=unique("g"), auto_offset_reset=policy) as consumer:
        consumer.assign([(topic, 0)])
        assert consumer.position((topic, 0)) == expected
        fill(cluster.bootstrap, topic, [100], timestamp=now_ms)
        assert numbers_of(read(consumer, 101 - expected)) == list(range(expected, 101))


def test_without_a_policy_an_unknown_position_is_an_error(cluster: LibraryCluster, filled: str) -> None:
    with consumer_of(cluster, group_id=unique("g"), auto_offset_reset="none") as consumer:
        consumer.assign([(filled, 0)])
        with pytest.raises(NoOffset, match=r"auto\.offset\.reset"):
            read_until([consumer], lambda: False, "an error")
        consumer.seek((filled, 0), 40)
        assert len(read(consumer, 10)) == 10
        consumer.seek((filled, 0), 4000)
        with pytest.raises(OffsetOutOfRange):
            read_until([consumer], lambda: False, "an error")


def test_records_that_were_deleted_are_passed_over(cluster: LibraryCluster, filled: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    with consumer_of(cluster, group_id=unique("g"), max_poll_records=5) as consumer:
        consumer.assign([(filled, 0)])
        for future in admin.delete_records([ConfluentPartition(filled, 0, 20)]).values():
            future.result(WAIT_SECONDS)
        consumer.seek((filled, 0), 3)
        assert numbers_of(read(consumer, 30)) == list(range(40, 100, 2))
        assert consumer.beginning_offsets([(filled, 0)]) == {TopicPartition(filled, 0): 20}


def test_read_committed_sees_only_what_was_committed(cluster: LibraryCluster) -> None:
    topic = make_topic(cluster, "consumed")
    writer = ConfluentProducer({"bootstrap.servers": cluster.bootstrap, "transactional.id": unique("x")})
    writer.init_transactions(WAIT_SECONDS)
    number = 0
    for is_committed in (True, False, True, False):
        writer.begin_transaction()
        for _ in range(5):
            writer.produce(topic, str(number).encode(), partition=0)
            number += 1
        writer.flush(WAIT_SECONDS)
        if is_committed:
            writer.commit_transaction(WAIT_SECONDS)
        else:
            writer.abort_transaction(WAIT_SECONDS)
    writer.begin_transaction()
    writer.produce(topic, b"99", partition=0)
    assert writer.flush(WAIT_SECONDS) == 0
    with (
        consumer_of(cluster, isolation_level="read_committed") as stable,
        consumer_of(cluster) as dirty,
    ):
        for consumer in (stable, dirty):
            consumer.assign([(topic, 0)])
        assert numbers_of(read(dirty, 21)) == [*range(20), 99]
        assert numbers_of(read(stable, 10)) == [*range(5), *range(10, 15)]
        ends = {one.end_offsets([(topic, 0)])[TopicPartition(topic, 0)] for one in (stable, dirty)}
        assert len(ends) == 2  # the open transaction lies between them
        writer.commit_transaction(WAIT_SECONDS)
        assert numbers_of(read(stable, 1)) == [99]


def test_a_pattern_in_words_of_the_broker_is_matched_there(cluster: LibraryCluster) -> None:
    topics = [make_topic(cluster, "pattern") for _ in range(3)]
    for number, topic in enumerate(topics):
        fill(cluster.bootstrap, topic, [number])
    with consumer_of(cluster, group_id=unique("g"), group_protocol="consumer") as consumer:
        consumer.subscribe(pattern=f"({topics[0]}|(?P<other>{topics[2]}))")
        assert sorted(numbers_of(read(consumer, 2))) == [0, 2]
        assert {partition.topic for partition in consumer.assignment} == {topics[0], topics[2]}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_pattern_follows_topics_that_come_later(cluster: LibraryCluster, protocol: str) -> None:
    first = make_topic(cluster, "consumed")
    pattern = re.compile(f"{first}(-more)?")
    settings: dict[str, Any] = {
        "metadata_max_age_ms": 500,
        "group_protocol": protocol,
        "enable_auto_commit": True,  # what an eager member gives back it gets back where it was
    }
    with consumer_of(cluster, group_id=unique("g"), **settings) as consumer:
        consumer.subscribe(pattern=pattern)
        fill(cluster.bootstrap, first, [1])
        assert numbers_of(read(consumer, 1)) == [1]
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        for future in admin.create_topics([NewTopic(f"{first}-more", 1, cluster.replication)]).values():
            future.result(WAIT_SECONDS)
        fill(cluster.bootstrap, f"{first}-more", [2])
        assert numbers_of(read(consumer, 1)) == [2]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_partitions_that_a_topic_gets_later_are_read(cluster: LibraryCluster, protocol: str) -> None:
    topic = make_topic(cluster, "consumed")
    settings: dict[str, Any] = {
        "metadata_max_age_ms": 500,
        "group_protocol": protocol,
        "enable_auto_commit": True,  # what an eager member gives back it gets back where it was
    }
    with consumer_of(cluster, group_id=unique("g"), **settings) as consumer:
        consumer.subscribe([topic])
        fill(cluster.bootstrap, topic, [0])
        assert numbers_of(read(consumer, 1)) == [0]
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        for future in admin.create_partitions([NewPartitions(topic, 3)]).values():
            future.result(WAIT_SECONDS)
        fill(cluster.bootstrap, topic, range(1, 3), partitions=3)
        assert sorted(numbers_of(read(consumer, 2))) == [1, 2]


def test_deserializers_and_interceptors_see_records_first(cluster: LibraryCluster, filled: str) -> None:
    class Even:
        """Drops what is odd, and notes what was committed."""

        committed: list[Any] = []

        def on_consume(self, records: list[Any]) -> list[Any]:
            return [record for record in records if record.value % 2 == 0]

        def on_commit(self, offsets: Any) -> None:
            self.committed.append(offsets)

    settings: dict[str, Any] = {"value_deserializer": lambda data: int(data), "interceptor_classes": [Even]}
    with consumer_of(cluster, group_id=unique("g"), topics=[filled], **settings) as consumer:
        found = read(consumer, 50)
        assert sorted(record.value for record in found) == list(range(0, 100, 2))
        read_until([consumer], lambda: sum(consumer.lag().values()) == 0, "the end")
        consumer.commit()
    assert [offset.offset for offset in Even.committed[-1].values()] == [50, 50]


def test_a_waiting_poll_is_woken_from_another_thread(cluster: LibraryCluster) -> None:
    topic = make_topic(cluster, "consumed")
    with consumer_of(cluster, group_id=unique("g"), topics=[topic]) as consumer:
        timer = threading.Timer(0.3, consumer.wakeup)
        timer.start()
        with pytest.raises(WokenUp):
            consumer.poll(WAIT_SECONDS)
        timer.join()
        assert consumer.poll(0) == []


def test_ctrl_c_ends_every_wait(cluster: LibraryCluster) -> None:
    topic = make_topic(cluster, "consumed")
    main = threading.main_thread().ident
    assert main is not None
    with consumer_of(cluster, group_id=unique("g"), auto_offset_reset="none") as consumer:
        consumer.assign([(topic, 0)])
        consumer.seek((topic, 0), 0)
        for wait in (lambda: consumer.poll(WAIT_SECONDS), lambda: next(iter(consumer))):
            timer = threading.Timer(0.3, signal.pthread_kill, (main, signal.SIGINT))
            timer.start()
            with pytest.raises(KeyboardInterrupt):
                wait()
            timer.join()
        fill(cluster.bootstrap, topic, [5])
        assert numbers_of(read(consumer, 1)) == [5]


def test_a_closed_consumer_says_so(cluster: LibraryCluster) -> None:
    consumer = consumer_of(cluster)
    consumer.close()
    consumer.close()
    with pytest.raises(Closed):
        consumer.poll(0)


def test_a_forked_child_is_told_to_make_its_own(cluster: LibraryCluster, filled: str) -> None:
    with consumer_of(cluster) as consumer:
        consumer.assign([(filled, 0)])
        read(consumer, 50)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                consumer.poll(0)
            except Forked:
                consumer.close()
                code = 0
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        consumer.seek((filled, 0), 49)
        assert numbers_of(read(consumer, 1)) == [98]


def test_a_consumer_without_a_broker_gives_up_in_time() -> None:
    from tests.interop.peers import free_port

    consumer: Consumer[Any, Any] = Consumer(
        f"127.0.0.1:{free_port()}", group_id="g", default_api_timeout_ms=500
    )
    with consumer:
        consumer.assign([("t", 0)])
        with pytest.raises(TimedOut):
            consumer.position(("t", 0))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_awaited_twin_does_the_same(cluster: LibraryCluster, filled: str, protocol: str) -> None:
    heard: list[str] = []

    async def scene() -> None:
        async def assigned(partitions: list[TopicPartition]) -> None:
            await asyncio.sleep(0)
            heard.append(f"assigned {len(partitions)}")

        group = unique("g")
        settings: dict[str, Any] = {"auto_offset_reset": "earliest", "group_protocol": protocol}
        consumer: aio.Consumer[Any, Any] = aio.Consumer(cluster.bootstrap, group_id=group, **settings)
        async with consumer:
            await consumer.subscribe(
                [filled], on_assigned=assigned, on_revoked=lambda gone: heard.append(f"revoked {len(gone)}")
            )
            seen = []
            async with asyncio.timeout(WAIT_SECONDS):
                async for record in consumer:
                    seen.append(int(record.value))
                    if len(seen) == 70:
                        break
            await consumer.commit()
            async with asyncio.timeout(WAIT_SECONDS):
                while len(seen) < 100:
                    seen += numbers_of(await consumer.poll())
            assert sorted(seen) == list(range(100))
            assert sum((await consumer.lag()).values()) == 0
            committed = await consumer.committed()
            assert sum(offset.offset for offset in committed.values() if offset) == 70
            assert consumer.group_metadata().group_id == group

    asyncio.run(scene())
    assert heard == ["assigned 2", "revoked 2"]
