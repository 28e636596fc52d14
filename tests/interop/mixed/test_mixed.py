"""Kafka 4.3.1 and Ottla in one cluster: topics, records, restarts and snapshots, each in each role."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
)

from tests.interop import peers
from tests.interop.mixed.nodes import (
    CONTROLLER_ID,
    BrokerOnly,
    MixedCluster,
    StaticFollower,
    StaticVoter,
)

SECONDS_MAX = 120.0
KINDS = [("kafka", "ottla"), ("ottla", "kafka")]  # controller, broker


@pytest.fixture(params=KINDS, ids=lambda kinds: f"{kinds[1]}-broker-of-{kinds[0]}-controller")
def kinds(request: pytest.FixtureRequest) -> tuple[str, str]:
    pair: tuple[str, str] = request.param
    return pair


@pytest.fixture
def cluster(kinds: tuple[str, str], tmp_path: Path) -> Iterator[MixedCluster]:
    with MixedCluster(tmp_path, kinds[0]) as made:
        yield made


def settings_of(broker: BrokerOnly) -> dict[str, object]:
    """A client's settings; nothing is logged, since its broker goes away in the middle of many tests."""
    return {"bootstrap.servers": broker.bootstrap, "log_level": 0}


def admin_of(broker: BrokerOnly) -> AdminClient:
    return AdminClient(settings_of(broker))


def create(admin: AdminClient, name: str, partitions: int = 1, **settings: str) -> None:
    config = {key.replace("_", "."): value for key, value in settings.items()}
    topic = NewTopic(name, num_partitions=partitions, replication_factor=1, config=config)
    admin.create_topics([topic], operation_timeout=SECONDS_MAX)[name].result(SECONDS_MAX)


def write(broker: BrokerOnly, topic: str, values: list[bytes]) -> None:
    """Write all to partition 0; every one is acknowledged."""
    problems: list[KafkaError] = []

    def on_delivery(error: KafkaError | None, _message: object) -> None:
        if error is not None:
            problems.append(error)

    producer = Producer(settings_of(broker) | {"enable.idempotence": True})
    for value in values:
        producer.produce(topic, value, partition=0, on_delivery=on_delivery)
    assert producer.flush(SECONDS_MAX) == 0
    assert not problems


