"""A controller and brokers as separate processes: starts, stops and kills."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.server.asking import Asking
from tests.unit.server.nodes import (
    CONTROLLER_ID,
    Nodes,
    free_port,
    leaders,
    wait_for_leaders,
    wait_until,
)

from ottla.wire.errors import ErrorCode
from ottla.wire.messages.create_topics import CreateTopicsRequest
from ottla.wire.messages.describe_configs import DescribeConfigsRequest
from ottla.wire.messages.describe_quorum import DescribeQuorumRequest
from ottla.wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.messages.unregister_broker import UnregisterBrokerRequest

_Resource = IncrementalAlterConfigsRequest.AlterConfigsResource


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    with Nodes(tmp_path) as made:
        yield made


def test_a_broker_serves_what_was_created_through_it(nodes: Nodes) -> None:
    nodes.controller.start()
    broker = nodes.broker(1).start()
    with broker.ask() as asking:
        asking.create_topic("news", 2, retention_ms="99999")
        wait_for_leaders(broker, "news", 2)
        assert asking.produce("news", [b"one", b"two"], partition=1).error_code == 0
        assert asking.values("news", partition=1) == [b"one", b"two"]
        producer = asking.ask(InitProducerIdRequest(transactional_id=None), 4)
        assert (producer.error_code, producer.producer_epoch) == (0, 0)
        configs = asking.ask(
            DescribeConfigsRequest(
                resources=[
                    DescribeConfigsRequest.DescribeConfigsResource(
                        resource_type=2, resource_name="news", configuration_keys=["retention.ms"]
                    )
                ]
            ),
            4,
        )
        assert configs.results[0].configs[0].value == "99999"


def test_a_controllers_error_is_forwarded_by_the_broker(nodes: Nodes) -> None:
    nodes.controller.start()
    broker = nodes.broker(1).start()
    with broker.ask() as asking:
        asking.create_topic("twice")
        topic = CreateTopicsRequest.CreatableTopic(name="twice", num_partitions=1, replication_factor=1)
        for version in (2, 5, 7):
            request = CreateTopicsRequest(topics=[topic], timeout_ms=5000)
            (result,) = asking.ask(request, version).topics
            assert result.error_code == ErrorCode.TOPIC_ALREADY_EXISTS
            assert result.error_message == "Topic 'twice' already exists."


def test_automatic_topic_creation_goes_through_the_controller(nodes: Nodes) -> None:
    nodes.controller.start()
    broker = nodes.broker(1).start()
    with broker.ask() as asking:
        request = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name="wanted")])
        asking.ask(request, 12)
        wait_for_leaders(broker, "wanted", 1)
        assert asking.produce("wanted", [b"here"]).error_code == 0


def test_config_changes_are_split_between_broker_and_controller(nodes: Nodes) -> None:
    nodes.controller.start()
    broker = nodes.broker(1).start()

    def resource(kind: int, name: str, key: str, value: str) -> _Resource:
        config = IncrementalAlterConfigsRequest.AlterableConfig(name=key, config_operation=0, value=value)
        return _Resource(resource_type=kind, resource_name=name, configs=[config])

    with broker.ask() as asking:
        asking.create_topic("set")
        request = IncrementalAlterConfigsRequest(
            resources=[
                resource(8, "1", "ottla.server", "DEBUG"),
                resource(2, "set", "retention.ms", "4321"),
                resource(2, "set", "retention.ms", "4322"),
                resource(2, "unset", "retention.ms", "1"),
            ]
        )
        errors = [one.error_code for one in asking.ask(request, 1).responses]
        assert errors == [
            ErrorCode.NONE,
            ErrorCode.INVALID_REQUEST,
            ErrorCode.INVALID_REQUEST,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ]


def test_two_brokers_share_partitions_and_metadata(nodes: Nodes) -> None:
    nodes.controller.start()
    first, second = nodes.broker(1).start(), nodes.broker(2).start()
    with first.ask() as one, second.ask() as two:
        one.create_topic("shared", 4)
        wait_for_leaders(second, "shared", 4)
        known = leaders(two, "shared")
        assert sorted(known.values()) == [1, 1, 2, 2]
        for partition, leader in known.items():
            own, other = (one, two) if leader == 1 else (two, one)
            assert own.produce("shared", [b"%d" % partition], partition=partition).error_code == 0
            refused = other.produce("shared", [b"astray"], partition=partition)
            assert refused.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            assert own.values("shared", partition=partition) == [b"%d" % partition]


def test_a_killed_broker_restarts_with_its_records(nodes: Nodes) -> None:
    nodes.controller.start()
    broker = nodes.broker(1).start()
    with broker.ask() as asking:
        asking.create_topic("kept")
        wait_for_leaders(broker, "kept", 1)
        asking.produce("kept", [b"before"])
    broker.kill()
    broker.start()
    with broker.ask() as asking:
        wait_for_leaders(broker, "kept", 1)
        asking.produce("kept", [b"after"])
        assert asking.values("kept") == [b"before", b"after"]
        asking.create_topic("new")


def test_a_stopping_broker_hands_its_leaderships_over(nodes: Nodes) -> None:
    nodes.controller.start()
    first, second = nodes.broker(1).start(), nodes.broker(2).start()
    with first.ask() as asking:
        asking.create_topic("left", 2)
        wait_for_leaders(second, "left", 2)
        own = next(partition for partition, leader in leaders(asking, "left").items() if leader == 1)
        asking.produce("left", [b"one"], partition=own)
    assert first.stop() == 0
    with second.ask() as asking:
        assert sorted(leaders(asking, "left").values()) == [-1, 2]
        first.start()
        wait_for_leaders(second, "left", 2)
        assert sorted(leaders(asking, "left").values()) == [1, 2]
    assert "recover" not in first.log_text.lower().partition("kafka server stopped")[2]


def test_brokers_serve_without_a_controller(nodes: Nodes) -> None:
    nodes.controller.start()
    broker = nodes.broker(1).start()
    with broker.ask() as asking:
        asking.create_topic("steady")
        wait_for_leaders(broker, "steady", 1)
        nodes.controller.kill()
        asking.produce("steady", [b"alone"])
        assert asking.values("steady") == [b"alone"]
        topic = CreateTopicsRequest.CreatableTopic(name="patient", num_partitions=1, replication_factor=1)
        request = CreateTopicsRequest(topics=[topic], timeout_ms=30_000)
        asking.send(request, 7)
        nodes.controller.start()
        assert asking.receive(request, 7).topics[0].error_code == 0
        wait_for_leaders(broker, "patient", 1)
        asking.produce("patient", [b"served"])
        assert asking.values("patient") == [b"served"]


def test_a_cluster_recovers_after_all_nodes_are_killed(nodes: Nodes) -> None:
    nodes.controller.start()
    broker = nodes.broker(1).start()
    with broker.ask() as asking:
        asking.create_topic("all")
        wait_for_leaders(broker, "all", 1)
        asking.produce("all", [b"one"])
    broker.kill()
    nodes.controller.kill()
    broker.start(wait=False)
    wait_until(lambda: "Fetching the metadata log failed" in broker.log_text, "a broker without a controller")
    nodes.controller.start()
    wait_until(lambda: broker.log_text.count("Kafka Server started") == 2, "the broker's second start")
    with broker.ask() as asking:
        wait_for_leaders(broker, "all", 1)
        assert asking.values("all") == [b"one"]


def test_a_broker_without_a_controller_waits_and_can_be_stopped(nodes: Nodes) -> None:
    broker = nodes.broker(1).start(wait=False)
    wait_until(lambda: "Fetching the metadata log failed" in broker.log_text, "the broker to look around")
    assert broker.stop() == 0


def test_a_broker_of_another_cluster_is_refused(nodes: Nodes) -> None:
    nodes.controller.start()
    broker = nodes.broker(1, cluster_id="YW5vdGhlci1jbHVzdGVyLQ").start(wait=False)
    wait_until(lambda: "INCONSISTENT_CLUSTER_ID" in broker.log_text, "the refusal")
    assert broker.stop() == 0


def test_the_quorum_is_described_through_a_broker_with_the_broker_as_observer(nodes: Nodes) -> None:
    nodes.controller.start()
    broker = nodes.broker(1).start()
    request = DescribeQuorumRequest(
        topics=[
            DescribeQuorumRequest.TopicData(
                topic_name="__cluster_metadata",
                partitions=[DescribeQuorumRequest.PartitionData(partition_index=0)],
            )
        ]
    )
    with broker.ask() as asking:
        for version in (0, 1, 2):
            response = asking.ask(request, version)
            partition = response.topics[0].partitions[0]
            assert (partition.error_code, partition.leader_id) == (0, CONTROLLER_ID)
            assert [one.replica_id for one in partition.current_voters] == [CONTROLLER_ID]
            (observer,) = partition.observers
            assert observer.replica_id == 1
            assert 0 < observer.log_end_offset <= partition.high_watermark
            if version >= 1:
                assert observer.last_caught_up_timestamp > 1_600_000_000_000


def test_static_voters_are_found(tmp_path: Path) -> None:
    with Nodes(tmp_path, is_static=True) as nodes:
        nodes.controller.start()
        broker = nodes.broker(1).start()
        with broker.ask() as asking:
            asking.create_topic("static")
            wait_for_leaders(broker, "static", 1)
            nodes.controller.stop()
            nodes.controller.start()
            asking.create_topic("again")
            wait_for_leaders(broker, "again", 1)


def test_a_new_broker_begins_with_the_controllers_snapshot(tmp_path: Path) -> None:
    with Nodes(tmp_path, metadata_log_max_record_bytes_between_snapshots="2000") as nodes:
        nodes.controller.start()
        first = nodes.broker(1).start()
        with first.ask() as asking:
            for number in range(20):
                asking.create_topic(f"topic-{number}")

        def snapshots(data: Path) -> list[str]:
            return sorted(path.name for path in (data / "__cluster_metadata-0").glob("*.checkpoint"))

        wait_until(lambda: len(snapshots(nodes.controller.data)) > 1, "a snapshot of the controller")
        second = nodes.broker(2).start()
        assert snapshots(second.data)
        assert not (second.data / "__cluster_metadata-0" / "00000000000000000000.log").exists()
        with first.ask() as one, second.ask() as two:
            names = MetadataRequest(topics=None)
            assert {topic.name for topic in two.ask(names, 12).topics} == {
                f"topic-{number}" for number in range(20)
            }
            two.create_topic("last", 2)
            wait_for_leaders(first, "last", 2)
            assert sorted(leaders(one, "last").values()) == [1, 2]
        second.kill()
        second.start()
        with second.ask() as two:
            assert len(two.ask(names, 12).topics) == 21


def test_brokers_join_a_node_that_is_controller_and_broker_in_one(tmp_path: Path) -> None:
    port = free_port()
    with Nodes(tmp_path, data_port=port) as nodes:
        nodes.controller.start()
        broker = nodes.broker(1).start()
        with Asking(port) as one, broker.ask() as two:
            one.create_topic("joined", 2)
            wait_for_leaders(broker, "joined", 2)
            known = leaders(two, "joined")
            assert sorted(known.values()) == [1, CONTROLLER_ID]
            for partition, leader in known.items():
                asking = two if leader == 1 else one
                assert asking.produce("joined", [b"here"], partition=partition).error_code == 0
            two.create_topic("through-the-other")
            wait_for_leaders(broker, "through-the-other", 1)
            assert set(leaders(one, "through-the-other").values()) <= {1, CONTROLLER_ID}
        nodes.controller.kill()
        nodes.controller.start()
        with Asking(port) as one:
            one.create_topic("after", 2)
            wait_for_leaders(broker, "after", 2)


def test_an_unregistered_broker_registers_again(nodes: Nodes) -> None:
    nodes.controller.start()
    broker = nodes.broker(1).start()
    with broker.ask() as asking:
        asking.create_topic("before")
        assert asking.ask(UnregisterBrokerRequest(broker_id=1), 0).error_code == 0
        wait_until(
            lambda: "The controller no longer knows this broker" in broker.log_text,
            "the broker to hear of it",
        )
        wait_for_leaders(broker, "before", 1)
        asking.produce("before", [b"still"])
        assert asking.values("before") == [b"still"]
