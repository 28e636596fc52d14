"""Three nodes with hundreds of partitions: made at once, a node restarted, deleted, and no heartbeat missed.

A heartbeat may take half of the session, which is long here: so what these nodes log as missed was held up by
themselves and not by a busy machine.
"""

from __future__ import annotations

from typing import Any

from tests.unit.server.asking import Asking
from tests.unit.server.nodes import wait_until

from ottla.server.replicas.reconciler import AT_ONCE_MAX
from ottla.testing import Cluster
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.create_topics import CreateTopicsRequest
from ottla.wire.messages.delete_topics import DeleteTopicsRequest
from ottla.wire.messages.metadata import MetadataRequest

MANY = 4 * AT_ONCE_MAX
TOPIC = "many"
SETTINGS = {"broker.session.timeout.ms": "60000", "broker.heartbeat.interval.ms": "250"}


def partitions(cluster: Cluster, node_id: int) -> list[Any]:
    """The topic in a node's Metadata response."""
    wanted = [MetadataRequest.MetadataRequestTopic(name=TOPIC)]
    with Asking(cluster.port(node_id)) as client:
        response = client.ask(MetadataRequest(topics=wanted, allow_auto_topic_creation=False), 12)
    return list(response.topics[0].partitions)


def wait_until_in_sync(cluster: Cluster) -> None:
    """Wait until all nodes report all replicas in sync."""

    def is_in_sync(node_id: int) -> bool:
        found = partitions(cluster, node_id)
        return len(found) == MANY and all(len(one.isr_nodes) == 3 and one.leader_id > 0 for one in found)

    for node_id in cluster.node_ids:
        wait_until(lambda node_id=node_id: is_in_sync(node_id), f"node {node_id} to see all in sync")  # type: ignore[misc]


def create(cluster: Cluster) -> bool:
    topic = CreateTopicsRequest.CreatableTopic(name=TOPIC, num_partitions=MANY, replication_factor=3)
    with Asking(cluster.port(1)) as client:
        response = client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 7)
    return response.topics[0].error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)


def delete(cluster: Cluster) -> bool:
    with Asking(cluster.port(1)) as client:
        response = client.ask(DeleteTopicsRequest(topic_names=[TOPIC], timeout_ms=30_000), 5)
    return response.responses[0].error_code in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def write_to_some(cluster: Cluster) -> None:
    """Write a record to every fortieth partition, with acks=all."""

    def is_written(index: int) -> bool:
        leader = next(one.leader_id for one in partitions(cluster, 1) if one.partition_index == index)
        with Asking(cluster.port(leader)) as client:
            return bool(client.produce(TOPIC, [b"one"], partition=index).error_code == 0)

    for index in range(0, MANY, 40):
        wait_until(lambda index=index: is_written(index), f"a write to partition {index}")  # type: ignore[misc]


def test_many_partitions_delay_no_heartbeat() -> None:
    with Cluster(nodes=3, overrides=SETTINGS) as cluster:
        wait_until(lambda: create(cluster), "the topic")
        wait_until_in_sync(cluster)
        write_to_some(cluster)
        cluster.restart(2)
        wait_until_in_sync(cluster)
        write_to_some(cluster)
        wait_until(lambda: delete(cluster), "the deletion")
        for node_id in cluster.node_ids:
            wait_until(lambda node_id=node_id: not partitions(cluster, node_id), "the topic to be gone")  # type: ignore[misc]
        logs = {node_id: cluster.log_text(node_id) for node_id in cluster.node_ids}
    for node_id, text in logs.items():
        missed = [
            line
            for line in text.splitlines()
            if ("eartbeat" in line and "did not answer" in line) or "has fenced" in line
        ]
        assert missed == [], f"node {node_id}"
