"""The source in a real Spark: batches and streams, and the same rows as Spark's own connector.

What Spark does with the reader is shown here; what the reader answers is in tests/unit/spark.
"""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import ottla
from ottla.client.admin import NewTopic
from ottla.client.values import TopicPartition
from tests.interop import peers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WAIT = 120.0


def make(broker: peers.BrokerProcess, name: str, partitions: int = 2, **configs: str) -> str:
    with ottla.Admin(broker.bootstrap) as admin:
        settings = {key.replace("_", "."): value for key, value in configs.items()}
        admin.create_topics([NewTopic(name, partitions, 1, configs=settings)]).all()
    return name


def write(
    broker: peers.BrokerProcess, topic: str, values: list[bytes], partition: int = 0, **options: Any
) -> None:
    with ottla.Producer(broker.bootstrap, **options) as producer:
        sent = [
            producer.send(
                topic, value, key=b"k%d" % number, partition=partition, headers={"n": b"%d" % number}
            )
            for number, value in enumerate(values)
        ]
        for delivery in sent:
            delivery.result(WAIT)


def read(
    spark: SparkSession, broker: peers.BrokerProcess, topic: str, source: str = "ottla", **options: Any
) -> DataFrame:
    reader = spark.read.format(source).option("kafka.bootstrap.servers", broker.bootstrap)
    for name, value in {"subscribe": topic, **options}.items():
        reader = reader.option(name.replace("__", "."), value)
    return reader.load()


def stream(
    spark: SparkSession, broker: peers.BrokerProcess, topic: str, source: str = "ottla", **options: Any
) -> DataFrame:
    reader = spark.readStream.format(source).option("kafka.bootstrap.servers", broker.bootstrap)
    given = {"subscribe": topic, "startingOffsets": "earliest", **options}
    for name, value in given.items():
        reader = reader.option(name.replace("__", "."), value)
    return reader.load()


