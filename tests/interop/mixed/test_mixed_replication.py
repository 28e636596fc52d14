"""Partitions with a replica on Kafka 4.3.1 and one on Ottla: each follows the other, byte for byte."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka.admin import NewTopic

from tests.interop import peers
from tests.interop.mixed.nodes import BrokerOnly, MixedCluster
from tests.interop.mixed.test_mixed import SECONDS_MAX, admin_of, numbered, read, write


def create(broker: BrokerOnly, topic: str, replicas: list[int]) -> None:
    new = NewTopic(topic, num_partitions=1, replica_assignment=[replicas])
    admin = admin_of(broker)
    admin.create_topics([new], operation_timeout=SECONDS_MAX)[topic].result(SECONDS_MAX)
    wait_for(broker, topic, leader=replicas[0], in_sync=set(replicas))


def wait_for(broker: BrokerOnly, topic: str, *, leader: int, in_sync: set[int]) -> None:
    def is_so() -> bool:
        partitions = admin_of(broker).list_topics(topic, timeout=SECONDS_MAX).topics[topic].partitions
        if not partitions:
            return False
        return bool(partitions[0].leader == leader and set(partitions[0].isrs) == in_sync)

    peers.wait_until(is_so, SECONDS_MAX, f"{topic} led by {leader}, in sync {in_sync}", pause_s=0.1)


def contents(broker: BrokerOnly, topic: str) -> bytes:
    """All segments of partition 0 on a broker's disk."""
    files = sorted((Path(broker.data) / f"{topic}-0").glob("*.log"))
    return b"".join(file.read_bytes() for file in files)


def epochs(broker: BrokerOnly, topic: str) -> list[int]:
    """The leader epochs of the batches, in order."""
    from ottla.records.batch import iterate_headers

    found: list[int] = []
    for _, header in iterate_headers(memoryview(bytearray(contents(broker, topic)))):
        if not found or found[-1] != header.partition_leader_epoch:
            found.append(header.partition_leader_epoch)
    return found


@pytest.mark.parametrize("controller", ["kafka", "ottla"])
def test_replicas_of_both_kinds_hold_the_same_bytes_whoever_leads(controller: str, tmp_path: Path) -> None:
    with MixedCluster(tmp_path, controller) as cluster:
        kafka, ottla = cluster.add_broker("kafka"), cluster.add_broker("ottla")
        create(kafka, "kafka-leads", [1, 2])
        create(kafka, "ottla-leads", [2, 1])
        for topic, broker in (("kafka-leads", kafka), ("ottla-leads", ottla)):
            write(broker, topic, numbered(3000))
            assert contents(kafka, topic) == contents(ottla, topic) != b""
            assert read(broker, topic, 3000) == numbered(3000)

        kafka.kill()
        for topic in ("kafka-leads", "ottla-leads"):
            wait_for(ottla, topic, leader=2, in_sync={2})
            write(ottla, topic, numbered(1000, "after"))
        kafka.start()
        for topic in ("kafka-leads", "ottla-leads"):
            wait_for(ottla, topic, leader=2, in_sync={1, 2})
            assert read(ottla, topic, 4000) == numbered(3000) + numbered(1000, "after")
            assert contents(kafka, topic) == contents(ottla, topic)

        ottla.kill()
        for topic in ("kafka-leads", "ottla-leads"):
            wait_for(kafka, topic, leader=1, in_sync={1})
            write(kafka, topic, numbered(1000, "last"))
        ottla.start()
        for topic in ("kafka-leads", "ottla-leads"):
            wait_for(kafka, topic, leader=1, in_sync={1, 2})
            assert contents(kafka, topic) == contents(ottla, topic)
        assert (len(epochs(ottla, "kafka-leads")), len(epochs(ottla, "ottla-leads"))) == (3, 2)
