"""Our consumer in one classic group with others: whoever leads, each partition has one reader."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer as ConfluentConsumer
from kafka import KafkaConsumer
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

import ottla
from tests.interop.library.support import LibraryCluster, make_topic, unique

PARTITIONS = 6
PATIENCE_SECONDS = 120


class Ours:
    def __init__(self, cluster: LibraryCluster, topic: str, group: str, strategy: str) -> None:
        self._consumer = ottla.Consumer(
            cluster.bootstrap,
            group_id=group,
            topics=[topic],
            partition_assignment_strategy=strategy,
            heartbeat_interval_ms=300,
            session_timeout_ms=30_000,
        )

    def poll(self) -> set[int]:
        self._consumer.poll(timeout=0.1)
        return {partition for _, partition in self._consumer.assignment}

    def close(self) -> None:
        self._consumer.close()


class Confluent:
    def __init__(self, cluster: LibraryCluster, topic: str, group: str, strategy: str) -> None:
        self._consumer = ConfluentConsumer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "group.id": group,
                "partition.assignment.strategy": strategy,
                "heartbeat.interval.ms": 300,
                "session.timeout.ms": 30_000,
            }
        )
        self._consumer.subscribe([topic])

    def poll(self) -> set[int]:
        self._consumer.poll(0.1)
        return {one.partition for one in self._consumer.assignment()}

    def close(self) -> None:
        self._consumer.close()


class KafkaPython:
    def __init__(self, cluster: LibraryCluster, topic: str, group: str, strategy: str) -> None:
        assert strategy == "sticky"
        self._consumer = KafkaConsumer(
            topic,
            bootstrap_servers=cluster.bootstrap,
            group_id=group,
            partition_assignment_strategy=[StickyPartitionAssignor],
            heartbeat_interval_ms=300,
            session_timeout_ms=30_000,
        )

    def poll(self) -> set[int]:
        self._consumer.poll(timeout_ms=100)
        return {one.partition for one in self._consumer.assignment()}

    def close(self) -> None:
        self._consumer.close()


Member = Ours | Confluent | KafkaPython


def wait_for(members: list[Member], fits: Callable[[list[set[int]]], bool]) -> list[set[int]]:
    """Poll all members until what they have fits."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        found = [member.poll() for member in members]
        if fits(found):
            return found
        assert time.monotonic() < deadline, f"the members still have {found}"


def is_shared(found: list[set[int]]) -> bool:
    return [len(one) for one in found] == [3, 3] and len(set[int]().union(*found)) == PARTITIONS


def has_all(found: list[set[int]]) -> bool:
    return [len(one) for one in found] == [PARTITIONS]


# Members talk to one coordinator, so one node does.
@pytest.mark.parametrize("cluster", ["ottla-1", "kafka"], indirect=True, scope="session")
@pytest.mark.parametrize(
    ("strategy", "other"),
    [
        ("range", Confluent),
        ("roundrobin", Confluent),
        ("cooperative-sticky", Confluent),
        ("sticky", KafkaPython),
    ],
)
def test_each_partition_has_one_reader_whoever_leads(
    cluster: LibraryCluster, strategy: str, other: Any
) -> None:
    topic, group = make_topic(cluster, "mixed", PARTITIONS), unique("mixed")
    members: list[Member] = []

    def add(kind: Any) -> None:
        members.append(kind(cluster, topic, group, strategy))

    try:
        add(Ours)
        wait_for(members, has_all)
        add(other)  # ours leads
        wait_for(members, is_shared)
        members.pop(0).close()
        wait_for(members, has_all)
        add(Ours)  # the other leads
        wait_for(members, is_shared)
    finally:
        for member in members:
            member.close()