def read(broker: BrokerOnly, topic: str, count: int) -> list[bytes]:
    """The first values of partition 0."""
    consumer = Consumer(settings_of(broker) | {"group.id": "mixed", "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        found: list[bytes] = []
        while len(found) < count:
            messages = consumer.consume(count - len(found), timeout=SECONDS_MAX)
            assert messages, f"only {len(found)} of {count} records came"
            for message in messages:
                assert message.error() is None, message.error()
                found.append(message.value())
        return found
    finally:
        consumer.close()


def wait_for_leaders(broker: BrokerOnly, topic: str, count: int) -> dict[int, int]:
    known: dict[int, int] = {}

    def are_known() -> bool:
        partitions = admin_of(broker).list_topics(topic, timeout=SECONDS_MAX).topics[topic].partitions
        known.update({number: partition.leader for number, partition in partitions.items()})
        return len(known) == count and all(leader >= 0 for leader in known.values())

    peers.wait_until(are_known, SECONDS_MAX, f"leaders of {topic}", pause_s=0.1)
    return known


def numbered(count: int, what: str = "record") -> list[bytes]:
    return [f"{what} {number}".encode() for number in range(count)]


def test_topics_live_their_whole_life(cluster: MixedCluster, kinds: tuple[str, str]) -> None:
    broker = cluster.add_broker(kinds[1])
    admin = admin_of(broker)
    create(admin, "life", 2, retention_ms="77777")
    wait_for_leaders(broker, "life", 2)
    write(broker, "life", numbered(500))
    assert read(broker, "life", 500) == numbered(500)

    admin.create_partitions([NewPartitions("life", 4)])["life"].result(SECONDS_MAX)
    wait_for_leaders(broker, "life", 4)
    change = ConfigEntry("max.message.bytes", "2000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, "life", incremental_configs=[change])
    admin.incremental_alter_configs([resource])[resource].result(SECONDS_MAX)

    def setting(name: str) -> str:
        asked = ConfigResource(ConfigResource.Type.TOPIC, "life")
        described: dict[str, ConfigEntry] = admin.describe_configs([asked])[asked].result(SECONDS_MAX)
        return str(described[name].value)

    peers.wait_until(lambda: setting("max.message.bytes") == "2000", SECONDS_MAX, "the new setting")
    assert setting("retention.ms") == "77777"
    with pytest.raises(KafkaException) as refused:
        create(admin, "life")
    assert refused.value.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
    admin.delete_topics(["life"])["life"].result(SECONDS_MAX)
    peers.wait_until(
        lambda: "life" not in admin.list_topics(timeout=SECONDS_MAX).topics, SECONDS_MAX, "the topic to go"
    )


def test_a_killed_broker_and_a_killed_controller_come_back(
    cluster: MixedCluster, kinds: tuple[str, str]
) -> None:
    broker = cluster.add_broker(kinds[1])
    create(admin_of(broker), "survivor")
    wait_for_leaders(broker, "survivor", 1)
    write(broker, "survivor", numbered(100, "first"))
    cluster.controller.kill()
    write(broker, "survivor", numbered(100, "second"))
    cluster.controller.start()
    create(admin_of(broker), "later")
    broker.kill()
    broker.start()
    wait_for_leaders(broker, "survivor", 1)
    wait_for_leaders(broker, "later", 1)
    write(broker, "survivor", numbered(100, "third"))
    expected = numbered(100, "first") + numbered(100, "second") + numbered(100, "third")
    assert read(broker, "survivor", 300) == expected


def test_a_broker_stops_and_starts_cleanly(cluster: MixedCluster, kinds: tuple[str, str]) -> None:
    broker = cluster.add_broker(kinds[1])
    create(admin_of(broker), "clean")
    wait_for_leaders(broker, "clean", 1)
    write(broker, "clean", numbered(50))
    assert broker.stop() in (0, 143)
    broker.start()
    wait_for_leaders(broker, "clean", 1)
    assert read(broker, "clean", 50) == numbered(50)


def test_brokers_of_both_kinds_share_a_cluster(cluster: MixedCluster) -> None:
    first, second = cluster.add_broker("ottla"), cluster.add_broker("kafka")
    create(admin_of(first), "both", 4)
    assert sorted(wait_for_leaders(second, "both", 4).values()) == [1, 1, 2, 2]
    assert wait_for_leaders(first, "both", 4) == wait_for_leaders(second, "both", 4)
    write(first, "both", numbered(200))
    assert read(second, "both", 200) == numbered(200)
    create(admin_of(second), "seconds")
    wait_for_leaders(first, "seconds", 1)
    write(second, "seconds", numbered(10))
    assert read(first, "seconds", 10) == numbered(10)


def test_a_new_broker_begins_with_a_snapshot_of_the_other_kind(
    kinds: tuple[str, str], tmp_path: Path
) -> None:
    with MixedCluster(tmp_path, kinds[0], metadata_log_max_record_bytes_between_snapshots="3000") as cluster:
        first = cluster.add_broker(kinds[0])
        admin = admin_of(first)
        for number in range(30):
            create(admin, f"topic-{number}")

        def snapshots(node: peers.BrokerProcess) -> list[str]:
            found = (node.data / "__cluster_metadata-0").glob("*.checkpoint")
            return sorted(path.name for path in found if not path.name.startswith("0" * 20))

        peers.wait_until(lambda: snapshots(cluster.controller), SECONDS_MAX, "a snapshot")
        second = cluster.add_broker(kinds[1])
        assert snapshots(second)
        known = set(admin_of(second).list_topics(timeout=SECONDS_MAX).topics)
        assert {f"topic-{number}" for number in range(30)} <= known
        create(admin_of(second), "last", 2)
        assert sorted(wait_for_leaders(first, "last", 2).values()) == [1, 2]


def test_kafkas_tool_shows_observers_of_an_ottla_quorum(tmp_path: Path) -> None:
    with MixedCluster(tmp_path, "ottla") as cluster:
        brokers = [cluster.add_broker("ottla"), cluster.add_broker("kafka")]
        places = [["--bootstrap-server", broker.bootstrap] for broker in brokers]
        places.append(["--bootstrap-controller", f"127.0.0.1:{cluster.controller.controller_port}"])
        for place in places:
            output = peers.kafka_tool(
                "org.apache.kafka.tools.MetadataQuorumCommand", *place, "describe", "--replication"
            ).stdout.decode()
            rows = {line.split()[0]: line.split() for line in output.splitlines()[1:] if line.strip()}
            assert rows[str(CONTROLLER_ID)][-1] == "Leader"
            assert rows["1"][-1] == rows["2"][-1] == "Observer"
            assert int(rows["1"][3]) < 10, output
            assert int(rows["2"][3]) < 10, output


def test_kafkas_dump_tool_reads_the_metadata_log_that_a_broker_keeps(tmp_path: Path) -> None:
    with MixedCluster(tmp_path, "kafka") as cluster:
        broker = cluster.add_broker("ottla")
        create(admin_of(broker), "dumped", 3)
        wait_for_leaders(broker, "dumped", 3)
        broker.stop()
        log = broker.data / "__cluster_metadata-0" / "00000000000000000000.log"
        output = peers.kafka_tool(
            "org.apache.kafka.tools.DumpLogSegments", "--cluster-metadata-decoder", "--files", str(log)
        ).stdout.decode()
        assert output.count('"type":"PARTITION_RECORD"') == 3
        assert "LeaderChange" in output


def test_a_broker_finds_the_next_leader_of_kafkas_quorum(tmp_path: Path) -> None:
    voters = {CONTROLLER_ID + number: peers.free_port() for number in range(3)}
    controllers = {voter: StaticVoter(tmp_path / f"controller-{voter}", voter, voters) for voter in voters}
    broker = StaticFollower(tmp_path / "broker", 1, voters)
    try:
        for controller in controllers.values():
            controller.start(wait=False)
        broker.start()
        create(admin_of(broker), "before")
        leader = int(re.findall(r"the leader of the quorum is (\d+)", broker.log_file.read_text())[-1])
        controllers[leader].kill()
        create(admin_of(broker), "after")  # waits for the election, and is sent again
        wait_for_leaders(broker, "after", 1)
        write(broker, "after", numbered(10))
        assert read(broker, "after", 10) == numbered(10)
    finally:
        for node in (broker, *controllers.values()):
            node.close()
