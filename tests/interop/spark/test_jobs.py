"""The built-in jobs: archives come back as topics, mirrors keep groups in their place, profiles count."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import ottla
from ottla.client.admin import Admin
from ottla.client.values import OffsetAndMetadata, TopicPartition
from ottla.spark.pipeline.build import Builder
from ottla.spark.pipeline.check import checked_outputs
from ottla.spark.pipeline.jobs.archive import archive_pipeline, load_pipeline, replay
from ottla.spark.pipeline.jobs.mirror import Mirror, copy_round, make_topics, mirrored_ends, translate_groups
from ottla.spark.pipeline.jobs.profile import markdown, profile_topic, write_report
from ottla.spark.pipeline.model import FileTarget, Pipeline
from ottla.spark.pipeline.run import Runner
from ottla.spark.sink import OtherQuery
from ottla.spark.tables.parquet import Place
from tests.interop import peers
from tests.interop.spark.test_pipeline import PATIENCE_SECONDS, Bench

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def bench(spark: SparkSession, broker: peers.BrokerProcess, tmp_path: Path) -> Bench:
    return Bench(spark, broker.bootstrap, tmp_path)


def run(bench: Bench, pipeline: Pipeline) -> None:
    builder = Builder(bench.spark, pipeline, file="job", servers=bench.servers, properties={})
    outputs = checked_outputs(bench.spark, builder, "job")
    Runner(pipeline, builder, outputs, once=True, report=lambda progress: None).run()


def fill(bench: Bench, topic: str, first: int, count: int, partitions: int) -> None:
    with ottla.Producer(bench.servers) as producer:
        sent = [
            producer.send(
                topic,
                f"v{number}",
                key=f"k{number % 5}",
                partition=number % partitions,
                headers={"n": str(number).encode()},
            )
            for number in range(first, first + count)
        ]
        for delivery in sent:
            delivery.result(PATIENCE_SECONDS)


def by_partition(records: list[Any]) -> dict[int, list[tuple[Any, ...]]]:
    found: dict[int, list[tuple[Any, ...]]] = {}
    for one in sorted(records, key=lambda one: (one.partition, one.offset)):
        found.setdefault(one.partition, []).append((one.key, one.value, one.headers, one.timestamp))
    return found


def test_an_archive_has_every_record_once_and_becomes_the_same_topic_again(bench: Bench) -> None:
    topic, again = bench.topic("kept", 2), bench.topic("again", 2)
    path = str(bench.directory / "archive")
    target = FileTarget(kind="parquet", path=path, partition_by=("date",), compact_batches=2)
    pipeline = archive_pipeline(
        f"a-{bench.mark}", (topic,), target, checkpoint=str(bench.directory / "c"), batch_records=30
    )
    fill(bench, topic, 0, 100, 2)
    run(bench, pipeline)
    assert len(Place.open(path).batches()) <= 3, "small batches were joined"
    frame = bench.spark.read.parquet(path)
    assert sorted((row.partition, row.offset) for row in frame.select("partition", "offset").collect()) == [
        (partition, offset) for partition in range(2) for offset in range(50)
    ]

    where = {"bootstrap.servers": bench.servers}
    name = f"r-{bench.mark}"
    assert replay(bench.spark, path, "parquet", again, client=where, name=name, keep_partitions=True) == 100
    replay(
        bench.spark, path, "parquet", again, client=where, name=name, keep_partitions=True
    )  # has them already
    assert by_partition(bench.records(again, 100)) == by_partition(bench.records(topic, 100))

    fill(bench, topic, 100, 2, 2)
    run(bench, pipeline)
    with pytest.raises(OtherQuery):  # the archive has other batches now
        replay(bench.spark, path, "parquet", again, client=where, name=name, keep_partitions=True)


def test_files_are_loaded_once_and_new_ones_by_the_next_run(bench: Bench) -> None:
    topic = bench.topic("loaded")
    files = bench.directory / "files"
    files.mkdir()
    (files / "a.csv").write_text("id,name\n1,one\n2,two\n")
    pipeline = load_pipeline(
        f"l-{bench.mark}",
        str(files),
        "csv",
        topic,
        schema="id INT, name STRING",
        key="id",
        checkpoint=str(bench.directory / "c"),
        options={"header": "true"},
    )
    run(bench, pipeline)
    (files / "b.csv").write_text("id,name\n3,three\n")
    run(bench, pipeline)
    found = [(one.key, json.loads(one.value)) for one in bench.records(topic, 3)]
    assert sorted(found) == [
        (b"1", {"id": 1, "name": "one"}),
        (b"2", {"id": 2, "name": "two"}),
        (b"3", {"id": 3, "name": "three"}),
    ]


def test_a_mirror_in_kafka_has_each_record_once_and_groups_where_they_were(
    bench: Bench, kafka: peers.BrokerProcess
) -> None:
    topic = bench.topic("mirrored", 2)
    mirror = Mirror(
        name=f"m-{bench.mark}",
        topics=(topic,),
        source={"bootstrap.servers": bench.servers},
        target={"bootstrap.servers": kafka.bootstrap},
        checkpoint=str(bench.directory / "mirror"),
        prefix="copy.",
        batch_records=20,
    )
    there = f"copy.{topic}"
    assert make_topics(mirror) == [there]
    assert make_topics(mirror) == []
    with ottla.Producer(bench.servers, transactional_id=f"t-{bench.mark}") as producer:
        for number in range(
            30
        ):  # each transaction leaves a marker, which takes an offset here and none there
            with producer.transaction() as transaction:
                transaction.send(topic, f"v{number}", partition=number % 2)

    assert copy_round(bench.spark, mirror) == 30
    fill(bench, topic, 30, 20, 2)
    assert copy_round(bench.spark, mirror) == 20
    other = Bench(bench.spark, kafka.bootstrap, bench.directory)
    here, copied = bench.records(topic, 50), other.records(there, 50)
    assert by_partition(copied) == by_partition(here)

    ends = mirrored_ends(mirror.checkpoint)
    middle = sorted(one.offset for one in here if one.partition == 0)[7]
    group = f"g-{bench.mark}"
    with Admin(bench.servers) as admin:
        places = {
            TopicPartition(topic, 0): OffsetAndMetadata(middle),
            TopicPartition(topic, 1): OffsetAndMetadata(0),
        }
        admin.alter_consumer_group_offsets(group, places).all()
    rows = translate_groups(mirror, [group])
    assert [(row["partition"], row["offset"]) for row in rows] == [(0, middle), (1, 0)]
    with Admin(kafka.bootstrap) as admin:
        stored = admin.list_consumer_group_offsets([group]).result(group)
    found = {key.partition: place.offset for key, place in stored.items() if place is not None}
    values = {one.offset: one.value for one in copied if one.partition == 0}
    assert values[found[0]] == next(one.value for one in here if (one.partition, one.offset) == (0, middle))
    first = min(one.offset for one in copied if one.partition == 1)
    assert found[1] == first
    assert ends[TopicPartition(topic, 0)] > 25


def test_a_profile_counts_sizes_keys_nulls_and_late_records(bench: Bench) -> None:
    topic = bench.topic("profiled", 2)
    at = 1_767_000_000_000
    with ottla.Producer(bench.servers) as producer:
        for number in range(20):
            value = json.dumps({"id": number, "name": None if number % 4 == 0 else "x"})
            key = "often" if number < 12 else f"k{number}"
            late = 600_000 if number == 10 else 0
            producer.send(topic, value, key=key, partition=0, timestamp=at + number * 1000 - late)
        producer.send(topic, None, key="gone", partition=1, timestamp=at)
        producer.send(topic, "not json", partition=1, timestamp=at)
    found = profile_topic(
        bench.spark, topic, client={"bootstrap.servers": bench.servers}, schema="id INT, name STRING"
    )
    assert (found.records, found.null_keys, found.null_values, found.undecodable) == (22, 1, 1, 1)
    assert [(one.records, one.late) for one in found.partitions] == [(20, 1), (2, 0)]
    assert found.top_keys[0] == ("often", 12)
    assert found.fields == {"id": 0, "name": 5}
    assert found.partitions[0].late_ms_max == 599_000
    assert "22 records" in markdown([found])
    report = write_report([found], bench.directory / "report")
    assert (report.parent / f"{topic}.png").stat().st_size > 1000
