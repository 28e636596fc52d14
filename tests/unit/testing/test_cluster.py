"""The public embedded cluster: nodes that can be killed, and complete cleanup."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.unit.server.asking import Asking
from tests.unit.server.nodes import leaders, wait_until

from ottla.cluster import ClusterError
from ottla.testing import BrokerFailed, Cluster
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.create_topics import CreateTopicsRequest


def create_replicated(port: int, name: str) -> None:
    topic = CreateTopicsRequest.CreatableTopic(name=name, num_partitions=1, replication_factor=3)

    def is_there() -> bool:
        with Asking(port) as client:
            response = client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7)
        return response.topics[0].error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)

    wait_until(is_there, f"topic {name}")


def produce(port: int, topic: str, value: bytes) -> None:
    """Write with acks=all and retry like a client: the node may not know yet that it leads."""

    def is_written() -> bool:
        with Asking(port) as client:
            return bool(client.produce(topic, [value]).error_code == 0)

    wait_until(is_written, f"a write to {topic}")


def leader_of(port: int, topic: str) -> int:
    with Asking(port) as client:
        return leaders(client, topic).get(0, -1)


def test_another_node_leads_when_the_leader_is_killed(ottla_cluster: Cluster) -> None:
    cluster = ottla_cluster
    assert len(cluster.bootstrap_servers.split(",")) == 3
    create_replicated(cluster.port(1), "kept")
    wait_until(lambda: leader_of(cluster.port(1), "kept") > 0, "a leader")
    first = leader_of(cluster.port(1), "kept")
    produce(cluster.port(first), "kept", b"before")
    cluster.kill(first)
    with pytest.raises(BrokerFailed, match=f"Node {first} is not running"):
        cluster.kill(first)
    assert cluster.running == [node_id for node_id in (1, 2, 3) if node_id != first]
    other = cluster.running[0]
    wait_until(lambda: leader_of(cluster.port(other), "kept") in cluster.running, "another leader")
    second = leader_of(cluster.port(other), "kept")
    produce(cluster.port(second), "kept", b"after")
    with Asking(cluster.port(second)) as client:
        assert set(client.values("kept")) == {b"before", b"after"}


def test_every_node_runs_when_the_next_test_begins(ottla_cluster: Cluster) -> None:
    assert ottla_cluster.running == [1, 2, 3]
    assert "Kafka Server started" in ottla_cluster.log_text(3)
    with pytest.raises(ClusterError, match=r"cluster has no node 9\. Its nodes are 1, 2, 3\."):
        ottla_cluster.stop(9)


def test_nodes_exit_with_their_parent_process(tmp_path: Path) -> None:
    code = (
        "import sys; from ottla.testing import Cluster\n"
        "with Cluster(1, data_directory=sys.argv[1]) as one: print(one.port(1), flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        try:
            assert process.stdout is not None
            port = int(process.stdout.readline())
            Asking(port).socket.close()
        finally:
            process.kill()

    def is_gone() -> bool:
        try:
            Asking(port).socket.close()
        except OSError:
            return True
        return False

    wait_until(is_gone, "the node to end")


def test_a_given_directory_keeps_its_cluster(tmp_path: Path) -> None:
    with Cluster(nodes=1, data_directory=tmp_path) as cluster, Asking(cluster.port(1)) as client:
        client.create_topic("kept")
        client.produce("kept", [b"x"])
    with Cluster(nodes=1, data_directory=tmp_path) as cluster, Asking(cluster.port(1)) as client:
        assert client.values("kept") == [b"x"]
    with pytest.raises(ClusterError, match="has 1 nodes, not 2"):
        Cluster(nodes=2, data_directory=tmp_path)


def test_an_impossible_cluster_is_reported() -> None:
    with pytest.raises(ClusterError, match="3 nodes cannot have 4 controllers"):
        Cluster(controllers=4)
    with pytest.raises(ClusterError, match=r"num\.partitions"):
        Cluster(nodes=1, overrides={"num.partitions": "none"})
