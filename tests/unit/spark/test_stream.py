"""The driver of a streaming query, called as by Spark, on a broker in this process and without a JVM."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

import ottla
from ottla.client.admin import NewTopic
from ottla.client.values import TopicPartition
from ottla.spark.offset_resolution import DataLoss, OffsetsMissing
from ottla.spark.offsets import CheckpointError, StreamOffset
from ottla.spark.settings import read_settings
from ottla.testing import Broker
from ottla.wire.errors import UnknownTopicOrPartition

pytest.importorskip("pyspark")

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from ottla.spark.batch_plan import plan_batch
from ottla.spark.stream import Driver, StreamReader
from ottla.spark.topic_watch import Watch

WAIT = 60.0


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({"num.partitions": "2", "auto.create.topics.enable": "false"}) as started:
        yield started


@pytest.fixture(scope="module")
def admin(broker: Broker) -> Iterator[ottla.Admin]:
    with ottla.Admin(broker.bootstrap_servers) as made:
        yield made


def write(broker: Broker, topic: str, rows: int, partition: int = 0, timestamp: int | None = None) -> None:
    with ottla.Producer(broker.bootstrap_servers) as producer:
        sent = [
            producer.send(topic, b"x" * 100, partition=partition, timestamp=timestamp) for _ in range(rows)
        ]
        for delivery in sent:
            delivery.result(WAIT)


class Query:
    """Uses a reader like Spark: offsets pass through JSON, and the reader is stopped at the end."""

    def __init__(self, broker: Broker, **options: str) -> None:
        given = {
            "kafka.bootstrap.servers": broker.bootstrap_servers,
            "startingOffsets": "earliest",
            **options,
        }
        self.reader = StreamReader(read_settings(given, streaming=True), None)  # type: ignore[arg-type]
        self.at: dict[str, Any] = {}

    def __enter__(self) -> Query:
        return self

    def __exit__(self, *_: object) -> None:
        self.reader.stop()

    def begin(self) -> None:
        self.at = json.loads(json.dumps(self.reader.initialOffset()))

    def next(self, limit: Any = None) -> list[tuple[str, int, int, int]]:
        """The ranges of the next batch, which is then done; empty if there is nothing new."""
        end = json.loads(
            json.dumps(self.reader.latestOffset(self.at, limit or self.reader.getDefaultReadLimit()))
        )
        if json.dumps(end) == json.dumps(self.at):
            return []
        ranges = self.ranges(self.at, end)
        self.at = end
        return ranges

    def ranges(self, start: dict[str, Any], end: dict[str, Any]) -> list[tuple[str, int, int, int]]:
        return [tuple(span[:4]) for task in self.reader.partitions(start, end) for span in task.spans]  # type: ignore[attr-defined]


def test_batches_follow_each_other_and_new_partitions_join(broker: Broker, admin: ottla.Admin) -> None:
    admin.create_topics([NewTopic("live", 1, 1)]).all()
    write(broker, "live", 10)
    with Query(broker, subscribe="live") as query:
        query.begin()
        assert query.next() == [("live", 0, 0, 10)]
        assert query.next() == []
        write(broker, "live", 5)
        assert query.next() == [("live", 0, 10, 15)]
        admin.create_partitions({"live": 2}).all()
        write(broker, "live", 7, partition=1)
        assert query.next() == [("live", 1, 0, 7)]
        assert query.next() == []
        assert query.reader.reportLatestOffset()["live"] == {"0": 15, "1": 7}  # type: ignore[index]


def test_the_first_batch_is_the_same_after_a_crash(broker: Broker, admin: ottla.Admin) -> None:
    admin.create_topics([NewTopic("crash", 1, 1)]).all()
    write(broker, "crash", 10)
    with Query(broker, subscribe="crash", startingOffsets="latest") as query:
        query.begin()
        assert query.next() == []
        write(broker, "crash", 5)
        assert query.next() == [("crash", 0, 10, 15)]
        logged = query.at
    write(broker, "crash", 20)
    with Query(broker, subscribe="crash", startingOffsets="latest") as again:
        again.begin()  # Spark calls it, since no batch was committed
        assert again.ranges(again.at, logged) == [("crash", 0, 10, 15)]
        again.at = logged
        assert again.next() == [("crash", 0, 15, 35)]


def test_limits_apply_unless_the_trigger_reads_everything(broker: Broker, admin: ottla.Admin) -> None:
    admin.create_topics([NewTopic("limits", 2, 1)]).all()
    write(broker, "limits", 40)
    write(broker, "limits", 20, partition=1)
    with Query(broker, subscribe="limits", maxOffsetsPerTrigger="30") as query:
        assert query.reader.getDefaultReadLimit() == ReadMaxRows(30)
        query.begin()
        assert query.next() == [("limits", 0, 0, 20), ("limits", 1, 0, 10)]
        assert query.next(ReadAllAvailable()) == [("limits", 0, 20, 40), ("limits", 1, 10, 20)]
    with Query(broker, subscribe="limits", maxBytesPerTrigger="1500") as query:
        query.begin()
        read = sum(end - start for _, _, start, end in query.next())
        assert 1 <= read <= 15  # a record has 100 bytes and a little more
    with Query(broker, subscribe="limits", minOffsetsPerTrigger="61") as query:
        query.begin()
        assert query.next() == []
        write(broker, "limits", 1)
        assert len(query.next()) == 2
    with Query(broker, subscribe="limits", minOffsetsPerTrigger="1000", maxTriggerDelay="0ms") as query:
        query.begin()
        assert len(query.next()) == 2


def test_available_now_ends_at_the_initial_end(broker: Broker, admin: ottla.Admin) -> None:
    admin.create_topics([NewTopic("now", 1, 1)]).all()
    write(broker, "now", 10)
    with Query(broker, subscribe="now", maxOffsetsPerTrigger="6", minOffsetsPerTrigger="5") as query:
        query.reader.prepareForTriggerAvailableNow()
        write(broker, "now", 10)
        admin.create_partitions({"now": 2}).all()
        write(broker, "now", 3, partition=1)
        query.begin()
        found = []
        while ranges := query.next():
            found += ranges
        assert [one for one in found if one[1] == 0] == [("now", 0, 0, 6), ("now", 0, 6, 10)]


def test_read_committed_plans_only_committed_records(broker: Broker, admin: ottla.Admin) -> None:
    admin.create_topics([NewTopic("open", 1, 1)]).all()
    write(broker, "open", 4)
    with ottla.Producer(broker.bootstrap_servers, transactional_id="open") as producer:
        producer.begin_transaction()
        producer.send("open", b"x", partition=0).result(WAIT)
        with Query(broker, subscribe="open", **{"kafka.isolation.level": "read_committed"}) as query:
            query.begin()
            assert query.next() == [("open", 0, 0, 4)]
        with Query(broker, subscribe="open") as query:
            query.begin()
            assert query.next() == [("open", 0, 0, 5)]
        producer.commit_transaction()


def test_progress_is_committed_to_the_group(broker: Broker, admin: ottla.Admin) -> None:
    admin.create_topics([NewTopic("progress", 1, 1)]).all()
    write(broker, "progress", 10)
    assert committed(admin, "spark-progress") == {}  # the coordinator exists from now on
    with Query(broker, subscribe="progress", groupId="spark-progress") as query:
        query.begin()
        query.next()
        assert query.next() == []  # the previous batch is done, and Spark may end the query
        assert committed(admin, "spark-progress") == {TopicPartition("progress", 0): 10}


def committed(admin: ottla.Admin, group: str) -> dict[TopicPartition, int]:
    found = admin.list_consumer_group_offsets([group]).result(group)
    return {key: one.offset for key, one in found.items() if one is not None}


def test_a_deleted_topic_is_reported_and_the_others_continue(broker: Broker, admin: ottla.Admin) -> None:
    admin.create_topics([NewTopic("kept", 1, 1), NewTopic("gone", 1, 1)]).all()
    for topic in ("kept", "gone"):
        write(broker, topic, 3)
    for fails in ("true", "false"):
        with Query(broker, subscribe="kept,gone", failOnDataLoss=fails) as query:
            if fails == "true":
                query.begin()
                assert len(query.next()) == 2
                at = query.at
                admin.delete_topics(["gone"]).all()
                with pytest.raises(DataLoss, match=r"The topic gone was deleted.*from offset 3"):
                    query.next()
            else:
                query.at = at
                write(broker, "kept", 2)
                assert query.next() == [("kept", 0, 3, 5)]
                assert query.next() == []


def test_a_recreated_topic_is_recognized_by_its_id(broker: Broker, admin: ottla.Admin) -> None:
    admin.create_topics([NewTopic("again", 1, 1)]).all()
    write(broker, "again", 3)
    with Query(broker, subscribe="again") as query:
        query.begin()
        query.next()
        at = query.at
    admin.delete_topics(["again"]).all()
    admin.create_topics([NewTopic("again", 1, 1)]).all()
    write(broker, "again", 8)
    with Query(broker, subscribe="again") as query:
        query.at = at
        with pytest.raises(DataLoss, match="The topic again was deleted and recreated"):
            query.next()
    with Query(broker, subscribe="again", failOnDataLoss="false") as query:
        query.at = at
        assert query.next() == [("again", 0, 0, 8)]
        assert query.next() == []


def test_a_checkpoint_of_another_subscription_is_refused(broker: Broker, admin: ottla.Admin) -> None:
    admin.create_topics([NewTopic("one", 1, 1), NewTopic("other", 1, 1)]).all()
    with Query(broker, subscribe="other") as query:
        query.at = {"one": {"0": 0}}
        with pytest.raises(CheckpointError, match=r"has offsets of one-0, but this query reads other"):
            query.next()
        query.at = {"logOffset": 4}
        with pytest.raises(CheckpointError, match="offsets of another source"):
            query.next()
        query.at = {"other": {"0": 7}}
        with pytest.raises(DataLoss, match="should continue at offset 7, but its log ends at 0"):
            query.next()


def test_a_checkpoint_of_sparks_connector_is_accepted(broker: Broker, admin: ottla.Admin) -> None:
    admin.create_topics([NewTopic("over", 2, 1)]).all()
    write(broker, "over", 9)
    write(broker, "over", 4, partition=1)
    with Query(broker, subscribe="over") as query:
        assert query.ranges({"over": {"0": 3}}, {"over": {"0": 6, "1": 4}}) == [
            ("over", 0, 3, 6),
            ("over", 1, 0, 4),
        ]
        query.at = {"over": {"0": 6, "1": 4}}
        assert query.next() == [("over", 0, 6, 9)]


def test_topics_are_found_by_pattern_and_by_assignment(broker: Broker, admin: ottla.Admin) -> None:
    admin.create_topics([NewTopic("pat-1", 2, 1), NewTopic("pat-2", 1, 1), NewTopic("xpat-3", 1, 1)]).all()
    with Query(broker, subscribePattern="pat-.*") as query:
        query.begin()
        assert StreamOffset.from_json(query.at).offsets == {
            TopicPartition("pat-1", 0): 0,
            TopicPartition("pat-1", 1): 0,
            TopicPartition("pat-2", 0): 0,
        }
    with Query(broker, assign='{"pat-1":[1]}') as query:
        query.begin()
        assert list(StreamOffset.from_json(query.at).offsets) == [TopicPartition("pat-1", 1)]
    with (
        Query(broker, assign='{"pat-1":[7]}') as query,
        pytest.raises(UnknownTopicOrPartition, match="pat-1-7 does not exist: the topic has 2 partitions"),
    ):
        query.begin()
    with (
        Query(broker, subscribe="pat-1,nowhere") as query,
        pytest.raises(UnknownTopicOrPartition, match="Topic nowhere does not exist at"),
    ):
        query.begin()


def planned(broker: Broker, **options: str) -> list[tuple[int, int, int]]:
    given = {"kafka.bootstrap.servers": broker.bootstrap_servers, **options}
    settings = read_settings(given, streaming=False)
    watch = Watch(settings)
    try:
        return [(span.partition, span.start, span.end) for span in plan_batch(settings, watch, None)]
    finally:
        watch.close()


def test_a_batch_has_the_requested_start_and_end(broker: Broker, admin: ottla.Admin) -> None:
    admin.create_topics([NewTopic("bounds", 2, 1)]).all()
    for number in range(3):
        write(broker, "bounds", 5, partition=0, timestamp=1000 * (number + 1))
    write(broker, "bounds", 4, partition=1, timestamp=2000)
    options = {"subscribe": "bounds"}
    assert planned(broker, **options) == [(0, 0, 15), (1, 0, 4)]
    assert planned(
        broker,
        **options,
        startingOffsets='{"bounds":{"0":3,"1":-2}}',
        endingOffsets='{"bounds":{"0":9,"1":-1}}',
    ) == [(0, 3, 9), (1, 0, 4)]
    assert planned(broker, **options, startingTimestamp="2000", endingTimestamp="3000") == [
        (0, 5, 10),
        (1, 0, 4),
    ]
    with pytest.raises(OffsetsMissing, match=r"bounds-1 has no record at or after 2500.*Strategy"):
        planned(broker, **options, startingTimestamp="2500")
    late = planned(broker, **options, startingTimestamp="2500", startingOffsetsByTimestampStrategy="latest")
    assert late == [(0, 10, 15), (1, 4, 4)]
    with pytest.raises(OffsetsMissing, match=r"has no entry for bounds-1\. Specify every partition"):
        planned(broker, **options, startingOffsets='{"bounds":{"0":3}}')
    with pytest.raises(OffsetsMissing, match="contains bounds-9, which the query does not read"):
        planned(broker, **options, startingOffsets='{"bounds":{"0":3,"1":0,"9":0}}')
    with pytest.raises(OffsetsMissing, match="endingOffsets is 99 for bounds-0, but its log ends at 15"):
        planned(broker, **options, endingOffsets='{"bounds":{"0":99,"1":-1}}')
    with pytest.raises(OffsetsMissing, match=r"start offset 9 \(startingOffsets\) is after the end offset 3"):
        planned(
            broker,
            **options,
            startingOffsets='{"bounds":{"0":9,"1":0}}',
            endingOffsets='{"bounds":{"0":3,"1":4}}',
        )
    admin.delete_records({TopicPartition("bounds", 0): 6}).all()
    with pytest.raises(DataLoss, match=r"bounds-0: the records from offset 2 to 5 are lost.*failOnDataLoss"):
        planned(broker, **options, startingOffsets='{"bounds":{"0":2,"1":0}}')
    assert planned(broker, **options, startingOffsets='{"bounds":{"0":2,"1":0}}', failOnDataLoss="false") == [
        (0, 6, 15),
        (1, 0, 4),
    ]


def test_large_partitions_are_split_by_bytes(broker: Broker, admin: ottla.Admin) -> None:
    admin.create_topics([NewTopic("sizes", 1, 1)]).all()
    write(broker, "sizes", 100)
    settings = read_settings(
        {
            "kafka.bootstrap.servers": broker.bootstrap_servers,
            "subscribe": "sizes",
            "startingOffsets": "earliest",
            "maxBytesPerPartition": "2k",
        },
        streaming=True,
    )
    driver = Driver(settings)
    try:
        start = driver.initial()
        end = driver.next_end(start, is_limited=True)
        assert end is not None
        assert 5 <= len(driver.tasks(start, end)) <= 10  # 100 records of 100 bytes and a little more
    finally:
        driver.close()
