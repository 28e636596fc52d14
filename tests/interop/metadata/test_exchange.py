"""Kafka reads the metadata log and snapshots that we write, and we read Kafka's."""

from __future__ import annotations

import difflib
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic

from ottla.controller.brokers import fence_stale_broker
from ottla.controller.configs import incremental_alter_configs
from ottla.controller.create_partitions import create_partitions
from ottla.controller.result import Decided
from ottla.controller.state import ControllerState
from ottla.controller.topics import create_topics, delete_topics
from ottla.raft.driver import DIRECTORY_NAME
from ottla.wire.messages.create_partitions import CreatePartitionsRequest
from ottla.wire.messages.create_topics import CreateTopicsRequest
from ottla.wire.messages.delete_topics import DeleteTopicsRequest
from ottla.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from ottla.wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from tests.interop.metadata.nodes import Controller, ask, dump, normalized, records_in, run
from tests.interop.peers import KafkaBroker

QUORUMS = ["static", "dynamic"]


def kafka(directory: Path, quorum: str, **properties: str) -> KafkaBroker:
    broker = KafkaBroker(directory)
    if quorum == "static":
        broker.extra_properties["controller.quorum.voters"] = f"1@127.0.0.1:{broker.controller_port}"
    broker.extra_properties |= properties
    return broker


def new_topic(name: str, partitions: int, **configs: str) -> CreateTopicsRequest:
    return CreateTopicsRequest(
        topics=[
            CreateTopicsRequest.CreatableTopic(
                name=name,
                num_partitions=partitions,
                replication_factor=1,
                configs=[
                    CreateTopicsRequest.CreatableTopicConfig(name=key.replace("_", "."), value=value)
                    for key, value in configs.items()
                ],
            )
        ]
    )


def more_partitions(name: str, count: int) -> CreatePartitionsRequest:
    topic = CreatePartitionsRequest.CreatePartitionsTopic(name=name, count=count, assignments=None)
    return CreatePartitionsRequest(topics=[topic])


def new_config(topic: str, name: str, value: str) -> IncrementalAlterConfigsRequest:
    config = IncrementalAlterConfigsRequest.AlterableConfig(name=name, config_operation=0, value=value)
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=2, resource_name=topic, configs=[config]
    )
    return IncrementalAlterConfigsRequest(resources=[resource])


async def change_things(controller: Controller) -> None:
    """The same as `change_things_on_kafka`, through our decisions."""
    await controller.do(create_topics, new_topic("orders", 3, min_insync_replicas="1"))
    await controller.do(create_topics, new_topic("gone", 1))
    await controller.do(create_partitions, more_partitions("orders", 5))
    await controller.do(incremental_alter_configs, new_config("orders", "cleanup.policy", "compact"))
    await controller.do(delete_topics, DeleteTopicsRequest(topic_names=["gone"]), 5)


def change_things_on_kafka(broker: KafkaBroker) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for topic in (NewTopic("orders", 3, 1, config={"min.insync.replicas": "1"}), NewTopic("gone", 1, 1)):
        for future in admin.create_topics([topic]).values():
            future.result(30)
    for future in admin.create_partitions([NewPartitions("orders", 5)]).values():
        future.result(30)
    assert ask(broker.port, new_config("orders", "cleanup.policy", "compact"), 1).responses[0].error_code == 0
    for future in admin.delete_topics(["gone"]).values():
        future.result(30)


def described(port: int, name: str) -> dict[str, object]:
    request = DescribeTopicPartitionsRequest(
        topics=[DescribeTopicPartitionsRequest.TopicRequest(name=name)], response_partition_limit=100
    )
    topic = ask(port, request, 0).topics[0]
    return {
        "id": topic.topic_id,
        "partitions": {
            p.partition_index: (p.leader_id, p.replica_nodes, p.isr_nodes) for p in topic.partitions
        },
    }


