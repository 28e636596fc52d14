"""Clusters under measurement: three nodes of one kind on this machine, each both controller and broker.

To a load a cluster looks like one broker: its CPU time is that of all nodes, its memory that of the
largest.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.interop.peers import BrokerProcess, KafkaBroker, OttlaBroker, free_port, wait_until

from bench.contenders import BROKER_JVM, SETTINGS, Contender
from bench.ottla_forms import PlainOttla
from bench.plain_client import Client
from bench.results import KAFKA, PLAIN
from ottla.wire.messages.describe_quorum import DescribeQuorumRequest

NODES = (1, 2, 3)
MIN_INSYNC = {"min.insync.replicas": "2"}
_TIMEOUT_S = 60.0


class Cluster:
    """Nodes 1 to 3 of one kind. They keep their data and ports across `kill`, `stop` and `start`."""

    def __init__(self, name: str, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        self.name = name
        ports = {node_id: free_port() for node_id in NODES}
        everyone = {
            **SETTINGS,
            "controller.quorum.voters": ",".join(f"{one}@127.0.0.1:{port}" for one, port in ports.items()),
            "controller.quorum.bootstrap.servers": ",".join(f"127.0.0.1:{port}" for port in ports.values()),
            **(settings or {}),
        }
        self.nodes: dict[int, BrokerProcess] = {}
        for node_id in NODES:
            options = {"properties": everyone, "controller_port": ports[node_id]}
            place = directory / f"node-{node_id}"
            node: BrokerProcess
            if name == KAFKA:
                node = KafkaBroker(place, jvm=BROKER_JVM, **options)  # type: ignore[arg-type]
            elif name == PLAIN:
                node = PlainOttla(place, **options)  # type: ignore[arg-type]
            else:
                node = OttlaBroker(place, **options)  # type: ignore[arg-type]
            node.node_id = node_id
            self.nodes[node_id] = node

    @property
    def bootstrap(self) -> str:
        return ",".join(node.bootstrap for node in self.nodes.values())

    def start(self) -> None:
        for node in self.nodes.values():
            node.start(wait=False)
        for node in self.nodes.values():
            node.wait_ready()
        wait_until(
            lambda: len(self.admin().list_topics(timeout=_TIMEOUT_S).brokers) == len(NODES),
            _TIMEOUT_S,
            f"the {len(NODES)} nodes of {self.name} to know each other",
        )

    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap, "socket.timeout.ms": 60_000, "log_level": 0})

    def processes(self) -> dict[int, psutil.Process]:
        return {
            node_id: psutil.Process(node.pid)
            for node_id, node in self.nodes.items()
            if node.process is not None
        }

    def cpu_s(self) -> float:
        return sum(cpu_s(process) for process in self.processes().values())

    def memory_mb(self) -> float:
        return max(float(process.memory_info().rss) for process in self.processes().values()) / 1e6

    def create_topic(self, topic: str, partitions: int, replicas: Sequence[int] | None = None) -> None:
        """Create a topic on all nodes, or with one partition on `replicas`; wait until it is in sync."""
        if replicas is None:
            new = NewTopic(topic, partitions, len(NODES), config=dict(MIN_INSYNC))
        else:
            new = NewTopic(topic, 1, replica_assignment=[list(replicas)], config=dict(MIN_INSYNC))
        admin = self.admin()
        admin.create_topics([new], request_timeout=60, operation_timeout=60)[topic].result(_TIMEOUT_S)
        self.wait_in_sync(topic, partitions)

    def wait_in_sync(self, topic: str, partitions: int) -> None:
        """Wait until every partition has all its replicas in sync, and a leader."""
        admin = self.admin()

        def is_in_sync() -> bool:
            try:
                found = admin.list_topics(topic, timeout=_TIMEOUT_S).topics[topic].partitions
            except KafkaException:
                return False
            return len(found) == partitions and all(
                one.leader >= 0 and len(one.isrs) == len(NODES) for one in found.values()
            )

        wait_until(is_in_sync, _TIMEOUT_S, f"{topic} to be in sync on {self.name}")

    def wait_for_files(self, topic: str, partitions: int) -> None:
        """Wait until every node has a log of every partition, which may happen after the create response."""

        def has_all(data: Path) -> bool:
            return sum(name.startswith(f"{topic}-") for name in os.listdir(data)) == partitions

        wait_until(
            lambda: all(has_all(node.data) for node in self.nodes.values()),
            _TIMEOUT_S,
            f"the logs of {topic} on {self.name}",
            pause_s=0.05,
        )

    def delete_topic(self, topic: str) -> None:
        """Delete a topic and wait until its files are deleted everywhere."""
        admin = self.admin()
        admin.delete_topics([topic], request_timeout=60)[topic].result(_TIMEOUT_S)
        wait_until(
            lambda: not any(self._has_files(node.data, topic) for node in self.nodes.values()),
            _TIMEOUT_S,
            f"the files of {topic} to be gone from {self.name}",
            pause_s=0.1,
        )

    def _has_files(self, data: Path, topic: str) -> bool:
        return any(name.startswith(f"{topic}-") or name.endswith("-delete") for name in os.listdir(data))

    def active_controller(self) -> int:
        """The node that leads the quorum."""
        partition = DescribeQuorumRequest.PartitionData(partition_index=0)
        topic = DescribeQuorumRequest.TopicData(topic_name="__cluster_metadata", partitions=[partition])
        for node in self.nodes.values():
            if node.process is None:
                continue
            with Client(node.port) as client:
                response = client.ask(DescribeQuorumRequest(topics=[topic]), 0)
            if not response.error_code and not response.topics[0].partitions[0].error_code:
                return int(response.topics[0].partitions[0].leader_id)
        return -1

    def close(self) -> None:
        for node in self.nodes.values():
            node.close()


class ClusterContender(Contender):
    """A running cluster in place of one broker."""

    def __init__(self, name: str, directory: Path) -> None:
        self.name = name
        self.cluster = Cluster(name, directory)
        self.cluster.start()
        self.broker = self.cluster.nodes[NODES[0]]

    @property
    def bootstrap(self) -> str:
        return self.cluster.bootstrap

    def cpu_s(self) -> float:
        return self.cluster.cpu_s()

    def memory_mb(self) -> float:
        return self.cluster.memory_mb()

    def create_topic(self, topic: str, partitions: int) -> None:
        self.cluster.create_topic(topic, partitions)

    def delete_topic(self, topic: str) -> None:
        self.cluster.delete_topic(topic)

    def close(self) -> None:
        self.cluster.close()


def cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)