def run_once(frame: DataFrame, directory: Path) -> list[int]:
    """Run a query to the end of what is there, into Parquet; the rows of its batches."""
    query = (
        frame.writeStream.format("parquet")
        .option("path", str(directory / "out"))
        .option("checkpointLocation", str(directory / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    try:
        assert query.awaitTermination(int(WAIT)), "the query did not end"
        return [int(progress["numInputRows"]) for progress in query.recentProgress]
    finally:
        query.stop()


def fails(action: Callable[[], object]) -> str:
    """What Spark says when it fails."""
    from pyspark.errors import PySparkException

    with pytest.raises(PySparkException) as caught:
        action()
    return str(caught.value)


@pytest.fixture(params=["ottla", "kafka"])
def either(request: pytest.FixtureRequest) -> peers.BrokerProcess:
    """An Ottla node, then a Kafka node."""
    found: peers.BrokerProcess = request.getfixturevalue("broker" if request.param == "ottla" else "kafka")
    return found


def test_rows_and_schema_are_those_of_sparks_own_connector(
    spark: SparkSession, either: peers.BrokerProcess, tmp_path: Path
) -> None:
    topic = make(either, "same", 3)
    for partition, codec in enumerate(("zstd", "lz4", "none")):
        values = [b"%d-%d" % (partition, number) for number in range(500)]
        write(either, topic, values, partition, compression_type=codec)
    ours, theirs = (
        read(spark, either, topic, source, includeHeaders="true") for source in ("ottla", "kafka")
    )
    assert ours.schema == theirs.schema
    assert sorted(ours.collect()) == sorted(theirs.collect())
    assert ours.count() == 1500
    assert read(spark, either, topic, minPartitions="5").rdd.getNumPartitions() == 6
    bounds = {
        "startingOffsets": '{"same":{"0":10,"1":-2,"2":499}}',
        "endingOffsets": '{"same":{"0":20,"1":5,"2":-1}}',
    }
    ours, theirs = (read(spark, either, topic, source, **bounds) for source in ("ottla", "kafka"))
    assert sorted(ours.collect()) == sorted(theirs.collect())
    assert ours.count() == 16
    assert sum(run_once(stream(spark, either, topic, maxOffsetsPerTrigger="600"), tmp_path)) == 1500
    kept = spark.read.parquet(str(tmp_path / "out"))
    assert sorted(kept.collect()) == sorted(read(spark, either, topic).collect())


def test_sparks_own_connector_writes_and_reads_our_broker(
    spark: SparkSession, broker: peers.BrokerProcess, tmp_path: Path
) -> None:
    topic = make(broker, "own-connector", 2)
    rows = spark.range(1000).selectExpr("CAST(id AS STRING) AS key", "CONCAT('v', id) AS value")
    rows.write.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap).option(
        "topic", topic
    ).save()
    ours = read(spark, broker, topic).selectExpr("CAST(key AS STRING)", "CAST(value AS STRING)")
    assert sorted(ours.collect()) == sorted(rows.collect())
    copy = make(broker, "own-copy", 2)
    query = (
        stream(spark, broker, topic, "kafka", maxOffsetsPerTrigger="400")
        .select("key", "value")
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", broker.bootstrap)
        .option("topic", copy)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(int(WAIT))
    assert sorted(read(spark, broker, copy, "kafka").select("key", "value").collect()) == sorted(
        read(spark, broker, topic).select("key", "value").collect()
    )


def test_a_checkpoint_of_sparks_own_connector_is_taken_over(
    spark: SparkSession, broker: peers.BrokerProcess, tmp_path: Path
) -> None:
    topic = make(broker, "takeover", 2)
    write(broker, topic, [b"before"] * 20)
    assert sum(run_once(stream(spark, broker, topic, "kafka"), tmp_path)) == 20
    write(broker, topic, [b"after"] * 7, partition=1)
    assert sum(run_once(stream(spark, broker, topic), tmp_path)) == 7
    assert spark.read.parquet(str(tmp_path / "out")).count() == 27


def test_filters_reach_the_source_and_leave_nothing_to_spark(
    spark: SparkSession, broker: peers.BrokerProcess
) -> None:
    topic = make(broker, "filters", 3)
    for partition in range(3):
        write(broker, topic, [b"x"] * 100, partition)
    frame = read(spark, broker, topic)
    chosen = frame.where("partition IN (1, 2) AND offset >= 10 AND offset < 20 AND timestamp > '2020-01-01'")
    assert chosen.count() == 20
    plan = chosen._jdf.queryExecution().executedPlan().toString()
    assert "Filter " not in plan
    assert chosen.rdd.getNumPartitions() == 1  # twenty records share a task
    assert frame.where("offset = 5 AND value = CAST('x' AS BINARY)").count() == 3
    assert frame.where("timestamp < '2020-01-01'").count() == 0
    other = read(spark, broker, topic, "kafka").where("partition <> 0 AND offset > 90").collect()
    assert sorted(frame.where("partition <> 0 AND offset > 90").collect()) == sorted(other)
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")
    try:  # as where Spark has found the format by itself
        assert read(spark, broker, topic).where("partition = 1 AND offset < 7").count() == 7
    finally:
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")


def test_only_committed_rows_are_read_up_to_the_last_stable_offset(
    spark: SparkSession, either: peers.BrokerProcess
) -> None:
    topic = make(either, "committed", 1)
    with ottla.Producer(either.bootstrap, transactional_id="committed") as producer:
        for number in range(4):
            producer.begin_transaction()
            producer.send(topic, b"%d" % number).result(WAIT)
            if number % 2:
                producer.abort_transaction()
            else:
                producer.commit_transaction()
        producer.begin_transaction()
        producer.send(topic, b"open").result(WAIT)
        options = {"kafka__isolation__level": "read_committed"}
        found = [
            bytes(row.value) for row in read(spark, either, topic, **options).orderBy("offset").collect()
        ]
        assert found == [b"0", b"2"]
        assert read(spark, either, topic).count() == 5
        producer.abort_transaction()


def test_json_and_avro_are_decoded_without_a_function(
    spark: SparkSession, broker: peers.BrokerProcess
) -> None:
    import fastavro

    topic = make(broker, "decoded", 1)
    write(broker, topic, [b'{"id": 1, "tags": ["a"]}', b"oops", b'{"id": 2, "more": 0}'])
    options = {"valueFormat": "json", "valueSchema": "id BIGINT, tags ARRAY<STRING>", "keyFormat": "string"}
    told = fails(lambda: read(spark, broker, topic, **options).collect())
    assert "decoded-0 at offset 1: The value cannot be decoded" in told
    rows = read(spark, broker, topic, onDecodeError="deadLetter", **options).orderBy("offset")
    assert [(row.key, row.value and row.value.asDict()) for row in rows.collect()] == [
        ("k0", {"id": 1, "tags": ["a"]}),
        ("k1", None),
        ("k2", {"id": 2, "tags": None}),
    ]
    [letter] = rows.where("deadLetter IS NOT NULL").select("decodeError", "deadLetter.*").collect()
    assert letter.decodeError
    assert bytes(letter.value) == b"oops"
    assert {header.key for header in letter.headers} == {
        "n",
        "ottla.error",
        "ottla.topic",
        "ottla.partition",
        "ottla.offset",
    }
    schema = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
    buffer = io.BytesIO()
    buffer.write(struct.pack(">bI", 0, 7))
    fastavro.schemaless_writer(buffer, schema, {"id": 42})
    topic = make(broker, "decoded-avro", 1)
    write(broker, topic, [buffer.getvalue()])
    frame = read(spark, broker, topic, valueFormat="avro", valueSchema=json.dumps(schema))
    assert frame.select("value.id").collect()[0].id == 42
    narrow = spark.read.format("ottla").options(
        **{"kafka.bootstrap.servers": broker.bootstrap, "subscribe": topic}
    )
    assert narrow.schema("offset BIGINT").load().columns == ["offset"]
    assert narrow.schema("offset BIGINT").load().count() == 1


def test_progress_is_seen_as_lag_and_a_stream_goes_on_after_a_restart(
    spark: SparkSession, either: peers.BrokerProcess, tmp_path: Path
) -> None:
    topic = make(either, "lag", 1)
    write(either, topic, [b"x"] * 30)
    frame = stream(spark, either, topic, groupId="spark-lag", maxOffsetsPerTrigger="20")
    assert run_once(frame, tmp_path) == [20, 10]
    write(either, topic, [b"x"] * 5)
    with ottla.Admin(either.bootstrap) as admin:

        def committed() -> int | None:
            found = admin.list_consumer_group_offsets(["spark-lag"]).result("spark-lag")
            one = found.get(TopicPartition(topic, 0))
            return None if one is None else one.offset

        peers.wait_until(
            lambda: committed() == 30, 60.0, lambda: f"the offset 30, and {committed()} is there"
        )
    if either.kind == "ottla":
        told = peers.kafka_tool(
            "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
            *("--bootstrap-server", either.bootstrap, "--describe", "--group", "spark-lag"),
        ).stdout.decode()
        row = next(line.split() for line in told.splitlines() if topic in line.split())
        assert row[3:6] == ["30", "35", "5"]  # current offset, end, lag
    assert run_once(frame, tmp_path) == [5]
    assert spark.read.parquet(str(tmp_path / "out")).count() == 35


def test_mistakes_are_answered_with_a_line_that_says_what_to_do(
    spark: SparkSession, broker: peers.BrokerProcess, tmp_path: Path
) -> None:
    topic = make(broker, "mistakes", 1)
    write(broker, topic, [b"x"] * 10)
    told = fails(lambda: read(spark, broker, topic, startingOffset="earliest"))
    assert "Unknown option startingoffset for reading. Did you mean startingOffsets?" in told
    assert "Topic nowhere does not exist at" in fails(lambda: read(spark, broker, "nowhere").count())
    with ottla.Admin(broker.bootstrap) as admin:
        admin.delete_records({TopicPartition(topic, 0): 4}).all()
    bounds = {"startingOffsets": '{"mistakes":{"0":0}}'}
    told = fails(lambda: read(spark, broker, topic, **bounds).count())
    assert "mistakes-0: the records from offset 0 to 3 are lost" in told
    assert read(spark, broker, topic, failOnDataLoss="false", **bounds).count() == 6
    assert run_once(stream(spark, broker, topic), tmp_path) == [6]
    other = make(broker, "mistakes-other", 1)
    told = fails(lambda: run_once(stream(spark, broker, other), tmp_path))
    assert "The checkpoint has offsets of mistakes-0, but this query reads mistakes-other" in told
    with ottla.Admin(broker.bootstrap) as admin:
        admin.delete_topics([topic]).all()
    told = fails(lambda: run_once(stream(spark, broker, topic), tmp_path))
    assert "The topic mistakes was deleted" in told
    spark.streams.resetTerminated()


def test_the_format_is_found_by_the_name_of_its_module(
    spark: SparkSession, broker: peers.BrokerProcess
) -> None:
    from ottla.spark.source import OttlaSource
    from pyspark_ottla import DefaultSource

    assert DefaultSource is OttlaSource
    fresh = spark.newSession()
    topic = make(broker, "found", 1)
    write(broker, topic, [b"x"])
    assert read(fresh, broker, topic).count() == 1