@pytest.mark.parametrize("quorum", QUORUMS)
def test_dump_log_reads_our_log_and_our_snapshots(tmp_path: Path, quorum: str) -> None:
    broker = kafka(tmp_path, quorum)

    async def write() -> list[str]:
        async with Controller(broker) as controller:
            await controller.start_broker()
            await change_things(controller)
            await controller.quorum.snapshot_now()
            return [type(record).__name__ for record in controller.quorum.image.to_records()]

    expected = run(write())
    directory = broker.data / DIRECTORY_NAME
    first = "00000000000000000000"
    log = dump(*(directory / f"{first}{suffix}" for suffix in (".log", ".index", ".timeindex")))
    names = [record["type"] for record in records_in(log)]
    assert "isvalid: false" not in log
    assert "Exception" not in log
    assert names[0] == "LeaderChange"
    assert names.count("PARTITION_RECORD") == 6
    newest = dump(max(directory.glob("*.checkpoint")))
    in_snapshot = [r["type"] for r in records_in(newest) if not r["type"].startswith(("Snapshot", "KRaft"))]
    assert [name.title().replace("_", "") for name in in_snapshot] == expected
    bootstrap = records_in(dump(broker.data / "bootstrap.checkpoint"))
    levels = [r["data"]["name"] for r in bootstrap if r["type"] == "FEATURE_LEVEL_RECORD"]
    assert levels[:2] == ["metadata.version", "eligible.leader.replicas.version"]


@pytest.mark.parametrize("quorum", QUORUMS)
def test_a_kafka_broker_starts_on_our_metadata_and_ours_on_kafkas(tmp_path: Path, quorum: str) -> None:
    """There and back: our log, continued by Kafka, continued by ours, read by Kafka again."""
    snapshots_often = {"metadata.log.max.record.bytes.between.snapshots": "1000"}
    broker = kafka(tmp_path, quorum, **snapshots_often)

    async def ours_first() -> bytes:
        async with Controller(broker) as controller:
            await controller.start_broker()
            await change_things(controller)
            await controller.stop_broker()
            return controller.quorum.image.topics_by_name["orders"].id

    orders_id = run(ours_first())
    with broker:
        topic = described(broker.port, "orders")
        assert topic == {"id": orders_id, "partitions": {n: (1, [1], [1]) for n in range(5)}}
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        resource = ConfigResource(ConfigResource.Type.TOPIC, "orders")
        entries = admin.describe_configs([resource])[resource].result(30)
        assert entries["min.insync.replicas"].value == "1"
        assert entries["cleanup.policy"].value == "compact"
        for future in admin.create_topics([NewTopic("by.kafka", 2, 1)]).values():
            future.result(30)
        kafka_id = described(broker.port, "by.kafka")["id"]
        assert broker.stop() == 143

    async def ours_again() -> None:
        async with Controller(broker) as controller:
            image = controller.quorum.image
            assert image.topics_by_name["by.kafka"].id == kafka_id
            assert image.topics_by_name["orders"].id == orders_id
            assert image.topic_config("orders")["min.insync.replicas"] == "1"
            assert image.brokers[1].fenced
            partition = image.partition("by.kafka", 1)
            assert partition is not None
            assert (partition.leader, partition.elr) == (-1, (1,))
            await controller.start_broker(previous_epoch=image.brokers[1].epoch)
            partition = image.partition("by.kafka", 1)
            assert partition is not None
            assert (partition.leader, partition.isr) == (1, (1,))
            await controller.do(create_topics, new_topic("again", 1))
            await controller.stop_broker()

    run(ours_again())
    broker.start()
    try:
        assert described(broker.port, "again")["partitions"] == {0: (1, [1], [1])}
        assert described(broker.port, "by.kafka")["id"] == kafka_id
    finally:
        broker.close()


def fence_after_silence(state: ControllerState) -> Decided[bool]:
    state.now_ms += 2 * state.settings.session_timeout_ms
    return fence_stale_broker(state)


def test_the_same_operations_write_the_same_records(tmp_path: Path) -> None:
    """A first start, topics and settings, a clean stop, a start, a kill, a start: record by record."""
    theirs = kafka(tmp_path / "theirs", "static")
    with theirs:
        change_things_on_kafka(theirs)
        theirs.restart(clean=True)
        theirs.restart(clean=False)

    ours = kafka(tmp_path / "ours", "static")

    async def act() -> None:
        async with Controller(ours) as controller:
            epoch = await controller.start_broker()
            await change_things(controller)
            await controller.stop_broker()
        async with Controller(ours) as controller:
            await controller.start_broker(previous_epoch=epoch)
        async with Controller(ours) as controller:
            await controller.do(fence_after_silence)  # Kafka refuses the next run until then
            await controller.start_broker()

    run(act())
    log = f"{DIRECTORY_NAME}/00000000000000000000.log"
    expected = normalized(records_in(dump(theirs.data / log)))
    found = normalized(records_in(dump(ours.data / log)))
    assert found == expected, "\n".join(difflib.unified_diff(expected, found, "Kafka", "ours", n=1))
